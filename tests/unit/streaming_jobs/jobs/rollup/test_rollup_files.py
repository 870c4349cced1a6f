"""Roll-ups as Parquet: a period's file is whole at each moment, and is replaced as one."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from storage_core import InvalidRequestError, UnavailableError
from streaming_jobs.jobs.rollup.calendar import Calendar
from streaming_jobs.jobs.rollup.rollup_files import RollupFiles
from streaming_jobs.jobs.rollup.rollups import Measurements, roll_up

UTC = Calendar.of("UTC")
DAY_MS = 86_400_000
FIRST_MS = 1_700_006_400_000


def days(count: int) -> pa.Table:
    times = FIRST_MS + np.arange(count) * DAY_MS
    zeros = np.zeros(count, np.int64)
    ids = pa.array([1] * count, pa.int32())
    starts = UTC.starts("day", times)
    return roll_up(Measurements(ids, starts, times, np.ones(count), zeros.astype(np.int32), zeros))


@pytest.fixture
def files(tmp_path):
    return RollupFiles(tmp_path / "lake", UTC, "temperature")


def read(files: RollupFiles) -> list[tuple[object, ...]]:
    table = ds.dataset(files.directory, partitioning="hive").to_table()
    return sorted((row["level"], row["period"], row["count"]) for row in table.to_pylist())


def test_draft_of_a_process_that_was_killed_is_no_data_and_goes(files):
    files.claim("root", "rolled")
    files.write("day", "2023-11", days(1))
    draft = files.directory / "_drafts" / "left.parquet"
    draft.write_bytes(b"half")
    assert len(read(files)) == 1
    files.claim("root", "rolled")
    assert not draft.exists()


def test_directory_of_somebody_else_is_refused_and_left_as_it_is(files):
    post = files.directory / "_drafts" / "post.md"
    post.parent.mkdir(parents=True)
    post.touch()
    with pytest.raises(InvalidRequestError, match=r"holds '_drafts' of somebody else; name anoth"):
        files.claim("root", "rolled")
    assert post.exists()


def test_directory_of_other_rollups_is_refused(files):
    files.claim("root", "rolled")
    other = RollupFiles(files.directory, Calendar.of("Europe/Berlin"), "humidity")
    with pytest.raises(InvalidRequestError, match="is of field temperature, zone UTC, not of"):
        other.claim("root", "rolled")


def test_disk_that_refuses_is_told_of(files):
    files.directory.parent.mkdir(exist_ok=True)
    files.directory.write_text("no directory")
    with pytest.raises(UnavailableError, match="writing roll-ups"):
        files.write("day", "2023-11", days(1))
