"""Files of another program beside those of the table's shards, named by a version or by none."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from storage_core import InvalidRequestError, Stream, StreamOptions
from storage_core.lake import check_lake, publish_stream, repair_lake

NAME = "readings"
SHARDS = 4


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

    def files(self) -> list[int]:
        """Return how many files each shard has in the table."""
        paths = DeltaTable(self.table).file_uris()
        return [sum(f"/shard={shard}/" in path for path in paths) for shard in range(SHARDS)]


@pytest.fixture
def readings(tmp_path):
    made = Readings(tmp_path)
    yield made
    made.stream.close()


def test_table_that_another_program_wrote_changes_in_no_shard_until_it_is_restored(readings):
    table = DeltaTable(readings.table)
    version = table.version()
    rows = pa.table(table.to_pyarrow_table())
    write_deltalake(table, rows.filter(pc.field("shard") == 1), mode="append")
    readings.seal()
    with pytest.raises(InvalidRequestError, match=r"shard=1/.*parquet .*another program"):
        publish_stream(readings.root, NAME)
    # What the others published would go with the version that is to be restored.
    assert DeltaTable(readings.table).version() == version + 1
    DeltaTable(readings.table).restore(version)
    publish_stream(readings.root, NAME)
    assert readings.files() == [2] * SHARDS
    assert check_lake(readings.root, NAME, read=True).is_clean


def test_file_that_no_version_names_is_passed_over(readings):
    (readings.table / "shard=1" / "part-00000.snappy.parquet").write_bytes(b"PAR1")
    readings.seal()
    publish_stream(readings.root, NAME)
    assert repair_lake(readings.root, NAME).is_clean
    assert readings.files() == [2] * SHARDS
    assert check_lake(readings.root, NAME, read=True).is_clean
