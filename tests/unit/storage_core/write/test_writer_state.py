"""What a shard shows at any moment: one state, its marks in order, its heads at the marker.

Each call is looked at where another thread could: between two bytecodes of the shard, or while
the disk has it.
"""

from dataclasses import replace

import pytest

from storage_core.format.shard_state import ShardState
from storage_core.read.answer import scan_snapshot
from storage_core.read.request import ReadRequest
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.writer_state import WriterState, is_in_order
from tests.log.workbench import Workbench, column_of
from tests.unit.storage_core.write.stepping import at_each_step


@pytest.fixture
def bench(make_bench, hooked):
    return make_bench(unit="sequence", environment=hooked.environment)


def standing(*, heads: int, publishable: int, tail: int) -> WriterState:
    state = ShardState.unborn(0)
    state = replace(state, heads_through=heads, tail=replace(state.tail, next=tail))
    return WriterState(state, publishable)


@pytest.mark.parametrize(
    ("heads", "committed", "taken", "publishable", "tail"),
    [(6, 5, 5, 5, 9), (0, 6, 5, 5, 9), (0, 5, 6, 5, 9), (0, 5, 5, 10, 9), (10, 9, 9, 9, 9)],
)
def test_marks_out_of_order_are_seen(heads, committed, taken, publishable, tail):
    right = standing(heads=5, publishable=7, tail=9)
    assert is_in_order(5, 6, 0, right)
    assert not is_in_order(5, 6, 1, right)
    wrong = standing(heads=heads, publishable=publishable, tail=tail)
    assert not is_in_order(committed, taken, 0, wrong)


def test_what_was_taken_is_never_out_of_sight_of_commit(bench):
    """A commit that overlooked rows on their way to the store would return without them."""
    bench.keep([1])
    bench.stream.append(2, 1, b"")
    seen = []
    at_each_step(bench.shard._flush, lambda: seen.append(bench.shard.needs_commit))
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
        view = bench.shard.snapshots.committed()
        seen.add((len(view.state.lost), len(view.state.gaps)))
        view.close()

    at_each_step(lambda: bench.stream.accept_loss(0, 1, 2), look)
    assert seen == {(1, 0), (0, 1)}


def test_latest_is_the_committed_row_at_every_moment_of_a_commit(bench):
    bench.keep([1])
    bench.append([2])
    seen = set()

    def look() -> None:
        if bench.shard.commit_path._heads._committed_lock.locked():
            return
        before, row = bench.stream.committed()[0], bench.stream.latest(1)[1].primary
        seen.add((before, row))

    at_each_step(bench.commit, look)
    assert seen == {(1, 1), (2, 2)}


def test_latest_knows_a_row_as_soon_as_the_marker_says_it_is_committed(bench, hooked):
    bench.keep([1])
    bench.append([2])
    seen = []
    hooked.on("after publish", lambda: seen.append(bench.stream.latest(1)[1].primary))
    bench.commit()
    assert seen == [bench.stream.read(1)["primary"].to_pylist()[-1]] == [2]


def commit_another(bench: Workbench) -> None:
    """Commit a row, and behind it addresses without rows."""
    bench.append([1])
    bench.keep([], source={"next": bench.shard.tail.next + 5})


def expect_whole(bench: Workbench, view: ShardSnapshot) -> None:
    """Expect all rows of a view up to what it says is committed."""
    scan = scan_snapshot(view, ReadRequest(0, columns=("address",)))
    addresses = column_of((batch for batch, _ in scan), "address")
    end = view.committed
    assert addresses == [address for address in bench.tail("address") if address < end]
    view.close()


@pytest.mark.parametrize("moment", ["before snapshot", "after snapshot"])
def test_view_holds_all_that_its_bounds_cover_whatever_is_committed_at_its_opening(
    bench, hooked, moment
):
    commit_another(bench)
    hooked.on(moment, lambda: commit_another(bench))
    expect_whole(bench, bench.shard.snapshots.committed())


def test_view_holds_all_that_its_bounds_cover_whatever_is_committed_at_each_step(bench):
    views: list[ShardSnapshot] = []
    commit_another(bench)
    at_each_step(
        lambda: views.append(bench.shard.snapshots.committed()), lambda: commit_another(bench)
    )
    expect_whole(bench, views[0])
