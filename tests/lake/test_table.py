"""The table of a stream: what commits make of it, as another reader of Delta sees it."""

import json
from contextlib import suppress
from threading import Barrier, Thread

import pyarrow as pa
import pytest

from storage_core import CorruptionError, InvalidRequestError, UnsupportedFormatError
from storage_core.lake.delta import shard_notes
from storage_core.lake.file_store import FileStore
from storage_core.lake.shard_change import ShardChange
from storage_core.lake.table import LakeConflictError, LakeFileGoneError, LakeTable
from tests.lake.support.stores import DirectoryStore, Store
from tests.lake.support.synced import syncs
from tests.lake.support.table_lab import COLUMNS, SHARD, STREAM, TableLab, path_of

WAIT_S = 300.0


def test_place_without_a_table_has_none(store: Store) -> None:
    assert LakeTable.open(store.target(), STREAM) is None


def test_table_is_made_with_its_columns_and_nothing_published(store: Store) -> None:
    table = TableLab(store).table
    assert table.columns.names == ["shard", "address", "primary"]
    assert table.published(SHARD) is None
    assert table.files() == {}


def test_table_that_is_there_is_opened_by_whoever_would_make_it(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    again = LakeTable.create(lab.target, STREAM, COLUMNS)
    assert (again.published(SHARD), again.version) == (2, 1)


def test_probe_of_the_store_leaves_nothing(store: Store) -> None:
    lab = TableLab(store)
    assert {path.partition("/")[0] for path in store.paths(lab.target)} == {"_delta_log"}


def test_commit_adds_files_and_says_how_far(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1, 2)
    assert lab.addresses() == [1, 2]
    assert lab.other().published(SHARD) == 3
    assert set(lab.other().files(SHARD)) == {path_of(1, 1), path_of(2, 2)}


def test_what_is_committed_into_a_directory_outlasts_a_loss_of_power(tmp_path) -> None:
    store = DirectoryStore(tmp_path)
    lab = TableLab(store)
    place = lab.target.directory
    assert place is not None
    with syncs() as synced:
        lab.keep(1)
    named = {place / path_of(1, 1), place / "_delta_log" / f"{lab.table.version:020}.json"}
    assert {*named, *(path.parent for path in named)} <= synced


def test_commit_that_moves_no_file_says_how_far(store: Store) -> None:
    lab = TableLab(store)
    lab.table.commit(SHARD, [], [], 7)
    assert lab.other().published(SHARD) == 7


def test_shards_are_published_each_by_itself(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1, shard=0)
    lab.keep(5, shard=1)
    assert [lab.table.published(shard) for shard in (0, 1, 2)] == [2, 6, None]
    assert list(lab.table.files(1)) == [path_of(5, 5, 1)]
    # Of shard 1, and not of shard 11.
    assert lab.table.files(11) == {}


def test_rows_of_replaced_files_are_streamed_once(store: Store) -> None:
    lab = TableLab(store)
    paths = lab.keep(1, 2)
    merged = lab.add_of([1, 2], is_new=False)
    lab.table.commit(SHARD, [merged], paths, 3)
    assert lab.addresses() == [1, 2]
    assert lab.streamed() == [1, 2]


def test_removed_files_are_gone_and_can_be_read_as_of_before(store: Store) -> None:
    lab = TableLab(store)
    paths = lab.keep(1, 2)
    lab.table.commit(SHARD, [], paths[:1], 3)
    assert lab.addresses() == [2]
    assert lab.addresses(1) == [1, 2]


def test_commit_of_who_loaded_before_another_of_the_shard_is_refused(store: Store) -> None:
    lab = TableLab(store)
    stale = lab.other()
    files = lab.add(1)
    lab.keep(2)
    with pytest.raises(LakeConflictError, match="somebody else has committed"):
        stale.commit(SHARD, files, [], 2)
    # What is loaded then is what the caller compares with.
    assert (stale.published(SHARD), lab.addresses()) == (3, [2])


def test_commit_beside_those_of_other_shards_is_taken(store: Store) -> None:
    lab = TableLab(store)
    stale = lab.other()
    lab.keep(1, shard=0)
    lab.keep(2, shard=1)
    stale.commit(SHARD, lab.add(7), [], 8)
    assert lab.addresses() == [1, 2, 7]
    assert (stale.version, stale.published(SHARD), stale.published(0)) == (3, 8, 2)


def test_commit_is_refused_where_what_it_removes_is_gone(store: Store) -> None:
    lab = TableLab(store)
    paths = lab.keep(1, 2)
    stale = lab.other()
    lab.table.commit(SHARD, [], paths[:1], 3)
    with pytest.raises(LakeConflictError):
        stale.commit(SHARD, [], paths, 3)


def test_commit_that_another_owner_made_alike_counts_as_that_owner_s(store: Store) -> None:
    lab = TableLab(store)
    files = lab.add(1)
    other = lab.other()
    lab.table.commit(SHARD, files, [], 2)
    with pytest.raises(LakeConflictError, match="somebody else has committed"):
        other.commit(SHARD, files, [], 2)
    assert (lab.addresses(), lab.streamed(), other.version) == ([1], [1], 1)


def test_commit_that_does_not_follow_from_what_was_loaded_is_a_fault_of_the_caller(
    store: Store,
) -> None:
    lab = TableLab(store)
    lab.keep(5)
    for adds, removes, end in (
        (lab.add(6), [], 3),
        ([], ["shard=3/unknown.parquet"], 6),
        (lab.add(6, shard=1), [], 7),
        (lab.add(5), [], 6),
    ):
        with pytest.raises(InvalidRequestError, match="does not follow"):
            lab.table.commit(SHARD, adds, removes, end)
    assert lab.other().version == 1


def test_of_two_who_publish_one_shard_at_once_each_address_is_taken_once(store: Store) -> None:
    lab = TableLab(store)
    barrier, taken = Barrier(2), []

    def publish(mine: int) -> None:
        own = TableLab(store, lab.target)
        barrier.wait(WAIT_S)
        for _ in range(10):
            own.table.reload()
            begin = own.table.published(SHARD) or 0
            with suppress(LakeConflictError):
                # They differ in the files, so that each can tell who has won.
                end = begin + 1 + mine
                own.table.commit(SHARD, [own.add_of(range(begin, end))], [], end)
                taken.append((begin, end))

    threads = [Thread(target=publish, args=(mine,)) for mine in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    last = lab.other().published(SHARD)
    assert last is not None
    assert lab.addresses() == list(range(last))
    # One line of history: each begins where the one before it ends.
    ends = sorted(end for _, end in taken)
    assert sorted(taken) == list(zip([0, *ends], ends, strict=False))


def test_history_tells_what_each_commit_published(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    newest = lab.delta().history(1)[0]
    assert (newest["shard"], newest["published"]) == (str(SHARD), "2")


def test_columns_are_added(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    lab.table.add_columns(
        [pa.field("price", pa.decimal128(9, 2)), pa.field("at", pa.timestamp("us", "UTC"))]
    )
    assert lab.table.columns.names == ["shard", "address", "primary", "price", "at"]
    assert lab.delta().to_pyarrow_table().column("at").to_pylist() == [None]
    assert lab.table.published(SHARD) == 2


def test_columns_are_not_added_to_a_version_that_was_not_loaded(store: Store) -> None:
    lab = TableLab(store)
    stale = lab.other()
    lab.keep(1)
    with pytest.raises(LakeConflictError):
        stale.add_columns([pa.field("price", pa.int64())])
    stale.add_columns([pa.field("price", pa.int64())])
    assert lab.other().columns.names[-1] == "price"


def test_commit_of_several_shards_leaves_out_the_one_that_somebody_else_changed(
    store: Store,
) -> None:
    lab = TableLab(store)
    lab.keep(1)
    changes = [
        ShardChange(SHARD, lab.add(2), [], 3, owner=7),
        ShardChange(SHARD + 1, lab.add(2, shard=SHARD + 1), [], 3, owner=8),
    ]
    lab.other().commit(SHARD, lab.add(5), [], 6)
    assert lab.table.commit_all(changes).conflicts == {SHARD}
    assert (lab.table.published(SHARD), lab.table.published(SHARD + 1)) == (6, 3)
    assert (lab.table.owner(SHARD), lab.table.owner(SHARD + 1)) == (None, 8)
    other = lab.other()
    assert [other.published(shard) for shard in (SHARD, SHARD + 1, SHARD + 2)] == [6, 3, None]
    assert lab.addresses() == [1, 2, 5]


def test_what_is_published_is_read_from_the_log_where_no_commit_notes_it(store: Store) -> None:
    lab = TableLab(store)
    lab.table.commit(SHARD, lab.add(1), [], 2, owner=7)
    for path in store.paths(lab.target):
        if path.startswith("_delta_log/"):
            text = store.read(lab.target, path).replace(b'"shardlog":', b'"other":')
            store.write(lab.target, path, text)
    other = lab.other()
    assert (other.published(SHARD), other.owner(SHARD)) == (2, 7)
    assert other.published(SHARD + 1) is None
    other.commit(SHARD, [], [], 4)
    assert (lab.other().published(SHARD), lab.other().owner(SHARD)) == (4, 7)
    assert lab.other().published(SHARD + 1) is None


def test_notes_of_a_later_shardlog_are_refused(store: Store, monkeypatch) -> None:
    lab = TableLab(store)
    lab.keep(1)
    loaded_before = lab.other()
    with monkeypatch.context() as later:
        later.setattr(shard_notes, "FORMAT", shard_notes.FORMAT + 1)
        lab.keep(2)
    for load in (lab.other, loaded_before.reload):
        with pytest.raises(UnsupportedFormatError, match="a later shardlog publishes there"):
            load()


@pytest.mark.parametrize("note", ["[]", "{", '{"shards": {"3": [1, 2, 3]}, "whole": true}'])
def test_notes_that_nobody_wrote_are_damage(note) -> None:
    with pytest.raises(CorruptionError, match="cannot be read"):
        shard_notes.newest_notes([{"shardlog": note}])


def test_notes_of_before_there_was_a_format_are_read() -> None:
    note = '{"whole": false, "shards": {"3": [20, 7]}}'
    notes = shard_notes.newest_notes([{"shardlog": note}])
    assert notes is not None
    assert notes.of(3) == (20, 7)


def test_every_tenth_version_is_a_checkpoint(store: Store) -> None:
    lab = TableLab(store)
    for number in range(1, 12):
        lab.keep(number)
    checkpoints = [path for path in store.paths(lab.target) if "checkpoint" in path]
    assert checkpoints == [
        "_delta_log/00000000000000000010.checkpoint.parquet",
        "_delta_log/_last_checkpoint",
    ]
    assert lab.other().published(SHARD) == 12


def test_file_is_got_as_it_was_put(store: Store, tmp_path) -> None:
    lab = TableLab(store)
    data = bytes(range(256)) * 50_000
    (tmp_path / "large").write_bytes(data)
    path = path_of(1, 1)
    lab.table.put(path, tmp_path / "large")
    lab.table.get(path, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


def test_bytes_of_a_file_are_read_where_they_lie(store: Store) -> None:
    lab = TableLab(store)
    (path,) = lab.keep(1)
    size = lab.table.files()[path]
    opened = FileStore(lab.target).opened(path)
    assert opened.read(0, 4) == b"PAR1"
    assert opened.read(size - 4, 100) == b"PAR1"


def test_file_that_is_gone_is_told(store: Store, tmp_path) -> None:
    lab = TableLab(store)
    (path,) = lab.keep(1)
    store.delete(lab.target, path)
    with pytest.raises(LakeFileGoneError, match="no such file"):
        lab.table.get(path, tmp_path / "back")
    for missing in (path, "shard=3/unknown.parquet"):
        with pytest.raises(LakeFileGoneError, match="no such file"):
            FileStore(lab.target).opened(missing)


def test_commit_of_a_file_that_the_store_has_lost_is_told(store: Store) -> None:
    lab = TableLab(store)
    files = lab.add(1)
    store.delete(lab.target, files[0].path)
    with pytest.raises(CorruptionError, match="and the store has no file"):
        lab.table.commit(SHARD, files, [], 2)


def test_table_tells_whose_it_is(store: Store) -> None:
    metadata = TableLab(store).delta().metadata()
    assert (metadata.name, metadata.description) == (
        "orders",
        "shardlog stream orders topic-id",
    )


def test_actions_of_a_commit_are_those_of_deltas_protocol(store: Store) -> None:
    lab = TableLab(store)
    (path,) = lab.keep(1)
    lab.table.commit(SHARD, [], [path], 2)
    log = lab.log()
    (add,) = (action["add"] for action in log if "add" in action)
    (remove,) = (action["remove"] for action in log if "remove" in action)
    assert json.loads(add["stats"]) == {"numRecords": 1}
    assert add["partitionValues"] == remove["partitionValues"] == {"shard": "3"}
    assert (add["dataChange"], remove["dataChange"]) == (True, False)
    assert add["size"] == remove["size"]
