"""EXPECT: how many events a context has, over all types, decided in the commit."""

import threading
from datetime import timedelta

import pytest

from storage_core import StreamReader
from tests.events.store.bench import stored
from typed_events.answer import Status
from typed_events.language.parse import parse


def test_expect_counts_events_of_all_types(bench):
    bench.must("order", "ann", "EXPECT NONE", amount=1)
    bench.must("pay", "ann", "EXPECT 1", amount=1)
    bench.must("order", "bob", "EXPECT 0", amount=1)
    assert bench.store("order", "bob", "EXPECT NONE", amount=1).message == (
        "context bob has 1 event, not 0"
    )
    answer = bench.store("order", "ann", "EXPECT 1", amount=2)
    assert answer.status is Status.CONFLICT
    assert answer.message == "context ann has 2 events, not 1"
    bench.must("order", "ann", "EXPECT 2", amount=2)
    bench.must("order", "ann", "EXPECT ANY", amount=3)
    assert len(bench.events("order")) == 4


@pytest.mark.parametrize("leave", ["reopen", "crash"])
@pytest.mark.parametrize("contexts_cached", [1, 1000])
def test_count_is_the_same_for_whoever_opens_the_store_next(make_bench, leave, contexts_cached):
    bench = make_bench(contexts_cached=contexts_cached)
    bench.define("order", amount="int")
    for number in range(3):
        bench.must("order", "ann", amount=number)
        bench.must("order", "bob", amount=number)
    getattr(bench, leave)()
    assert bench.store("order", "ann", "EXPECT 2", amount=0).status is Status.CONFLICT
    bench.must("order", "ann", "EXPECT 3", amount=0)
    bench.must("order", "bob", "EXPECT 3", amount=0)


@pytest.mark.parametrize(
    ("event_type", "clauses", "is_written_down"),
    [
        ("order", "EXPECT 1", True),
        ("order", "EXPECT ANY", False),
        ("pay", "EXPECT 1", False),
    ],
    ids=["of another type", "of any", "of its type"],
)
def test_event_that_counts_one_of_its_group_is_stored_with_it_or_not_at_all(
    bench, event_type, clauses, is_written_down
):
    """Else a crash between the commits of two types leaves it alone, behind what never was."""
    bench.must("order", "bob", amount=0)
    first, second = (
        parse(text)
        for text in (
            stored("pay", "ann", amount=1),
            stored(event_type, "ann", clauses, amount=2),
        )
    )
    answers = bench.store_of_events.execute_all([first, second])
    assert [answer.status for answer in answers] == [Status.OK, Status.OK]
    with StreamReader.open(bench.root, "_batches") as reader:
        assert reader.committed()[0] == is_written_down


def test_refused_event_does_not_count(bench):
    assert bench.store("order", "ann", "EXPECT 5", amount=1).status is Status.CONFLICT
    assert bench.store("order", "ann", amount="x").status is Status.BAD_REQUEST
    bench.must("order", "ann", "EXPECT NONE", amount=1)


def test_events_that_expired_count(make_bench):
    bench = make_bench(retention=timedelta(days=1))
    bench.define("order", amount="int")
    bench.must("order", "ann", amount=1)
    bench.clock.advance(5 * 86_400)
    bench.store_of_events.maintain()
    bench.must("order", "ann", "EXPECT 1", amount=2)


def test_one_of_those_who_expect_the_same_is_stored(bench):
    """Many at once, so that several are in one group, over two types."""
    answers = []
    start = threading.Barrier(8)

    def run(number: int) -> None:
        for event in range(5):
            start.wait()
            event_type = ("order", "pay")[number % 2]
            answers.append(bench.store(event_type, "ann", f"EXPECT {event}", amount=number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [answer.status for answer in answers]
    assert (statuses.count(Status.OK), statuses.count(Status.CONFLICT)) == (5, 35)
    assert len(bench.events("order")) + len(bench.events("pay")) == 5
