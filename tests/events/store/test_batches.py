"""BATCH: of each context all events are stored or none, also over types."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from storage_core import drop_stream
from storage_core.testing import SimulatedCrash
from tests.events.store.bench import StoreBench, rows_of, stored
from tests.snapshots import copy_of
from typed_events.answer import Status


def batch(*stores: str) -> str:
    return f"BATCH [ {'; '.join(stores)}; ]"


def test_batch_has_a_row_for_each_of_its_events(bench):
    answer = bench.do(
        batch(
            stored("order", "ann", amount=1),
            stored("pay", "ann", amount=1),
            stored("order", "bob", amount=2),
        )
    )
    assert (answer.status, answer.message) == (Status.OK, "stored 3 events")
    assert [(row["context_id"], row["event_type"], row["id"]) for row in rows_of(answer)] == [
        ("ann", "order", "0:0"),
        ("ann", "pay", "0:0"),
        ("bob", "order", "0:1"),
    ]


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (stored("pay", "ann", amount="x"), Status.BAD_REQUEST),
        (stored("nothing", "ann", amount=1), Status.NOT_FOUND),
        (stored("pay", "ann", "EXPECT 7", amount=1), Status.CONFLICT),
    ],
)
def test_event_that_is_refused_takes_those_of_its_context_with_it(bench, second, status):
    answer = bench.do(
        batch(stored("order", "ann", amount=1), second, stored("order", "bob", amount=2))
    )
    assert answer.status is status
    assert answer.message.startswith("stored 1 of 3 events: ")
    assert [row["id"] for row in rows_of(answer)] == [None, None, "0:0"]
    assert [context for context, _, _ in bench.events("order")] == ["bob"]
    assert bench.events("pay") == []


def test_expect_counts_the_events_before_it_in_the_batch(bench):
    answer = bench.do(
        batch(
            stored("order", "ann", "EXPECT NONE", amount=1),
            stored("pay", "ann", "EXPECT 1", amount=1),
            stored("pay", "ann", "EXPECT 2", amount=2),
        )
    )
    assert answer.status is Status.OK
    bench.must("order", "ann", "EXPECT 3", amount=4)


def test_batch_that_comes_again_is_answered_as_at_first(bench):
    text = batch(
        stored("order", "ann", 'IDEMPOTENCY "1"', amount=1),
        stored("pay", "ann", 'IDEMPOTENCY "2"', amount=1),
        stored("pay", "ann", 'IDEMPOTENCY "2"', amount=1),
    )
    first = rows_of(bench.do(text))
    bench.crash()
    assert rows_of(bench.do(text)) == first
    assert [row["id"] for row in first] == ["0:0", "0:0", "0:0"]
    assert (len(bench.events("order")), len(bench.events("pay"))) == (1, 1)


def crash_at(bench: StoreBench, call: int, text: str) -> bool:
    """Do a command on a disk that crashes at a call; tell whether it came so far."""
    bench.disk.crash_at = bench.disk.calls + call
    answer = bench.do(text)
    has_crashed: bool = bench.disk.calls >= bench.disk.crash_at
    assert has_crashed or answer.status is Status.OK
    bench.crash()
    return has_crashed


def test_crash_at_any_call_leaves_a_batch_whole_or_not_there_and_a_retry_completes_it(make_bench):
    bench = make_bench()
    bench.define("order", amount="int")
    bench.define("pay", amount="int")
    bench.must("order", "bob", amount=0)
    bench.must("pay", "bob", amount=0)
    call, is_crashing, both = 0, True, 0
    while is_crashing:
        call += 1
        text = batch(
            stored("order", "ann", f'IDEMPOTENCY "{call}"', amount=call),
            stored("pay", "ann", f'IDEMPOTENCY "{call}"', amount=call),
        )
        is_crashing = crash_at(bench, call, text)
        bench.must("order", "bob", amount=call)
        orders, pays = (
            [fields["amount"] for context, _, fields in bench.events(name) if context == "ann"]
            for name in ("order", "pay")
        )
        assert orders == pays, f"torn at call {call}"
        both += orders[-1:] == [call]
        assert bench.do(text).status is Status.OK
        assert [context for context, _, _ in bench.events("order")].count("ann") == call
    # The journal's, two appends, their syncs and markers.
    assert call > 8
    assert both > 3, "where the journal was durable the batch is finished"
    bench.must("pay", "ann", f"EXPECT {2 * call}", amount=0)


def test_type_that_was_dropped_and_made_anew_has_no_event_of_the_last_batch(bench):
    """Of the journal's last batch nothing is missing in the new stream, though it is empty."""
    bench.do(batch(stored("order", "ann", amount=1), stored("pay", "ann", amount=1)))
    bench.close()
    drop_stream(bench.root, "pay")
    bench.reopen()
    bench.define("pay", amount="int")
    bench.reopen()
    bench.must("order", "bob", amount=2)
    assert bench.events("pay") == []


