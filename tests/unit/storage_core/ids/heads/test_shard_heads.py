"""A writer's heads: written ones as of the last row, committed ones as of the marker."""

import pytest

from storage_core.engine.key_value import Batch
from storage_core.format.head import decode_heads, decode_most
from storage_core.format.keys import INT64_MAX, INT64_MIN, PREFIX_HEAD, head_key
from storage_core.format.shard_state import KEY_HEADS, KEY_HEADS_MOST, encode_int
from storage_core.ids.heads.grouping import Int32s, group
from storage_core.ids.heads.shard_heads import BLOCKS_PER_SNAPSHOT, ShardHeads
from storage_core.ids.heads.table import Heads, HeadTable
from tests.log.batches import puts_of
from tests.unit.storage_core.ids.heads.test_table import dict_of, heads_of
from tests.unit.storage_core.strategies import int32_array, int64_array


class Disk:
    """What went to disk under head keys, and what the marker says."""

    def __init__(self) -> None:
        self.committed = 0
        self.values: dict[bytes, bytes] = {}
        self.lookups = 0

    def load(self, keys: list[bytes]) -> list[bytes | None]:
        self.lookups += len(keys)
        return [self.values.get(key) for key in keys]

    def take(self, batch: Batch) -> None:
        self.values |= {key: value for _, key, value in puts_of(batch)}

    def publish(self, committed: int) -> None:
        self.committed = committed

    def committed_heads(self, heads: ShardHeads, ids: Int32s | None) -> dict[int, int]:
        """Return largest primaries as a view finds them: in memory, else on disk."""
        in_memory = heads.as_of_committed(ids, lambda _committed, table: table)
        in_table = dict_of(in_memory.heads)
        on_disk = [item for item in self.values.items() if item[0][:1] == PREFIX_HEAD]
        chosen = {**dict_of(Heads(*decode_heads(on_disk))), **in_table}
        return {one: head[0] for one, head in chosen.items() if ids is None or one in ids}

    @property
    def written_through(self) -> int:
        return int.from_bytes(self.values.get(KEY_HEADS, b""), "little")

    def heads(self, most: int = INT64_MIN) -> ShardHeads:
        return ShardHeads(self.load, lambda: self.committed, self.committed, most)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def heads(disk):
    return disk.heads()


def write(heads: ShardHeads, end: int, blocks: int = 1, **primaries: int) -> None:
    """Write rows that make primaries the heads of ids given as `_1=10`."""
    written = {int(name[1:]): (primary, end - 1, end - 1) for name, primary in primaries.items()}
    heads.written(end, heads_of(written), blocks)


def largest(heads: Heads) -> dict[int, int]:
    return {secondary: head[0] for secondary, head in dict_of(heads).items()}


ONE = int32_array([1])


def test_writing_sees_rows_at_once_readers_only_once_committed(heads, disk):
    write(heads, 5, _1=10)
    assert (largest(heads.find(ONE)), disk.committed_heads(heads, ONE)) == ({1: 10}, {})
    disk.publish(5)
    assert disk.committed_heads(heads, ONE) == {1: 10}


def test_commit_in_the_middle_shows_the_heads_up_to_there(heads, disk):
    write(heads, 5, _1=10)
    write(heads, 8, _1=20)
    disk.publish(5)
    assert disk.committed_heads(heads, ONE) == {1: 10}


def test_heads_whose_taking_over_is_cut_short_are_taken_over_by_the_next_who_asks(
    heads, disk, monkeypatch
):
    write(heads, 5, _1=10)
    disk.publish(5)
    monkeypatch.setattr(HeadTable, "put", interrupt)
    with pytest.raises(KeyboardInterrupt):
        disk.committed_heads(heads, ONE)
    monkeypatch.undo()
    assert disk.committed_heads(heads, ONE) == {1: 10}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_many_commits_without_a_read_lose_nothing(heads, disk):
    for end in range(1, 200):
        write(heads, end, _1=end, **{f"_{end + 1000}": end})
        disk.publish(end)
    assert disk.committed_heads(heads, ONE) == {1: 199}
    assert len(disk.committed_heads(heads, None)) == 200


def test_heads_of_many_batches_that_nobody_commits_are_kept_as_one(heads, disk):
    for end in range(1, 1000):
        write(heads, end, _1=end)
    assert len(heads._pending) < 100
    disk.publish(999)
    assert disk.committed_heads(heads, ONE) == {1: 999}


