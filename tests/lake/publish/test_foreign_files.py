"""Files of another program, which a version of the table names, wherever they lie; or none does."""

from pathlib import Path
from typing import Final

import pytest
from deltalake import DeltaTable

from storage_core import InvalidRequestError, Stream, StreamOptions, StreamReader
from storage_core.lake import check_lake, publish_stream, repair_lake
from storage_core.lake.app_id import stream_of
from storage_core.lake.publish import publish_shard, publish_shards
from storage_core.lake.publishing import rounds
from storage_core.lake.publishing.open_tables import OpenTables
from storage_core.lake.shard_change import TableFile
from storage_core.lake.table import LakeTable
from storage_core.lake.target import lake_target
from tests.lake.support.foreign_writers import (
    FOREIGN_SHARDS,
    NOBODYS,
    WRITERS,
    append_to_another_shard,
    append_to_shard_1,
)
from tests.lake.support.table_lab import path_of

NAME: Final = "readings"
SHARDS: Final = 4
REFUSED: Final = r"part-.*parquet in the table is no file of shardlog: another program .*RESTORE"


class Readings:
    """A stream of some shards, all of them published."""

    def __init__(self, place: Path) -> None:
        self.root, self.table = place / "root", place / "table"
        self.options = StreamOptions(shards=SHARDS, unit="s", lake=f"file://{self.table}")
        self.stream = Stream.create(self.root, NAME, self.options)
        self.seal()
        publish_stream(self.root, NAME)

    def seal(self) -> None:
        """Seal a row of each shard."""
        for shard in range(SHARDS):
            self.stream.append(1, shard, b"warm")
        self.stream.commit()
        self.stream.seal()

    def delta(self) -> DeltaTable:
        """Return the table as another program opens it."""
        return DeltaTable(self.table)

    def files(self) -> list[int]:
        """Return how many files each shard has in the table."""
        paths = self.delta().file_uris()
        return [sum(f"/shard={shard}/" in path for path in paths) for shard in range(SHARDS)]

    def publish_shard_0(self, tables: OpenTables) -> int:
        """Publish a shard, as a process does that has the table loaded from the call before."""
        target = lake_target(str(self.table))
        with StreamReader.open(self.root, NAME) as reader:
            return publish_shard(reader, 0, target, tables=tables).commits

    def add_file_of_another_root(self) -> None:
        """Let the table have a file of a shard that this root does not have."""
        with StreamReader.open(self.root, NAME) as reader:
            table = LakeTable.open(lake_target(str(self.table)), stream_of(reader))
        assert table is not None
        path = self.table / path_of(0, 0, NOBODYS)
        path.parent.mkdir()
        path.write_bytes(b"PAR1")
        added = TableFile(path_of(0, 0, NOBODYS), 4, 1, "{}", is_new=True)
        table.commit(NOBODYS, [added], [], 1)


@pytest.fixture
def readings(tmp_path):
    made = Readings(tmp_path)
    yield made
    made.stream.close()


@pytest.mark.parametrize("write", WRITERS)
def test_table_that_another_program_wrote_changes_in_no_shard_until_it_is_restored(readings, write):
    version = readings.delta().version()
    write(readings.delta())
    readings.seal()
    for change in (publish_stream, repair_lake):
        with pytest.raises(InvalidRequestError, match=REFUSED):
            change(readings.root, NAME)
    # What the others published would go with the version that is to be restored.
    assert readings.delta().version() == version + 1
    readings.delta().restore(version)
    publish_stream(readings.root, NAME)
    assert readings.files() == [2] * SHARDS
    assert check_lake(readings.root, NAME, read=True).is_clean


@pytest.mark.parametrize("write", WRITERS)
def test_check_tells_a_file_of_another_program_once_wherever_it_lies(readings, write):
    write(readings.delta())
    (path,) = (path for path in readings.delta().file_uris() if "/part-" in path)
    for read in (False, True):
        problems = check_lake(readings.root, NAME, read=read).problems
        (foreign,) = (problem for problem in problems if problem.kind == "foreign")
        assert path.endswith(f"/{foreign.file}")
        assert foreign.shard == FOREIGN_SHARDS[write]


def test_table_that_another_program_wrote_is_refused_where_nothing_is_to_be_published(readings):
    publish_stream(readings.root, NAME)
    append_to_another_shard(readings.delta())
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match=REFUSED):
            publish_stream(readings.root, NAME)


def test_publish_of_one_shard_sees_a_file_beside_another_s_in_a_table_that_is_loaded(readings):
    tables = OpenTables()
    assert readings.publish_shard_0(tables) == 0
    append_to_shard_1(readings.delta())
    readings.seal()
    with pytest.raises(InvalidRequestError, match=REFUSED):
        readings.publish_shard_0(tables)
    assert readings.files() == [1, 2, 1, 1]


def test_first_of_many_rounds_is_refused_as_the_last_one_is(readings, monkeypatch):
    monkeypatch.setattr(rounds, "ROUND_PARTS_MAX", 1)
    append_to_shard_1(readings.delta())
    readings.seal()
    with StreamReader.open(readings.root, NAME) as reader:
        target = lake_target(str(readings.table))
        done = publish_shards(reader, [0, 2, 3, 1], target, commits_max=9)
    assert (dict(done.published), type(done.fault)) == ({}, InvalidRequestError)
    assert readings.files() == [1, 2, 1, 1]


def test_version_that_another_program_makes_during_a_publish_is_followed_by_none(
    readings, monkeypatch
):
    usual = LakeTable.commit_all

    def commit_all(table, changes):
        monkeypatch.setattr(LakeTable, "commit_all", usual)
        append_to_another_shard(readings.delta())
        return usual(table, changes)

    monkeypatch.setattr(LakeTable, "commit_all", commit_all)
    readings.seal()
    version = readings.delta().version()
    with pytest.raises(InvalidRequestError, match=REFUSED):
        publish_stream(readings.root, NAME)
    assert readings.delta().version() == version + 1


def test_file_of_a_shard_that_another_root_has_is_none_of_another_program(readings):
    readings.add_file_of_another_root()
    readings.seal()
    publish_stream(readings.root, NAME)
    assert repair_lake(readings.root, NAME).is_clean
    assert check_lake(readings.root, NAME, read=True).is_clean
    assert readings.files() == [2] * SHARDS


def test_file_that_no_version_names_is_passed_over(readings):
    (readings.table / "shard=1" / "part-00000.snappy.parquet").write_bytes(b"PAR1")
    readings.seal()
    publish_stream(readings.root, NAME)
    assert repair_lake(readings.root, NAME).is_clean
    assert readings.files() == [2] * SHARDS
    assert check_lake(readings.root, NAME, read=True).is_clean
