"""What a shard shows at any moment: one state, its marks in order, its heads at the marker.

Each call is looked at where another thread could: between two bytecodes of the shard, or while
the disk has it.
"""

from dataclasses import replace

import pytest

from storage_core.heads import HeadTable
from storage_core.read_request import ReadRequest
from storage_core.scan_shard import scan_view
from storage_core.shard_heads import BLOCKS_PER_SNAPSHOT
from storage_core.shard_state import ShardState, Tail
from storage_core.standing import Standing, is_in_order
from tests.unit.storage_core.hooked_disk import HookedDisk
from tests.unit.storage_core.stepping import at_each_step
from tests.unit.storage_core.workbench import column_of


@pytest.fixture
def hooked():
    return HookedDisk()


@pytest.fixture
def bench(make_bench, hooked):
    return make_bench(unit="sequence", environment=hooked.environment)


def standing(*, heads: int, publishable: int, tail: int) -> Standing:
    state = ShardState.unborn(0)
    state = replace(state, heads_through=heads, tail=replace(state.tail, next=tail))
    return Standing(state, publishable)


@pytest.mark.parametrize(
    ("heads", "committed", "publishable", "tail"),
    [(6, 5, 5, 9), (0, 6, 5, 9), (0, 5, 10, 9), (10, 9, 9, 9)],
)
def test_marks_out_of_order_are_seen(heads, committed, publishable, tail):
    assert is_in_order(5, standing(heads=5, publishable=7, tail=9))
    wrong = standing(heads=heads, publishable=publishable, tail=tail)
    assert not is_in_order(committed, wrong)


def test_held_rows_are_publishable_only_once_all_are_in():
    state = ShardState(Tail(9, 9, ShardState().tail.counters))
    held = Standing(ShardState(), 0).after(state, holds_publishing=True)
    assert (held.publishable, held.batches) == (0, 1)
    assert held.all_publishable() == Standing(ShardState(), 0).after(state, holds_publishing=False)


def test_what_was_taken_is_never_out_of_sight_of_commit(bench):
    """A commit that overlooked rows on their way to the store would return without them."""
    bench.append([1])
    bench.commit()
    bench.stream.append(2, 1, b"")
    seen = []
    at_each_step(bench.shard._seal, lambda: seen.append(bench.shard.needs_commit))
    assert len(seen) > 100
    assert all(seen)


def test_accepted_loss_is_lost_or_a_gap_at_every_moment(bench):
    bench.append([1])
    bench.append([2])
    bench.close()
    bench.damage_block(1)
    bench.open()
    seen = set()

    def look() -> None:
        view = bench.shard.view()
        seen.add((len(view.bounds.lost), len(view.bounds.gaps)))
        view.close()

    at_each_step(lambda: bench.stream.accept_loss(0, 1, 2), look)
    assert seen == {(1, 0), (0, 1)}


def test_latest_is_the_committed_row_at_every_moment_of_a_commit(bench):
    bench.append([1])
    bench.commit()
    bench.append([2])
    seen = set()

    def look() -> None:
        if bench.shard._heads._committed_lock.locked():
            return
        before, row = bench.stream.committed()[0], bench.stream.latest(1)[1].primary
        seen.add((before, row))

    at_each_step(bench.commit, look)
    assert seen == {(1, 1), (2, 2)}


def test_latest_knows_a_row_as_soon_as_the_marker_says_it_is_committed(bench, hooked):
    bench.append([1])
    bench.commit()
    bench.append([2])
    seen = []
    hooked.on("after publish", lambda: seen.append(bench.stream.latest(1)[1].primary))
    bench.commit()
    assert seen == [bench.stream.read(1)["primary"].to_pylist()[-1]] == [2]


def test_view_holds_all_that_its_bounds_cover_whatever_is_committed_meanwhile(bench):
    views = []

    def commit_another() -> None:
        bench.append([bench.shard.tail.next])
        bench.commit()

    at_each_step(lambda: views.append(bench.shard.view()), commit_another)
    (view,) = views
    committed = view.bounds.committed
    scan = scan_view(view, ReadRequest(0, columns=("address",)))
    assert column_of((batch for batch, _ in scan), "address") == list(range(committed))
    assert committed <= view.bounds.blocks_end <= bench.shard.tail.next
    view.close()


@pytest.mark.parametrize("moment", ["before view", "after view"])
def test_latest_of_all_knows_heads_that_leave_memory_while_it_looks(bench, hooked, moment):
    """A head is in memory or on disk at each moment, and goes from the one to the other."""
    bench.shard._heads._committed = HeadTable(capacity=4)
    bench.append(range(20), secondary=list(range(20)))
    bench.commit()

    def let_heads_go() -> None:
        for primary in range(100, 100 + 2 * BLOCKS_PER_SNAPSHOT):
            bench.append([primary], secondary=99)
            bench.commit()
        assert len(bench.shard._heads._committed) < 20

    # The first view is the answer's own, the second is for heads.
    hooked.on("after view", lambda: hooked.on(moment, let_heads_go))
    assert set(bench.stream.latest()) == set(range(20))
