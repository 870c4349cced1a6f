"""Goal: streams that stay open between queries show each query what is committed, and no more.

Method: a writer appends, seals, trims, compacts and makes streams anew while the same store is
asked; the rows are compared with those written.
"""

import os
from contextlib import closing
from threading import Event as Signal
from threading import Thread

import pytest

from storage_core import drop_stream
from storage_core.sql.pool.pooled_stream import PooledStream
from storage_core.sql.pool.stream_pool import PoolOptions
from tests.events.query.test_queries_at_random import rows_in
from tests.events.stored import StoredEvents
from tests.log.parts.parts_lab import give_up_a_block
from tests.snapshots import copy_of
from typed_events.language.commands import Aggregate, Query, Replay
from typed_events.language.expressions import Comparison, Field
from typed_events.query.queries import Queries

FIELDS = {"number": "int", "text": "string"}
WAIT_S = 120.0
COUNT = Query("order", aggregates=(Aggregate("count"), Aggregate("total", Field("number"))))


def some(first: int, count: int):
    return [{"number": n, "text": f"text-{n}"} for n in range(first, first + count)]


def contexts(first: int, count: int) -> list[str]:
    return [f"ctx-{n % 3}" for n in range(first, first + count)]


def test_each_query_sees_what_was_committed_before_it_while_a_writer_goes_on(root):
    with StoredEvents(root, block_records=32) as stored, Queries(root) as queries:
        stored.define("order", FIELDS)
        stored.store("order", contexts(0, 1), some(0, 1))
        stop, failures = Signal(), []

        def read() -> None:
            while not stop.is_set():
                before = len(stored.events)
                ((count, total),) = (tuple(r.values()) for r in rows_in(queries.query(COUNT)))
                of_one = len(rows_in(queries.query(Query("order", "ctx-1"))))
                if count < before or total != count * (count - 1) // 2 or of_one < before // 3 - 1:
                    failures.append((before, count, total, of_one))

        readers = [Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for turn in range(40):
            first = len(stored.events)
            stored.store("order", contexts(first, 7), some(first, 7))
            if turn % 6 == 5:
                stream = stored.streams["order"]
                stream.seal()
                stream.compact()
                stream.trim()
        stop.set()
        for reader in readers:
            reader.join()
        assert failures == []
        assert rows_in(queries.query(COUNT))[0]["count"] == len(stored.events)


def test_a_query_that_runs_keeps_its_moment(root):
    with StoredEvents(root) as stored, Queries(root) as queries:
        stored.define("order", FIELDS)
        stored.store("order", contexts(0, 60_000), some(0, 60_000))
        stored.streams["order"].seal()
        answer = queries.query(Query("order"))
        first = next(answer.batches)
        stored.store("order", contexts(0, 10), some(0, 10))
        assert rows_in(queries.query(COUNT))[0]["count"] == 60_010
        rest = sum(batch.num_rows for batch in answer.batches)
        assert first.num_rows + rest == 60_000


def test_a_stream_that_is_made_anew_is_opened_anew(root):
    with Queries(root) as queries:
        for turn in range(2):
            with StoredEvents(root) as stored:
                if turn:
                    drop_stream(root, "order")
                    drop_stream(root, "_types")
                stored.define("order", {**FIELDS, f"turn{turn}": "int | null"})
                stored.store("order", ["a"] * (turn + 1), some(0, turn + 1))
                rows = rows_in(queries.query(Query("order")))
                assert len(rows) == turn + 1
                assert f"turn{turn}" in rows[0]


def test_rows_whose_loss_is_accepted_are_not_shown_though_they_were_decoded(root):
    with StoredEvents(root, block_records=4) as stored, Queries(root) as queries:
        stored.define("order", FIELDS)
        for turn in range(3):
            stored.store("order", contexts(turn * 4, 4), some(turn * 4, 4))
        assert len(rows_in(queries.query(Query("order")))) == 12
        give_up_a_block(stored.streams["order"])
        rows = rows_in(queries.query(Query("order")))
        assert 0 < len(rows) < 12
        with Queries(root) as others:
            assert rows == rows_in(others.query(Query("order")))


@pytest.mark.parametrize("openings", [1, 2])
@pytest.mark.parametrize("more", [1, 20])
def test_rows_of_before_a_copy_was_restored_are_not_shown_again(root, openings, more):
    with StoredEvents(root) as stored, Queries(root) as queries:
        stored.define("order", FIELDS)
        stored.store("order", contexts(0, 10), some(0, 10))
        stored.reopen()
        copy = copy_of(root / "order", root.parent / "copy")
        stored.store("order", contexts(10, 10), some(10, 10))
        assert len(rows_in(queries.query(Query("order")))) == 20
        stored.restore("order", copy)
        for _ in range(openings):
            stored.reopen()
        stored.store("order", contexts(30, more), some(30, more))
        numbers = [*range(10), *range(30, 30 + more)]
        for query in (Query("order"), Query("order", where=Comparison(Field("number"), ">=", 0))):
            assert [row["number"] for row in rows_in(queries.query(query))] == numbers


class SlowStream(PooledStream):
    """A stream whose disk is slow to open it."""

    opened = 0
    begun, may_go_on = Signal(), Signal()

    def __init__(self, root, name):
        if name == "slow":
            SlowStream.opened += 1
            self.begun.set()
            assert self.may_go_on.wait(WAIT_S)
        super().__init__(root, name)


def test_a_stream_that_is_slow_to_open_holds_up_no_other_and_is_opened_once(root, monkeypatch):
    with StoredEvents(root) as stored:
        for name in ("order", "slow"):
            stored.define(name, FIELDS)
            stored.store(name, contexts(0, 3), some(0, 3))
    monkeypatch.setattr("storage_core.sql.pool.stream_pool.PooledStream", SlowStream)
    counts = []
    with Queries(root) as queries:

        def ask() -> None:
            counts.append(len(rows_in(queries.query(Query("slow")))))

        askers = [Thread(target=ask) for _ in range(2)]
        for asker in askers:
            asker.start()
        assert SlowStream.begun.wait(WAIT_S)
        assert len(rows_in(queries.query(Query("order")))) == 3
        assert counts == []
        SlowStream.may_go_on.set()
        for asker in askers:
            asker.join()
    assert counts == [3, 3]
    assert SlowStream.opened == 1


def test_a_replay_of_more_types_than_stay_open_opens_those_alone_that_are_not(root, monkeypatch):
    opened: list[str] = []

    class Counted(PooledStream):
        def __init__(self, root, name):
            opened.append(name)
            super().__init__(root, name)

    monkeypatch.setattr("storage_core.sql.pool.stream_pool.PooledStream", Counted)
    names = [f"order_{number}" for number in range(6)]
    options = PoolOptions(streams_max=4)
    with StoredEvents(root) as stored, Queries(root, options) as queries:
        for number, name in enumerate(names):
            stored.define(name, FIELDS)
            stored.store(name, ["ctx-1"], some(number, 1))
        for _ in range(3):
            opened.clear()
            rows = rows_in(queries.replay(Replay("ctx-1")))
            assert [row["event_type"] for row in rows] == names
        # To learn whose rows they are, to read them, and to see what has come behind.
        assert len(opened) == 3 * (len(names) - 4)


def test_a_fork_that_closes_queries_leaves_those_of_its_parent(root):
    with StoredEvents(root) as stored, Queries(root) as queries:
        stored.define("order", FIELDS)
        stored.store("order", contexts(0, 3), some(0, 3))
        assert len(rows_in(queries.query(Query("order")))) == 3
        child = os.fork()
        if child == 0:
            code = 1
            try:
                queries.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(rows_in(queries.query(Query("order")))) == 3


@pytest.mark.parametrize("hot_bytes_max", [0, 2**29])
def test_hot_rows_are_right_whether_they_stay_decoded_or_not(root, hot_bytes_max):
    options = PoolOptions(hot_bytes_max=hot_bytes_max)
    with StoredEvents(root, block_records=64) as stored, Queries(root, options) as queries:
        stored.define("order", FIELDS)
        for turn in range(1, 12):
            first = len(stored.events)
            stored.store("order", contexts(first, turn**2), some(first, turn**2))
            expected = [e["number"] for e in stored.events if e["context_id"] == "ctx-2"]
            rows = rows_in(queries.query(Query("order", "ctx-2")))
            assert [row["number"] for row in rows] == expected
            where = Comparison(Field("context_id"), "=", "ctx-2")
            assert rows_in(queries.query(Query("order", where=where))) == rows


def test_a_context_of_many_undecoded_rows_is_read_alone(root):
    with StoredEvents(root) as stored, Queries(root) as queries:
        stored.define("order", FIELDS)
        stored.store("order", contexts(0, 40_000), some(0, 40_000))
        rows = rows_in(queries.query(Query("order", "ctx-1")))
        assert [row["number"] for row in rows] == [*range(1, 40_000, 3)]
        assert rows_in(queries.query(COUNT))[0]["count"] == 40_000
        assert rows_in(queries.query(Query("order", "ctx-1"))) == rows


def test_rows_that_are_searched_again_and_again_are_decoded_once(root):
    with StoredEvents(root) as stored:
        stored.define("order", FIELDS)
        stored.store("order", contexts(0, 40_000), some(0, 40_000))
        with closing(PooledStream(root, "order")) as stream:
            counts = [stream.snapshot((b"ctx-1",)).hot_rows for _ in range(2)]
            assert stream.cache_bytes == 0
            counts += [stream.snapshot((b"ctx-1",)).hot_rows for _ in range(6)]
            assert counts == [13_333] * 8
            assert stream.cache_bytes > 0
