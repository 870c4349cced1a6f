"""The newest row of each id: one block an id, whatever else the shard holds and whoever writes.

It reaches inside: what is claimed is how much is looked up, and for which moment.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from storage_core import ReadRequest, ShardPoisonedError
from storage_core.engine.key_value import StoreSnapshot
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG, PREFIX_AHEAD, head_key
from storage_core.ids.heads.shard_heads import BLOCKS_PER_SNAPSHOT
from storage_core.read.answer import scan_snapshot
from storage_core.read.snapshot import ShardSnapshot
from tests.log.disks import ReinedDisk
from tests.log.transactions.test_transaction import transact_in_parts
from tests.log.workbench import Workbench, batch_of, each_a_write, rows_of
from tests.unit.storage_core.strategies import head_value, int32_array

NOW = ReinedDisk().clock.now_ns() // 10**9
DAY = 86400
ALL = ReadRequest(0, order="newest", columns=("secondary", "primary", "address"))


class CountingStore:
    """A snapshot of a store that counts what is looked up in each family."""

    def __init__(self, store: StoreSnapshot) -> None:
        self._store = store
        self.lookups = {FAMILY_DEFAULT: 0, FAMILY_LOG: 0}

    def items(self, family: str, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        for item in self._store.items(family, start, end):
            self.lookups[family] += 1
            yield item

    def at_or_before(self, family: str, key: bytes) -> tuple[bytes, bytes] | None:
        self.lookups[family] += 1
        return self._store.at_or_before(family, key)

    def at_or_after(self, family: str, key: bytes) -> tuple[bytes, bytes] | None:
        self.lookups[family] += 1
        return self._store.at_or_after(family, key)

    def bytes_under(self, family: str, start: bytes, end: bytes) -> int:
        return self._store.bytes_under(family, start, end)

    def segment_location(self, key: bytes) -> str | None:
        return self._store.segment_location(key)

    def close(self) -> None:
        self._store.close()


def counted(snapshot: ShardSnapshot) -> CountingStore:
    """Let what a snapshot looks up be counted from now on."""
    store = CountingStore(snapshot._store)
    snapshot._store = snapshot._blocks._store = store
    return store


def newest(snapshot: ShardSnapshot, request: ReadRequest = ALL) -> dict[int, int]:
    """Return the primary of each id's newest row."""
    rows = rows_of(batch for batch, _ in scan_snapshot(snapshot, request))
    return {row["secondary"]: row["primary"] for row in rows}


def of_writer(bench: Workbench) -> ShardSnapshot:
    return bench.shard.snapshots.with_heads(None)


# --- beside a writer --------------------------------------------------------------------------


def test_snapshot_of_a_writer_that_went_on_reads_a_block_an_id(bench):
    for number in range(100):
        bench.append([number, number], secondary=[1, 2])
    bench.commit()
    snapshot = of_writer(bench)
    store = counted(snapshot)
    for number in range(100, 200):
        bench.keep([number, number], secondary=[1, 2])
    assert newest(snapshot) == {1: 99, 2: 99}
    assert store.lookups[FAMILY_LOG] == 1
    assert newest(of_writer(bench)) == {1: 199, 2: 199}


def test_snapshot_whose_heads_left_memory_finds_them_on_disk(bench):
    bench.keep([5], secondary=7)
    bench.shard.commit_path._heads._committed._capacity = 2
    for number in range(2 * BLOCKS_PER_SNAPSHOT):
        bench.keep([number], secondary=100 + number)
    assert 7 not in bench.shard.commit_path._heads._committed.heads.ids.tolist()
    snapshot = of_writer(bench)
    for number in range(10, 10 + 2 * BLOCKS_PER_SNAPSHOT):
        bench.keep([number], secondary=7)
    assert newest(snapshot)[7] == 5


def test_older_of_two_snapshots_of_a_reader_does_not_take_the_newers_heads(bench):
    for number in range(3 * BLOCKS_PER_SNAPSHOT):
        bench.keep([number])
    with bench.read_beside() as reader:
        older = reader._open.by_number[0]._snapshot()
        bench.keep([1000])
        newer = reader._open.by_number[0]._snapshot()
        assert newest(newer) == {1: 1000}
        store = counted(older)
        assert newest(older) == {1: 3 * BLOCKS_PER_SNAPSHOT - 1}
        assert store.lookups[FAMILY_LOG] <= BLOCKS_PER_SNAPSHOT + 2


