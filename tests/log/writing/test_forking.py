"""Goal: a forked child leaves its parent's streams alone, and says so in one line.

Method: calls made in a fork of the test's own process; what the fork ends with goes through a
pipe. Where the fork ends as an interpreter does, with all its objects, it is one of a script.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from storage_core import (
    ClosedError,
    DirectoryLock,
    InvalidRequestError,
    PartBuilder,
    StagingArea,
    StagingWriter,
    Stream,
    StreamReader,
    Transaction,
    TransactionId,
)
from tests.log.workbench import Workbench, batch_of
from tests.unit.forks import in_fork
from tests.waiting import WAIT_MAX_S


def expect_refusal(call: Callable[[], object]) -> None:
    answer = in_fork(call)
    assert isinstance(answer, ClosedError), answer
    assert f"opened in process {os.getpid()}, of which this one is a fork" in str(answer)


READS: dict[str, tuple[Any, ...]] = {
    "available": (1, 0, 5),
    "committed": (),
    "dead_letters": (0,),
    "earliest": (1, 0),
    "first_committed_ms": (0, 0),
    "for_each": (1, 0, 5, print),
    "gaps": (),
    "latest": (1,),
    "lost_ranges": (),
    "part_marks": (),
    "parts": (),
    "read": (1,),
    "scan": (),
    "schemas": (),
    "source": (0,),
    "stats": (),
    "tail": (0,),
    "unsealed": (),
    "untrimmed": (),
    "close": (),
    "__exit__": (None, None, None),
}
WRITES: dict[str, tuple[Any, ...]] = {
    "accept_loss": (0, 0, 1),
    "alter": (),
    "append": (5, 1, b"x"),
    "append_batch": (batch_of([5]),),
    "attachments": (0, [b"a"]),
    "clear_attachments": (0, b"a", b"b"),
    "clear_dead_letters": (0, [1]),
    "commit": (),
    "compact": (),
    "expire": (),
    "finish_transactions": (),
    "judge": (batch_of([5]), 0),
    "maintain": (),
    "skip": (0, 9),
    "seal": (),
    "transaction": ("t", 1),
    "trim": (),
    "verify": (),
}
OF_A_READER: dict[str, tuple[Any, ...]] = {
    "born": (0,),
    "horizon": (0,),
    "missing": (0, 0, 1),
    "position": (),
    "refresh": (),
    "shard": (0,),
    "start": (0,),
    "verify": (),
    "wait": (0, 5, 0.0),
}
OF_A_TRANSACTION: dict[str, tuple[Any, ...]] = {
    "append": (5, 1, b"x"),
    "append_batch": (batch_of([5]),),
    "__enter__": (),
    "__exit__": (None, None, None),
}
OF_A_STAGING_WRITER: dict[str, tuple[Any, ...]] = {
    "write": (batch_of([5]),),
    "finish": (),
    "abandon": (),
    "close": (),
}
# What stands in memory, or opens a stream of its own.
SERVED = {
    "create",
    "open",
    "add_shards",
    "archive_shards",
    "archived_lineages",
    "options",
    "origin",
    "has_ids",
    "lineage",
    "is_replay",
}


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    """A stream that every fork asks in vain, and a reader beside it."""
    bench = Workbench(tmp_path_factory.mktemp("forks"), "stream")
    bench.keep([1, 2, 3])
    with bench.read_beside() as reader:
        reader.refresh()
        yield bench.stream, reader
    bench.release()


@pytest.fixture
def filled(bench: Workbench) -> Workbench:
    bench.keep([1, 2, 3])
    return bench


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (Stream, READS | WRITES),
        (StreamReader, READS | OF_A_READER),
        (Transaction, OF_A_TRANSACTION),
        (StagingWriter, OF_A_STAGING_WRITER),
    ],
)
def test_every_public_call_is_among_those_tried(kind, calls):
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert public - SERVED == {name for name in calls if not name.startswith("_")}


@pytest.mark.parametrize("name", READS | WRITES)
def test_writer_of_the_parent_refuses(parents, name):
    expect_refusal(lambda: getattr(parents[0], name)(*(READS | WRITES)[name]))


@pytest.mark.parametrize("name", READS | OF_A_READER)
def test_reader_of_the_parent_refuses(parents, name):
    expect_refusal(lambda: getattr(parents[1], name)(*(READS | OF_A_READER)[name]))


@pytest.mark.parametrize("name", OF_A_TRANSACTION)
def test_transaction_of_the_parent_refuses_and_goes_on_there(filled, name):
    with filled.stream.transaction("t", 2) as transaction:
        transaction.append(4, 1, b"x")
        expect_refusal(lambda: getattr(transaction, name)(*OF_A_TRANSACTION[name]))
        transaction.append(5, 1, b"x")
    assert filled.primaries() == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("nothing_gathered")
@pytest.mark.parametrize("name", OF_A_STAGING_WRITER)
def test_staging_writer_of_the_parent_refuses_and_goes_on_there(filled, name):
    area, id_ = StagingArea.open(filled.root, filled.name), TransactionId("app", 1)
    writer = area.writer(id_)
    for primary in (4, 5):
        writer.write(batch_of([primary]))
    expect_refusal(lambda: getattr(writer, name)(*OF_A_STAGING_WRITER[name]))
    area.publish(id_, writer.finish())
    filled.stream.finish_transactions()
    assert filled.primaries() == [1, 2, 3, 4, 5]


def test_fork_can_stage_rows_of_its_own(filled):
    def stage() -> list[int]:
        writer = area.writer(TransactionId("app", 1))
        writer.write(batch_of([4]))
        return [sum(part.rows for part in parts) for parts in writer.finish().values()]

    area = StagingArea.open(filled.root, filled.name)
    assert in_fork(stage) == [1]


def test_scan_that_was_under_way_is_refused_and_goes_on_in_the_parent(make_bench):
    bench = make_bench(block_records=2)
    bench.keep(range(20))
    scan = bench.stream.scan()
    first = next(scan).num_rows
    expect_refusal(lambda: next(scan))
    assert first + sum(batch.num_rows for batch in scan) == 20


def test_block_that_a_fork_leaves_by_an_exception_is_left_to_the_parent(filled):
    def leave_all() -> list[object]:
        error = KeyError()
        return [one.__exit__(KeyError, error, None) for one in (transaction, filled.stream, reader)]

    with filled.read_beside() as reader, filled.stream.transaction("t", 1) as transaction:
        transaction.append_batch(batch_of([4]))
        filled.stream.append(9, 1, b"unsealed")
        assert in_fork(leave_all) == [None] * 3
    filled.commit()
    assert filled.primaries() == [1, 2, 3, 4, 9]


def test_fork_waits_for_no_lock_that_a_thread_of_the_parent_holds(filled):
    with filled.held_by_another_thread(), filled.store_held_by_another_thread():
        for name in ("append", "commit", "read", "close"):
            expect_refusal(partial(getattr(filled.stream, name), *(READS | WRITES)[name]))


def test_fork_can_read_through_a_reader_of_its_own(filled):
    def read() -> list[int]:
        with filled.read_beside() as reader:
            return [batch.num_rows for batch in reader.scan()]

    assert in_fork(read) == [3]


def test_fork_is_refused_writers_of_its_own_and_makes_nothing(filled):
    answer = in_fork(lambda: Stream.create(filled.root, "of-the-fork"))
    assert isinstance(answer, InvalidRequestError)
    assert "start processes that write by spawn" in str(answer)
    assert not (filled.root / "of-the-fork").exists()


SCRIPT = """
import os, sys
from storage_core import Stream, StreamOptions, StreamReader

