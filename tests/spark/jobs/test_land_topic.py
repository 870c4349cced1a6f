"""`land_topic`: a stream lands in Parquet, each record once, whoever reads it."""

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from storage_core import ForeignDataError, InvalidRequestError, SystemClock
from streaming_jobs.jobs.land_topic import land_topic
from tests.spark.support.avro_rows import BROKEN, VERSIONS, append_heat
from tests.spark.support.lab import NAME
from tests.spark.support.session import quick_arguments
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, SourceLab

REPOSITORY = Path(__file__).parents[3]
SECONDS_MAX = 600
DAY_MS = 86_400_000
SMALLEST = 1


def landed(into):
    """Return the numbers that a reader of Parquet without Spark finds."""
    table = ds.dataset(into, partitioning="hive").to_table(columns=["value"])
    return sorted(int(value) for value in table.column("value").to_pylist())


def run(lab, into, **options):
    query = land_topic(lab.spark, lab.log.root, NAME, into, once=True, **options)
    assert query.awaitTermination(SECONDS_MAX), "the query goes on"


@pytest.fixture
def into(tmp_path):
    return tmp_path / "lake"


def test_rows_land_once_over_runs_and_small_files_are_joined(lab, into):
    lab.log.create(shards=2)
    for batch in range(3):
        lab.log.append(50, first=50 * batch)
        run(lab, into, max_rows=12)
    assert landed(into) == list(range(150))
    frame = lab.spark.read.parquet(str(into))
    assert sorted(int(row.value) for row in frame.collect()) == list(range(150))
    files = [file.name for file in into.glob("*/*.parquet")]
    assert any(name.startswith("joined-") for name in files)
    assert len(files) < 14
    run(lab, into)
    assert landed(into) == list(range(150))


def test_rows_are_parted_by_their_day(lab, into):
    lab.log.create(shards=2)
    for number in range(4):
        lab.log.writer.append(FIRST_MS + number * DAY_MS, number, b"%d" % number)
    lab.log.writer.commit()
    run(lab, into)
    days = sorted(folder.name for folder in into.iterdir() if folder.name != "_landing")
    assert days == [f"day=2023-11-{day}" for day in (14, 15, 16, 17)]


def test_sequence_lands_without_parts_only(lab, into):
    lab.log.create(unit="sequence")
    lab.log.append(5)
    with pytest.raises(InvalidRequestError, match=r"counts a sequence.*use partition none"):
        run(lab, into)
    run(lab, into, partition="none")
    assert landed(into) == list(range(5))


def test_directory_of_a_stream_made_anew_is_refused(lab, into, tmp_path):
    lab.log.create()
    lab.log.append(5)
    run(lab, into)
    other = SourceLab(tmp_path / "other")
    other.create()
    with pytest.raises(ForeignDataError, match="re-created since; name another directory"):
        land_topic(lab.spark, other.root, NAME, into, once=True)
    other.close()


def test_column_called_as_the_directories_is_refused(lab, into):
    lab.log.create()
    with pytest.raises(InvalidRequestError, match="columns must include timestamp"):
        run(lab, into, columns="value")
    run(lab, into, columns="value,timestamp")


def test_lost_checkpoint_goes_on_where_the_directory_ends(lab, into, tmp_path):
    lab.log.create(shards=2)
    lab.log.append(10)
    run(lab, into, checkpoint=tmp_path / "first")
    lab.log.append(10, first=10)
    run(lab, into, checkpoint=tmp_path / "second", max_rows=4)
    assert landed(into) == list(range(20))
    lab.log.append(10, first=20)
    with pytest.raises(StreamingQueryException, match="checkpoint was set back, or is another one"):
        run(lab, into, checkpoint=tmp_path / "first")
    run(lab, into, checkpoint=tmp_path / "second")
    assert landed(into) == list(range(30))


