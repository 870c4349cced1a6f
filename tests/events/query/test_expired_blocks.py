"""Goal: queries leave out blocks that expired behind a row that stays, and say so of no other.

Method: a shard with a row that stays before blocks that do not; each way of asking is compared with
the rows that the log's own reads have.
"""

import pytest

from storage_core.sql import connect
from tests.events.query.test_queries_at_random import rows_in
from tests.log.expiry.shelf import NOW, Shelf
from tests.log.fixtures import make_bench
from tests.log.served import served
from typed_events.language.commands import Query, Replay
from typed_events.query.queries import Queries

__all__ = ["make_bench"]


@pytest.fixture
def straggling(make_bench):
    """A shelf with blocks before and behind a row that stays, and what is there after expiry."""
    shelf = Shelf(make_bench)
    shelf.put(3, secondary=9)
    for hours in range(-40, -10):
        shelf.put(hours, 4, secondary=1)
    shelf.put(-1, 2, secondary=9)
    return shelf


@pytest.mark.parametrize("is_asked_before", [False, True])
def test_blocks_that_expired_behind_a_row_that_stays_are_left_out(straggling, is_asked_before):
    bench = straggling.bench
    remaining = [NOW + 3 * 3600, NOW - 3600, NOW - 3599]
    with Queries(bench.root) as queries:
        if is_asked_before:
            assert len(rows_in(queries.query(Query(bench.name)))) == 123
        straggling.expire()
        for context in (None, "9"):
            rows = rows_in(queries.query(Query(bench.name, context)))
            assert [int(row["timestamp"].timestamp()) for row in rows] == remaining
        assert rows_in(queries.query(Query(bench.name, "1"))) == []
    with served(bench.root) as address:
        for place in (bench.root, address):
            with connect(place) as connection:
                text = f'SELECT "primary" FROM "{bench.name}" ORDER BY address'
                assert [row[0] for row in connection.sql(text).fetchall()] == remaining
    with Queries(bench.root) as queries:
        assert len(rows_in(queries.replay(Replay("9", bench.name)))) == len(remaining)
        located = queries.located(Query(bench.name), lambda _, __: {0: 0})
        assert sum(batch.num_rows for batch in located.batches) == len(remaining)