@pytest.mark.parametrize("taken", [100, 500, 899])
def test_end_taken_before_others_were_written_shows_the_heads_up_to_there(heads, disk, taken):
    for end in range(1, 1000):
        write(heads, end, _1=end)
        if end == taken:
            assert heads.take(lambda: taken) == taken
    disk.publish(taken)
    assert disk.committed_heads(heads, ONE) == {1: taken}
    disk.publish(999)
    assert disk.committed_heads(heads, ONE) == {1: 999}


def test_row_that_is_not_below_any_before_it_asks_nothing_of_the_disk(heads, disk):
    write(heads, 5, _1=10)
    disk.publish(5)
    snapshot(heads, disk, 5)
    fresh = disk.heads(most=10)
    groups, anything = group(int32_array([1, 2, 3])), (INT64_MIN, INT64_MAX)
    fresh.find_for(groups, int64_array([10, 10, 11]), anything, 2**31)
    assert disk.lookups == 0
    stored = fresh.find_for(groups, int64_array([9, 10, 11]), anything, 2**31)
    assert (largest(stored), disk.lookups) == ({1: 10}, 1)


def test_disk_says_what_no_head_is_above(heads, disk):
    write(heads, 5, _1=10, _2=-3)
    disk.publish(5)
    snapshot(heads, disk, 5)
    assert decode_most(disk.values[KEY_HEADS_MOST]) == 10


def snapshot(heads: ShardHeads, disk: Disk, end: int) -> int | None:
    """Let enough blocks pass and write the heads that are due."""
    heads.written(end, heads_of({}), BLOCKS_PER_SNAPSHOT)
    batch = Batch()
    through = heads.put_if_due(batch, disk.written_through)
    disk.take(batch)
    if through is not None:
        heads.snapshot_written(through)
    return through


def test_heads_go_to_disk_only_after_enough_blocks(heads, disk):
    write(heads, 5, blocks=BLOCKS_PER_SNAPSHOT - 1, _1=10)
    disk.publish(5)
    assert heads.put_if_due(Batch(), 0) is None
    write(heads, 6, blocks=1, _1=11)
    assert heads.put_if_due(Batch(), 0) == 5


def test_disk_never_speaks_of_a_row_above_the_marker(heads, disk):
    write(heads, 5, _1=10)
    disk.publish(5)
    write(heads, 9, _1=20, _2=30)
    assert snapshot(heads, disk, 9) == 5
    assert disk.values[KEY_HEADS] == encode_int(5)
    assert head_key(2) not in disk.values
    assert disk.committed_heads(disk.heads(), ONE) == {1: 10}


def test_nothing_goes_to_disk_while_nothing_is_committed(heads, disk):
    write(heads, 5, _1=10)
    assert snapshot(heads, disk, 5) is None
    assert disk.values == {}


def test_second_snapshot_holds_only_what_changed(heads, disk):
    write(heads, 5, _1=10, _2=20)
    disk.publish(5)
    snapshot(heads, disk, 5)
    del disk.values[head_key(1)], disk.values[head_key(2)]
    write(heads, 9, _2=30)
    disk.publish(9)
    assert snapshot(heads, disk, 9) == 9
    assert set(disk.values) == {KEY_HEADS, KEY_HEADS_MOST, head_key(2)}


def test_heads_below_the_snapshot_are_not_put_again_after_a_reopen(heads, disk):
    write(heads, 5, _1=10)
    disk.publish(5)
    snapshot(heads, disk, 5)
    again = disk.heads()
    disk.publish(5)
    assert snapshot(again, disk, 5) is None


def test_view_is_of_the_moment_of_its_heads_and_no_heads_go_to_disk_meanwhile(heads, disk):
    write(heads, 5, _1=10)
    disk.publish(5)

    def open_view(committed: int, in_memory: HeadTable) -> tuple[int, dict[int, int]]:
        disk.committed = 9
        assert heads._committed_lock.locked()
        return committed, largest(in_memory.heads)

    write(heads, 9, _1=20)
    assert heads.as_of_committed(ONE, open_view) == (5, {1: 10})
    assert heads.as_of_committed(ONE, open_view) == (9, {1: 20})