def test_reader_that_saw_the_heads_on_disk_move_replays_blocks_once_all_the_same(bench):
    def fill(blocks: int) -> None:
        for number in range(blocks):
            bench.keep([number])

    fill(1)
    with bench.read_beside() as reader:
        follower = reader._open.by_number[0]
        before = follower._snapshot()
        newest(before)
        fill(3 * BLOCKS_PER_SNAPSHOT - BLOCKS_PER_SNAPSHOT // 2)
        first = follower._snapshot()
        newest(first)
        assert before.state.heads_through < first.state.heads_through < first.committed - 1
        again = follower._snapshot()
        store = counted(again)
        newest(again)
        assert store.lookups[FAMILY_LOG] == 1


def test_reader_whose_store_is_ahead_of_the_marker_it_read_answers_from_its_heads(bench, hooked):
    for number in range(3 * BLOCKS_PER_SNAPSHOT):
        bench.keep([number])

    def write_heads() -> None:
        for number in range(1000, 1000 + 2 * BLOCKS_PER_SNAPSHOT):
            bench.keep([number])

    with bench.read_beside() as reader:
        follower = reader._open.by_number[0]
        follower._marker = hooked.before(follower._marker)
        hooked.on("after read", write_heads)
        snapshot = follower._snapshot()
        assert snapshot.committed == snapshot.state.heads_through > 3 * BLOCKS_PER_SNAPSHOT
        store = counted(snapshot)
        assert newest(snapshot) == {
            1: 1000 + snapshot.state.heads_through - 3 * BLOCKS_PER_SNAPSHOT - 1
        }
        assert store.lookups[FAMILY_LOG] <= BLOCKS_PER_SNAPSHOT


# --- beside late rows -------------------------------------------------------------------------


def test_late_rows_of_other_ids_cost_nothing(make_bench):
    bench = make_bench(unit="s")
    long_ago = NOW - 200 * DAY
    bench.append([long_ago] * 50, secondary=list(range(50)))
    for day in range(1, 100):
        bench.append([long_ago + day * DAY + 100, long_ago + day * DAY], secondary=99)
    bench.commit()
    snapshot = of_writer(bench)
    store = counted(snapshot)
    assert newest(snapshot) == {99: long_ago + 99 * DAY + 100} | dict.fromkeys(range(50), long_ago)
    assert store.lookups[FAMILY_LOG] == 2
    assert store.lookups[FAMILY_DEFAULT] < 100


# --- beside ahead rows ------------------------------------------------------------------------


@pytest.fixture
def clocked(make_bench):
    """A stream in seconds that calls ahead what lies more than ten of them above its clock."""
    return make_bench(unit="s", disk=ReinedDisk(), ahead_max=10)


def test_ahead_rows_of_others_and_of_long_ago_cost_a_look_an_id(clocked):
    for number in range(100):
        clocked.append([NOW + 1000 + number] * 5, secondary=[1, 2, 3, 4, 1000 + number])
    clocked.keep([NOW] * 3, secondary=[1, 2, 5])
    snapshot = clocked.shard.snapshots.with_heads(IDS)
    store = counted(snapshot)
    assert newest(snapshot, OF_IDS) == {1: NOW + 1099, 2: NOW + 1099, 5: NOW}
    assert store.lookups[FAMILY_LOG] == 2
    assert store.lookups[FAMILY_DEFAULT] < 15


IDS = int32_array([1, 2, 5, 6])
OF_IDS = replace(ALL, ids=(1, 2, 5, 6))


def keys_of_ahead_rows(bench: Workbench) -> list[bytes]:
    """Return the keys by which ahead rows are found; the stream must be closed."""
    store = bench.store()
    view = store.snapshot()
    keys = [key for key, _ in view.items(FAMILY_DEFAULT, PREFIX_AHEAD, b"g")]
    store.close()
    return keys


def test_ahead_rows_of_a_transaction_that_is_given_up_leave_nothing(make_bench, disk):
    bench = make_bench(unit="s", disk=disk, ahead_max=10, block_records=1)
    bench.append([NOW, NOW + 20])
    disk.failing = {"third write"}
    parts = (batch_of([NOW + count] * count) for count in (26, 40, 5))
    with pytest.raises(ShardPoisonedError):
        transact_in_parts(bench, 71, *each_a_write(parts))
    disk.failing = set()
    bench.crash()
    shutil.rmtree(bench.staging)
    assert len(keys_of_ahead_rows(bench)) > 1
    bench.open(give_up_transactions=["t"])
    assert newest(of_writer(bench)) == {1: NOW + 20}
    bench.close()
    assert len(keys_of_ahead_rows(bench)) == 1


# --- where heads do not answer ----------------------------------------------------------------


def test_id_whose_newest_rows_were_given_up_has_the_one_before(make_bench):
    bench = make_bench(jitter=2)
    for number in range(50):
        bench.append([number, number], secondary=[1, 2])
    bench.append([60, 70], secondary=[1, 3])
    bench.close()
    bench.damage_block(100)
    bench.open().accept_loss(0, 100, 102)
    snapshot = of_writer(bench)
    store = counted(snapshot)
    assert newest(snapshot) == {1: 49, 2: 49}
    assert store.lookups[FAMILY_LOG] < 10
    with bench.read_beside() as reader:
        assert {one: row.primary for one, row in reader.latest().items()} == {1: 49, 2: 49}


def test_of_equal_primaries_the_last_wins_though_an_ahead_record_shows_the_first(make_bench):
    bench = make_bench(unit="s", jitter=3, disk=ReinedDisk())
    end = NOW + 3 * DAY
    # Another id's ahead record, inside the bounds, makes the search look at this block first.
    bench.keep([end, end + 1, end + 1, NOW], secondary=[2, 2, 1, 1])
    bench.keep([NOW])
    bench.keep([NOW - 3])
    pieces = scan_snapshot(of_writer(bench), replace(ALL, end=end))
    assert [row["address"] for row in rows_of(batch for batch, _ in pieces)] == [4, 0]


def test_bounded_search_ends_once_the_ids_own_rows_allow(make_bench):
    bench = make_bench(jitter=3)
    for number in range(200):
        bench.append([number, number - 2])
    bench.commit()
    snapshot = of_writer(bench)
    store = counted(snapshot)
    assert newest(snapshot, replace(ALL, end_address=300)) == {1: 149}
    assert newest(snapshot, replace(ALL, end=80)) == {1: 80}
    assert newest(snapshot, replace(ALL, end=80, start=80, versions=(5,))) == {}
    assert store.lookups[FAMILY_LOG] < 20


def test_head_that_points_at_another_row_does_not_decide_and_verify_tells(bench):
    bench.append([1, 2], secondary=[1, 2])
    bench.close()
    bench.call_heads_written(through=2)
    bench.change((FAMILY_DEFAULT, head_key(1), head_value(1, 1, 1)))
    bench.open()
    assert bench.stream.latest(1)[1].address == 0
    assert [problem.kind for problem in bench.stream.verify().problems].count("head") > 0