@pytest.mark.parametrize("mend", ["drop", "copy"])
def test_older_copy_of_one_type_is_taken_once_the_batches_since_are_gone(bench, shardlog, mend):
    """What the last batch goes on from is missing: an error says so, and what to do."""
    bench.must("order", "ann", amount=1)
    bench.close()
    copies = {
        name: copy_of(bench.root / name, bench.root.parent / f"copy of {name}")
        for name in ("order", "_batches")
    }
    bench.reopen()
    bench.must("order", "ann", amount=2)
    bench.do(batch(stored("order", "ann", amount=3), stored("pay", "ann", amount=3)))
    bench.close()
    shutil.rmtree(bench.root / "order")
    copy_of(copies["order"], bench.root / "order")
    bench.reopen()
    assert bench.store("pay", "ann", amount=4).status is Status.INTERNAL_ERROR
    answer = bench.store("order", "ann", amount=4)
    assert answer.status is Status.INTERNAL_ERROR
    assert "an older copy of order was put back" in answer.message
    bench.close()
    if mend == "drop":
        _, written, _ = answer.message.split("`")
        _, *words = written.split()
        said = shardlog(*[bench.root if word == "ROOT" else word for word in words])
        assert said.code == 0, said.err
    else:
        shutil.rmtree(bench.root / "_batches")
        copy_of(copies["_batches"], bench.root / "_batches")
    bench.reopen()
    bench.must("order", "ann", amount=4)
    assert [fields["amount"] for _, _, fields in bench.events("order")] == [1, 4]
    assert [fields["amount"] for _, _, fields in bench.events("pay")] == [3]


def test_batch_whose_journal_is_not_committed_in_time_is_not_called_refused(make_bench):
    """It is written down, so whoever opens the store next stores it."""
    bench = make_bench()
    bench.define("order", amount="int")
    bench.define("pay", amount="int")
    bench.must("order", "bob", amount=0)
    text = batch(
        stored("order", "ann", 'IDEMPOTENCY "1"', amount=1),
        stored("pay", "ann", 'IDEMPOTENCY "1"', amount=1),
    )
    (journal,) = bench.store_of_events._writer._streams.journal._shards.values()
    journal.guard.wait_max_s = 0.2
    with held(journal.guard.committing):
        answer = bench.do(text)
    assert answer.status is Status.INTERNAL_ERROR
    assert "it is not known whether it was stored" in answer.message
    bench.must("order", "bob", amount=0)
    assert [context for context, _, _ in bench.events("pay")] == ["ann"]
    assert bench.do(text).status is Status.OK
    assert len(bench.events("pay")) == 1


@contextmanager
def held(lock: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Let another thread hold a lock."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock():
            is_held.set()
            is_over.wait(300)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(300)
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_simulated_crash_is_none_that_a_store_hides():
    assert not issubclass(SimulatedCrash, Exception)