stream = Stream.create(sys.argv[1], "s", StreamOptions(shards=1, unit="sequence", block_records=64))
for at in range(1000):
    stream.append(at, 7, b"x" * 100)
stream.commit()
reader = StreamReader.open(sys.argv[1], "s")
scans = [stream.scan(), reader.scan()]
rows = [next(scan).num_rows for scan in scans]
transaction = stream.transaction("t", 3000)
for at in range(2000):
    transaction.append(at, 7, b"staged")
child = os.fork()
if not child:
    if sys.argv[2] == "exit":
        sys.exit(0)
    os.read(0, 1)
    os._exit(0)
if sys.argv[2] == "die":
    os.kill(os.getpid(), 9)
assert os.waitpid(child, 0) == (child, 0)
with transaction:
    for at in range(1000):
        transaction.append(at, 7, b"staged")
stream.append(5000, 7, b"after")
stream.commit()
print([first + sum(batch.num_rows for batch in scan) for first, scan in zip(rows, scans)])
reader.close()
os.kill(os.getpid(), 9)
"""


def test_fork_that_ends_with_all_its_objects_changes_nothing(root):
    command = [sys.executable, "-c", SCRIPT, os.fspath(root), "exit"]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=WAIT_MAX_S)
    assert ended.stdout.strip() == b"[1000, 1000]", ended.stderr
    with Stream.open(root, "s") as stream:
        assert stream.lost_ranges() == {0: []}
        assert stream.read(7).num_rows == 4001
        assert stream.verify().is_clean


def test_lock_ends_with_its_process_though_a_fork_lives_on(root):
    command = [sys.executable, "-c", SCRIPT, os.fspath(root), "die"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as parent:
        parent.wait(60)
        with Stream.open(root, "s") as stream:
            assert stream.read(7).num_rows == 1000


def test_fork_does_not_wait_for_a_turn_that_is_not_for_it(bench):
    area = StagingArea.open(bench.root, bench.name)
    bench.staging.mkdir(exist_ok=True)
    turn = DirectoryLock.if_free(bench.staging)
    assert turn is not None
    with turn:
        answer = in_fork(lambda: area.open_shards([0], 0))
    assert isinstance(answer, InvalidRequestError)
    assert "start processes that write by spawn" in str(answer)


def test_fork_leaves_the_process_that_makes_parts_alone(bench):
    bench.stream.alter(seal_rows=1)
    bench.keep(range(10))
    with PartBuilder() as builder:
        assert bench.stream.maintain(builder).rows_sealed == 10
        expect_refusal(builder.close)
        bench.keep(range(10, 20))
        assert bench.stream.maintain(builder).rows_sealed == 10
        assert builder.deaths == 0