@pytest.mark.parametrize("checkpoint", [None, "new"])
def test_rows_that_expired_before_they_landed_are_passed_over_if_wanted(
    lab, into, tmp_path, checkpoint
):
    options = {} if checkpoint is None else {"checkpoint": tmp_path / checkpoint}
    lab.log.create(shards=1, retention=timedelta(days=2))
    lab.log.append(5)
    run(lab, into)
    lab.log.append(5, first=5)
    lab.log.writer.append(SystemClock().now_ns() // 10**6, 5, b"10")
    lab.log.writer.commit()
    lab.log.writer.expire()
    with pytest.raises(StreamingQueryException, match="have expired or are gone before they"):
        run(lab, into, **options)
    run(lab, into, skip_lost=True, **options)
    assert landed(into) == [*range(5), 10]


def test_directory_that_was_emptied_under_a_checkpoint_is_refused(lab, into, tmp_path):
    lab.log.create(shards=2)
    lab.log.append(10)
    run(lab, into, checkpoint=f"file:{tmp_path}/elsewhere")
    lab.log.append(10, first=10)
    with pytest.raises(StreamingQueryException, match="directory is another one, or was emptied"):
        run(lab, tmp_path / "other", checkpoint=tmp_path / "elsewhere")
    run(lab, tmp_path / "other", checkpoint=tmp_path / "new")
    assert landed(tmp_path / "other") == list(range(20))


def heats(into, columns=("heat", "wet")):
    table = ds.dataset(into, partitioning="hive").to_table(columns=list(columns))
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_values_of_avro_land_as_typed_columns_of_every_version(lab, into):
    lab.log.create(shards=2)
    append_heat(lab.log.writer, [(FIRST_MS, 1, 20.5), (FIRST_MS + 1, 2, None)], 0)
    append_heat(lab.log.writer, [(FIRST_MS + 2, 3, 21.5)], 1)
    run(lab, into)
    assert heats(into) == sorted([(20.5, None), (None, None), (21.5, 5)], key=str)
    append_heat(lab.log.writer, [(FIRST_MS + 3, 3, 22.5)], 0)
    run(lab, into, columns="heat,wet,timestamp")
    assert len(heats(into)) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": "nowhere.avsc"}, "option schema: nowhere.avsc cannot be read"),
        ({"columns": "timestamp,hate"}, r"no hate; did you mean late\?; the fields of Heat are"),
        ({"columns": "heat"}, "columns must include timestamp"),
        ({"mode": "STRICT"}, "'STRICT' is not FAILFAST"),
        ({"max_rows": 0}, "'0' is not a whole number from 1"),
    ],
)
def test_start_that_is_refused_leaves_the_directory_as_it_was(lab, into, options, message):
    lab.log.create(shards=1)
    append_heat(lab.log.writer, [(FIRST_MS, 1, 0.5)], 0)
    with pytest.raises((InvalidRequestError, AnalysisException), match=message):
        run(lab, into, **options)
    assert not into.exists()


def test_schema_of_a_file_is_kept_though_the_file_goes(lab, into, tmp_path):
    lab.log.create(shards=1)
    file = tmp_path / "heat.avsc"
    file.write_text(VERSIONS[0].text)
    for number in range(2):
        append_heat(lab.log.writer, [(FIRST_MS + number, 1, 0.5)], 1)
        run(lab, into, **({"schema": str(file)} if file.exists() else {}))
        file.unlink(missing_ok=True)
    table = ds.dataset(into, partitioning="hive").to_table()
    assert table.column("heat").to_pylist() == [0.5, 0.5]
    assert "wet" not in table.column_names


def test_directory_goes_on_by_the_schema_it_began_with(lab, into):
    lab.log.create(shards=2)
    append_heat(lab.log.writer, [(FIRST_MS, 1, 20.5)], 0)
    run(lab, into)
    append_heat(lab.log.writer, [(FIRST_MS + 1, 1, 21.5)], 1)
    run(lab, into)
    names = ds.dataset(into, partitioning="hive").schema.names
    assert "heat" in names
    assert "wet" not in names


def test_value_that_cannot_be_read_is_treated_as_the_mode_says(lab, into):
    lab.log.create(shards=2)
    rows = [(FIRST_MS + at, at, float(at)) for at in range(4)]
    append_heat(lab.log.writer, rows, 0, broken=1)
    with pytest.raises(StreamingQueryException, match=r"InvalidRequestError|CorruptionError"):
        run(lab, into)
    run(lab, into, mode="PERMISSIVE")
    landed = heats(into, ("heat", "_corrupt_value"))
    assert landed == sorted([(1.0, None), (2.0, None), (3.0, None), (None, BROKEN)], key=str)


def test_command_tells_why_it_failed_in_one_line(tmp_path, into):
    log = SourceLab(tmp_path / "root")
    log.create(shards=2)
    append_heat(log.writer, [(FIRST_MS, 1, 20.5)], 0, broken=1)
    log.close()
    module = "streaming_jobs.jobs.land_topic"
    arguments = [sys.executable, "-m", module, str(log.root), NAME, str(into), "--once"]
    job = subprocess.run(
        [*arguments, "--master", "local[2]", *quick_arguments()],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert job.returncode == 2
    assert job.stdout == ""
    assert re.fullmatch(r"land_topic: [^\n]*stream 'events'[^\n]*\n", job.stderr)
