"""A shard that is archived is another log from then on, and the old one is whole where it lies."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    Stream,
    StreamOptions,
    StreamReader,
    archived_lineages,
    archived_shard_directory,
    archived_shards,
    drop_stream,
    dropped_streams,
    remove_archived_shards,
)
from storage_core.sql import connect
from tests.log.killed_calls import killed_before_step
from tests.log.topics import NAME, TopicCopy
from tests.log.workbench import column_of

OLD, NEW = list(range(10, 20)), [5, 6, 7]


@pytest.fixture
def copy(tmp_path):
    """Shard 0 with rows at 10 to 19, and shard 1 with one at 0; nobody has them open."""
    copy = TopicCopy(tmp_path)
    copy.add({0: 10, 1: 0})
    copy.open()
    copy.append(0, OLD, source={"next": 20})
    copy.append(1, [0])
    copy.stream.close()
    return copy


def archive(copy, start=5):
    (archived,) = Stream.archive_shards(copy.root, NAME, {0: start})
    return archived


def addresses(reader, shard=0):
    return column_of(reader.tail(shard), "address")


def addresses_now(copy, shard=0):
    with copy.read_beside() as reader:
        return addresses(reader, shard)


def test_new_log_begins_where_it_was_told_to_and_takes_rows_that_the_old_one_has(copy):
    archive(copy)
    stream = copy.open(0)
    assert (stream.committed(), stream.source(0)) == ({0: 5}, None)
    copy.append(0, NEW)
    stream.commit()
    with copy.read_beside() as reader:
        assert (addresses(reader), reader.born(0)) == (NEW, 5)
    stream.close()


def test_other_shards_are_as_they_were(copy):
    stream = copy.open(1)
    lineage = stream.lineage(1)
    archive(copy)
    copy.append(1, [1])
    stream.alter(block_records=100)
    stream.commit()
    assert copy.open(1).lineage(1) == lineage
    copy.stream.close()
    assert addresses_now(copy, 1) == [0, 1]


def test_archived_log_is_told_and_can_be_read(copy):
    archived = archive(copy)
    assert [archived] == list(archived_shards(copy.root, NAME))
    assert (archived.shard, archived.born, archived.end) == (0, 10, 20)
    with StreamReader.open(copy.root, NAME, archived=archived.lineage[:8]) as reader:
        assert addresses(reader) == OLD
        assert reader.refresh() == {0: 20}
        assert reader.lineage(0) == archived.lineage


def test_archived_log_that_is_not_there_is_told(copy):
    lineage = archive(copy).lineage
    with pytest.raises(InvalidRequestError, match=lineage[:16]):
        StreamReader.open(copy.root, NAME, archived="no digits")
    with pytest.raises(InvalidRequestError):
        StreamReader.open(copy.root, NAME, archived="")


READER_CALLS: dict[str, Callable[[StreamReader], object]] = {
    "committed": lambda reader: reader.committed(),
    "refresh": lambda reader: reader.refresh(),
    "read": lambda reader: reader.read(),
    "tail": addresses,
    "wait": lambda reader: reader.wait(0, 30, timeout=10),
    "position": lambda reader: reader.position(),
    "parts": lambda reader: reader.parts(),
    "stats": lambda reader: reader.stats(),
}


@pytest.mark.parametrize("call", READER_CALLS)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_reader_of_the_old_log_is_told_in_every_call(copy, call, is_sealed):
    if is_sealed:
        with copy.open(0) as stream:
            stream.seal()
            stream.trim()
    with copy.read_beside() as reader:
        reader.read()
        archive(copy)
        with pytest.raises(ForeignDataError, match="reset"):
            READER_CALLS[call](reader)


def test_scan_under_way_ends_with_all_rows_of_the_old_log_or_is_told(copy):
    with copy.read_beside() as reader:
        batches = reader.tail(0)
        first = next(iter(batches))
        archive(copy)
        with copy.open(0) as stream:
            copy.append(0, NEW)
            stream.commit()
        try:
            rest = column_of(batches, "address")
        except ForeignDataError:
            return
        assert [*first["address"].to_pylist(), *rest] == OLD


def test_sealed_rows_of_the_old_log_are_in_no_answer_of_the_new_one(copy):
    with copy.open(0) as stream:
        stream.seal()
        stream.trim()
    archived = archive(copy)
    assert addresses_now(copy) == []
    with StreamReader.open(copy.root, NAME, archived=archived.lineage) as reader:
        assert len(reader.parts()) == 1
        assert addresses(reader) == OLD


@pytest.mark.parametrize("is_sealed", [False, True])
def test_sql_keeps_its_snapshot_of_the_old_log_until_it_is_refreshed(copy, is_sealed):
    if is_sealed:
        with copy.open(0) as stream:
            stream.seal()
            stream.trim()
    addresses = f'SELECT list(address ORDER BY address) FROM "{NAME}" WHERE shard = 0'
    with closing(connect(copy.root)) as streams:
        assert streams.sql(addresses).fetchall() == [(OLD,)]
        archive(copy)
        with copy.open(0) as stream:
            copy.append(0, NEW)
            stream.commit()
        assert streams.sql(addresses).fetchall() == [(OLD,)]
        streams.refresh()
        assert streams.sql(addresses).fetchall() == [(NEW,)]


def test_new_log_is_verified_sealed_and_expires_like_any(copy):
    archive(copy)
    with copy.open() as stream:
        copy.append(0, NEW)
        stream.commit()
        stream.seal()
        stream.maintain()
        stream.expire()
        assert stream.verify().is_clean
    assert addresses_now(copy) == NEW


def test_shard_that_a_writer_holds_is_not_archived(copy):
    copy.open(0)
    with pytest.raises(ShardLockedError, match="process"):
        archive(copy)
    copy.stream.close()
    assert addresses_now(copy) == OLD


def test_writer_that_read_the_files_before_never_has_the_old_log(copy, monkeypatch):
    """The files are read, the shard is archived, and only then the lock is taken."""
    rename = Path.rename

    def leave(path: Path, target: Path) -> Path:
        return path if path.name == "shard-0000" else rename(path, target)

    def archive_and_leave(_files: object) -> None:
        # As if it had been killed before the old log was moved away.
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", leave)
            archive(copy)
        monkeypatch.undo()

    monkeypatch.setattr("storage_core.stream.finish_archiving", archive_and_leave)
    with Stream.open(copy.root, NAME, shards=[0]) as stream:
        assert stream.committed() == {0: 5}


def test_shard_can_be_archived_again_and_again(copy):
    for start in (5, 3, 1):
        archive(copy, start)
        with copy.open(0) as stream:
            copy.append(0, [start])
            stream.commit()
    assert addresses_now(copy) == [1]
    lineages = [one.lineage for one in archived_shards(copy.root, NAME)]
    assert len(set(lineages)) == 3
    with StreamReader.open(copy.root, NAME, archived=lineages[1]) as reader:
        assert addresses(reader) == [5]


def test_several_shards_are_archived_together_or_none_is(copy):
    copy.open(1)
    with pytest.raises(ShardLockedError):
        Stream.archive_shards(copy.root, NAME, {0: 5, 1: 3})
    assert list(archived_shards(copy.root, NAME)) == []
    copy.stream.close()
    archived = Stream.archive_shards(copy.root, NAME, {0: 5, 1: 3})
    assert [log.shard for log in archived] == [0, 1]
    with copy.read_beside() as reader:
        assert reader.committed() == {0: 5, 1: 3}


def test_archived_logs_are_removed_and_still_known_as_archived(copy):
    archived = archive(copy)
    place = archived_shard_directory(copy.root, NAME, archived)
    assert place is not None
    assert place.is_dir()
    assert list(remove_archived_shards(copy.root, NAME)) == [archived]
    assert not place.exists()
    assert list(archived_shards(copy.root, NAME)) == []
    assert archived_lineages(copy.root, NAME) == {archived.lineage}
    assert list(remove_archived_shards(copy.root, NAME)) == []


def test_so_many_removed_logs_of_a_shard_are_remembered(copy):
    for _ in range(20):
        archive(copy)
        remove_archived_shards(copy.root, NAME)
    assert len(archived_lineages(copy.root, NAME)) == 16


def test_lineages_of_archived_logs_are_remembered_by_a_drop(copy):
    archived = archive(copy)
    drop_stream(copy.root, NAME)
    (drop,) = dropped_streams(copy.root, NAME)
    assert archived.lineage in drop.lineages


def test_stream_without_an_origin_keeps_its_logs(tmp_path):
    Stream.create(tmp_path, "own", StreamOptions()).close()
    with pytest.raises(InvalidRequestError, match="origin"):
        Stream.archive_shards(tmp_path, "own", {0: 0})


@pytest.mark.parametrize("start", [-1, 2**63, "0"])
def test_start_that_is_no_address_is_refused(copy, start):
    with pytest.raises(InvalidRequestError, match="not an address"):
        archive(copy, start)
    assert addresses_now(copy) == OLD


def test_shard_that_is_not_there_is_told(copy):
    with pytest.raises(InvalidRequestError, match="no shard 7"):
        Stream.archive_shards(copy.root, NAME, {7: 0})


# --- kills ---------------------------------------------------------------------------------


def killed_at(copy, step):
    """Archive in a process that is killed before its n-th call of the disk; tell whether it was."""
    return killed_before_step(step, lambda: archive(copy))


def test_killed_at_any_step_it_is_whole_or_not_begun(copy):
    ends = []
    step = 0
    while killed_at(copy, step):
        done = bool(archived_lineages(copy.root, NAME))
        ends.append(done)
        if done:
            # What the killed one has left is finished by the next writer.
            assert addresses_now(copy) == []
            with copy.open(0) as stream:
                assert stream.committed() == {0: 5}
            (archived,) = archived_shards(copy.root, NAME)
            with StreamReader.open(copy.root, NAME, archived=archived.lineage) as reader:
                assert addresses(reader) == OLD
            assert not (copy.directory / "shard-0000").exists()
            break
        assert addresses_now(copy) == OLD
        with copy.open(0) as stream:
            assert stream.committed() == {0: 20}
        step += 1
    assert ends[-1]
    assert len(ends) > 4


def test_killed_before_it_moved_the_old_log_the_next_archiving_goes_on(copy):
    step = 0
    while killed_at(copy, step) and not archived_lineages(copy.root, NAME):
        step += 1
    assert (copy.directory / "shard-0000").exists()
    archive(copy, 3)
    assert not (copy.directory / "shard-0000").exists()
    ends = [(one.born, one.end) for one in archived_shards(copy.root, NAME)]
    assert ends == [(10, 20), (5, 5)]
    names = sorted(path.name for path in copy.directory.glob("shard-0000*"))
    assert len(names) == 1
