"""Goal: a condition takes the rows that it takes of a list, few rows or many.

Method: random types, rows and conditions; who reads a few rows at once has them evaluated one by
one, who reads all at once has DuckDB do it.
"""

from pathlib import Path

from tests.events.query.drawn import CONTEXTS, Drawn, merged_kinds
from tests.events.query.plain import rows_of
from tests.events.stored import StoredEvents
from tests.thin import thinned
from typed_events.language.commands import Query, Subscribe
from typed_events.subscriptions.frames import CaughtUp, Rows
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.subscriptions import Subscriptions

CONDITIONS = 25


@thinned("seed", range(60), count=2)
def test_condition_takes_the_rows_of_a_list(root: Path, seed: int) -> None:
    drawn = Drawn(seed)
    fields = drawn.fields()
    with StoredEvents(root) as stored:
        stored.define("order", fields)
        contexts = [drawn.rng.choice(CONTEXTS) for _ in range(80)]
        stored.store("order", contexts, [drawn.event(fields) for _ in contexts])
        kinds = merged_kinds([fields])
        few = Subscriptions(root, SubscriptionOptions(rows_at_once=40))
        many = Subscriptions(root, SubscriptionOptions(rows_at_once=4_096))
        for _ in range(CONDITIONS):
            where = drawn.expression(kinds)
            context = drawn.rng.choice((None, *CONTEXTS))
            query = Query("order", context, where=where)
            expected = [row["id"] for row in rows_of(query, stored.events, {"order": [*kinds]})]
            command = Subscribe("order", context, where, "start")
            for subscriptions in (few, many):
                assert ids_until_caught_up(subscriptions, command) == expected, command
        few.close()
        many.close()


def ids_until_caught_up(subscriptions: Subscriptions, command: Subscribe) -> list[str]:
    """Return the positions that are told before all is caught up with."""
    ids: list[str] = []
    with subscriptions.subscribe(command) as frames:
        for frame in frames:
            if isinstance(frame, CaughtUp):
                break
            if isinstance(frame, Rows):
                ids += [str(each) for each in frame.batch.column("id").to_pylist()]
    return ids
