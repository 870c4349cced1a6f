"""Updates of the same rows take no more room than those of the TTL, and a window more."""

from tests.events.state.rows import StateBench
from tests.events.store.bench import rows_of

IDS = 10
UPDATES_A_MINUTE = 400
MINUTES = 12
# The TTL, two minutes, the window that began before it, the one now, and a block that spans two.
MINUTES_KEPT = 5


def test_updates_of_the_same_rows_take_bounded_room(bench: StateBench) -> None:
    bench.well('DEFINE seen FIELDS { n: "int" } AS STATE TTL 2m')
    for minute in range(MINUTES):
        stores = (
            f'STORE seen FOR ann ROW {n % IDS} PAYLOAD {{"n": {minute}}}'
            for n in range(UPDATES_A_MINUTE)
        )
        bench.well(f"BATCH [ {'; '.join(stores)} ]")
        bench.store_of_events.maintain()
        rows = rows_of(bench.well("QUERY seen FOR ann"))
        assert [row["n"] for row in rows] == [minute] * IDS
        start, end = bench.start_and_end("seen")
        assert end - start <= MINUTES_KEPT * UPDATES_A_MINUTE
        bench.clock.advance(60)
