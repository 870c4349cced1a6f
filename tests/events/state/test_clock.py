"""State while the clock steps back, and behind a batch that was finished late."""

import pytest

from storage_core import Environment, Stream
from tests.events.state.rows import TTL_S
from tests.events.store.bench import stored


def test_row_is_there_that_is_stored_behind_a_clock_that_stepped_back(bench):
    bench.put("ann", "a", 1)
    bench.clock.advance(10 * TTL_S)
    bench.store_of_events.maintain()
    bench.clock.advance(-9 * TTL_S)
    bench.put("ann", "b", 2)
    assert bench.rows() == [("ann", "b", 2)]
    bench.reopen()
    bench.put("ann", "c", 3)
    assert bench.rows() == [("ann", "b", 2), ("ann", "c", 3)]


@pytest.mark.parametrize("call", range(1, 9))
def test_batch_is_finished_whose_rows_are_past_their_time_by_then(bench, call):
    bench.put("ann", "a", 1)
    bench.must("order", "ann", amount=1)
    batch = (
        'BATCH [ STORE cursor FOR ann ROW b PAYLOAD { "x": 2 }; '
        f"{stored('order', 'ann', amount=2)} ]"
    )
    bench.disk.crash_at = bench.disk.calls + call
    bench.do(batch)
    bench.crash()
    bench.clock.advance(2 * TTL_S)
    environment = Environment(bench.clock)
    with Stream.open(bench.root, "cursor", environment=environment) as stream:
        stream.expire()
    bench.put("ann", "c", 3)
    amounts = [fields["amount"] for _, _, fields in bench.events("order")]
    # It was written down, or not.
    assert amounts in ([1], [1, 2])
    assert bench.rows() == [("ann", "c", 3)]
    # Positions go on behind those of the batch.
    assert bench.put("ann", "c", 4) == f"stored at 0:{len(amounts) + 1}"
