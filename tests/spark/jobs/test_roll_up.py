"""`roll_up`: each level is what all rows come to at once, however late, in whatever runs."""

import logging
import os
import random
import re
import signal
import subprocess
import sys
from datetime import timedelta

import pyarrow.dataset as ds
import pytest
from pyspark.errors import StreamingQueryException

from storage_core import InvalidRequestError, Stream, StreamReader, drop_stream, list_streams
from streaming_jobs.jobs import roll_up as job
from streaming_jobs.jobs.roll_up import roll_up
from streaming_jobs.jobs.rollup.calendar import LEVELS
from tests.spark.support.avro_rows import append_heat
from tests.spark.support.rollup_driver import PHASES, reporting_steps
from tests.spark.support.rollup_lab import FIELD, NAME, RollupLab, readings
from tests.spark.support.session import quick_arguments
from tests.thin import EVERY_CASE, thinned
from tests.tidy.tree import ROOT
from tests.unit.streaming_jobs.source.source_lab import SourceLab

HOUR_MS = 3_600_000
FIRST_MS = 1_700_006_400_000


@pytest.fixture
def rolled(tmp_path):
    """A lab without a stream."""
    lab = RollupLab(tmp_path)
    yield lab
    lab.close()


@thinned("zone", ["Europe/Berlin", "America/New_York"], count=1)
def test_each_level_is_what_all_rows_come_to_at_once(spark, tmp_path, zone):
    lab, draw = RollupLab(tmp_path, zone), random.Random(zone)
    lab.create()
    measurements = readings(draw, 500 if EVERY_CASE else 300)
    lab.measure(measurements[:200])
    lab.roll_up(spark, max_rows=100)
    lab.measure(measurements[200:])
    lab.roll_up(spark)
    lab.check()
    # By another query, batch by batch, into what is there.
    lab.roll_up(spark, checkpoint="anew", max_rows=150)
    lab.check()
    assert lab.stored("day", by="key") == lab.stored("day")
    lab.close()


def test_ids_of_a_field_have_their_rollups_whatever_the_keys_are(spark, rolled):
    rolled.create_topic()
    measurements = readings(random.Random(4), 200)
    for part in (measurements[:150], measurements[150:]):
        rolled.measure(part)
        rolled.roll_up(spark, levels=("hour", "day"))
    rolled.check(("hour", "day"))


def test_keys_have_their_rollups_and_files_are_what_the_streams_keep(spark, rolled):
    rolled.create(key_mode="dictionary")
    measurements = readings(random.Random(1), 200, ids=(b"a", b"\xff\x00", None))
    lake = rolled.place / "lake"
    for part in (measurements[:150], measurements[150:]):
        rolled.measure(part)
        rolled.roll_up(spark, levels=("hour", "day"), parquet=lake)
    rolled.check(("hour", "day"))
    table = ds.dataset(lake, partitioning="hive").to_table()
    for level in ("hour", "day"):
        records = [row for row in table.to_pylist() if row["level"] == level]
        assert rolled.by_window(level, records) == rolled.stored(level)
    periods = {row["period"] for row in table.to_pylist() if row["level"] == "day"}
    assert periods == {record[1][:7] for record in rolled.stored("day")}


def test_late_row_changes_its_windows_and_no_others(spark, rolled):
    rolled.create()
    rolled.measure([(1, FIRST_MS + hour * HOUR_MS, hour) for hour in range(30)])
    rolled.roll_up(spark)
    before = {level: rows_kept(rolled, level) for level in LEVELS}
    rolled.measure([(1, FIRST_MS + 2 * HOUR_MS + 5, 100)])
    rolled.roll_up(spark)
    rolled.check()
    assert {level: rows_kept(rolled, level) - before[level] for level in LEVELS} == dict.fromkeys(
        LEVELS, 1
    )


def rows_kept(lab: RollupLab, level) -> int:
    """Return how many rows a level's stream has, the older ones too."""
    with StreamReader.open(lab.root, f"{NAME}-{FIELD}-{level}") as reader:
        return reader.read().num_rows


def test_window_that_retention_has_begun_to_take_stays_as_it_is_kept(spark, rolled, caplog):
    rolled.create(retention=timedelta(hours=2))
    rolled.measure([(1, FIRST_MS + 10, 5), (1, FIRST_MS + 3 * HOUR_MS, 7)])
    levels = LEVELS if EVERY_CASE else ("hour",)
    rolled.roll_up(spark, levels=levels)
    rolled.check(levels)
    rolled.writer.expire(now=FIRST_MS + 2 * HOUR_MS + 5)
    hours = rolled.stored("hour")
    rolled.measure([(1, FIRST_MS + 20, 1)])
    with caplog.at_level(logging.WARNING, "shardlog"):
        rolled.roll_up(spark, levels=levels)
    assert rolled.stored("hour") == hours
    assert "1 windows of ids keep their roll-ups" in caplog.text


def test_levels_stay_as_they_are_kept_where_retention_has_taken_what_they_are_made_of(
    spark, rolled, caplog
):
    rolled.create()
    rolled.measure([(1, FIRST_MS + hour * HOUR_MS, hour) for hour in range(60)])
    rolled.roll_up(spark)
    stored = {level: rolled.stored(level) for level in LEVELS[1:]}
    with Stream.open(rolled.root, f"{NAME}-{FIELD}-hour") as hours:
        hours.alter(retention=timedelta(hours=2))
        hours.expire(now=FIRST_MS + 40 * HOUR_MS)
    rolled.measure([(1, FIRST_MS + 1, 100), (1, FIRST_MS + 2 * HOUR_MS, 100)])
    with caplog.at_level(logging.WARNING, "shardlog"):
        rolled.roll_up(spark)
    assert {level: rolled.stored(level) for level in LEVELS[1:]} == stored
    assert "batch 1: 2 roll-ups of stream 'readings-temperature-hour' change nothing" in caplog.text
    # A day that is whole goes on.
    rolled.measure([(1, FIRST_MS + 50 * HOUR_MS, 100)])
    rolled.roll_up(spark)
    assert rolled.stored("day")[1, "2023-11-17"] == rolled.expected("day")[1, "2023-11-17"]


def test_stream_whose_rows_go_by_their_number_is_not_rolled_up(spark, rolled):
    rolled.create(records_max=10)
    rolled.measure([(1, FIRST_MS, 5), (1, FIRST_MS + 1, 7)])
    with pytest.raises(InvalidRequestError, match="keeps no more than records_max 10"):
        rolled.roll_up(spark)
    rolled.writer.alter(records_max=None)
    rolled.roll_up(spark, levels=["hour"])
    rolled.check(["hour"])


def test_late_row_of_a_window_that_has_lost_rows_is_rolled_up_if_losses_are_passed_over(
    spark, rolled
):
    rolled.create(shards=1)
    rolled.measure([(1, FIRST_MS, 5), (1, FIRST_MS + 1, 7)])
    rolled.measure([(1, FIRST_MS + HOUR_MS, 1)])
    rolled.roll_up(spark, levels=["hour"])
    rolled.lose(0, 2)
    rolled.measure([(1, FIRST_MS + HOUR_MS + 1, 3)])
    with pytest.raises(StreamingQueryException, match="data were lost"):
        rolled.roll_up(spark, levels=["hour"])
    rolled.roll_up(spark, levels=["hour"], skip_lost=True)
    counts = {window[-8:]: each["count"] for (_, window), each in rolled.stored("hour").items()}
    assert counts == {"T01+0100": 2, "T02+0100": 2}


def test_rows_without_the_value_are_told_of(spark, rolled, caplog):
    rolled.create()
    rolled.measure([(1, FIRST_MS, 5), (1, FIRST_MS + 1, None)])
    with caplog.at_level(logging.WARNING, "shardlog"):
        rolled.roll_up(spark, levels=["hour"])
    rolled.readings.pop()
    rolled.check(["hour"])
    assert "batch 0: 1 rows have no value to measure" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zone": "Europe/Nowhere"}, "no time zone 'Europe/Nowhere'"),
        ({"levels": ["hour", "month"]}, "none may be left out between"),
        ({"levels": ["week"]}, "levels week: choose of hour, day, month, year"),
        ({"value": "pressure"}, "a field 'pressure'; there are temperature, place"),
        ({"value": "place"}, "values of field 'place' are string, which is no number"),
        ({"into": "a/b"}, "can be no stream's name"),
        ({"starting": "latest"}, "so only one level is whole"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_query_begins(spark, rolled, options, message):
    rolled.create()
    rolled.measure([(1, FIRST_MS, 5), (1, FIRST_MS, 5)])
    with pytest.raises(InvalidRequestError, match=message):
        rolled.roll_up(spark, **options)


def test_stream_is_not_rolled_up_into_itself(spark, rolled):
    rolled.create()
    name = f"{NAME}-hour"
    Stream.create(rolled.root, name).close()
    with pytest.raises(InvalidRequestError, match="is read, so it cannot keep roll-ups too"):
        roll_up(spark, rolled.root, name, FIELD, NAME, checkpoint=rolled.place / "checkpoint")
    assert list_streams(rolled.root) == [NAME, name]


def test_checkpoint_whose_rollups_are_gone_is_refused(spark, rolled):
    rolled.create()
    rolled.measure([(1, FIRST_MS, 5), (1, FIRST_MS + HOUR_MS, 7)])
    levels = LEVELS if EVERY_CASE else ("hour", "day")
    rolled.roll_up(spark, levels=levels)
    drop_stream(rolled.root, f"{NAME}-{FIELD}-hour")
    rolled.measure([(1, FIRST_MS + 1, 100)])
    with pytest.raises(InvalidRequestError, match=f"'{NAME}-{FIELD}-hour' is gone"):
        rolled.roll_up(spark, levels=levels)
    rolled.roll_up(spark, checkpoint="anew", levels=levels)
    rolled.check(levels)


def test_one_level_is_whole_from_the_latest_row_on(spark, rolled):
    rolled.create()
    rolled.measure([(1, FIRST_MS + hour * HOUR_MS, hour) for hour in range(5)])
    rolled.roll_up(spark, levels=["day"], starting="latest")
    rolled.measure([(1, FIRST_MS + 5 * HOUR_MS, 5)])
    rolled.roll_up(spark, levels=["day"], starting="latest")
    rolled.check(["day"])


# At the first of them a driver is killed.
@pytest.mark.parametrize("phase", PHASES[1:])
def test_batch_that_fails_at_any_step_comes_again_and_says_the_same(
    spark, rolled, monkeypatch, phase
):
    def reach(reached, number):
        if (reached, number) == (phase, 1):
            message = f"the batch fails, {phase}"
            raise RuntimeError(message)

    rolled.create()
    measurements = readings(random.Random(5), 60)
    rolled.measure(measurements[:40])
    with monkeypatch.context() as patch:
        for name, reporting in reporting_steps(reach).items():
            patch.setattr(job, name, reporting)
        with pytest.raises(StreamingQueryException, match=f"the batch fails, {phase}"):
            rolled.roll_up(spark, levels=("hour", "day"), max_rows=20)
    # What comes before the restart is behind the batch that comes again.
    rolled.measure(measurements[40:])
    rolled.roll_up(spark, levels=("hour", "day"))
    rolled.check(("hour", "day"))


def test_command_rolls_up_and_tells_each_batch_until_a_signal_stops_it(rolled):
    rolled.create()
    rolled.measure([(1, FIRST_MS, 5), (1, FIRST_MS + 1, 7)])
    module = [sys.executable, "-m", "streaming_jobs.jobs.roll_up", str(rolled.root), NAME]
    options = ["--value", FIELD, "--zone", rolled.zone, "--trigger", "1 second"]
    options += ["--checkpoint", str(rolled.place / "checkpoint"), "--master", "local[2]"]
    with subprocess.Popen(
        [*module, *options, *quick_arguments(of_spark=False)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as command:
        assert command.stderr is not None
        lines = [next(line for line in command.stderr if "batch 0: 2 rows" in line)]
        # To the whole group, as a terminal sends it.
        os.killpg(command.pid, signal.SIGINT)
        lines += list(command.stderr)
    assert command.returncode == 0, lines
    assert lines[-1] == "roll_up: done, asked to stop: 2 rows in 1 batch\n"
    rolled.check()


def test_command_tells_why_it_failed_in_one_line(tmp_path):
    log = SourceLab(tmp_path / "root")
    log.create(shards=2)
    append_heat(log.writer, [(FIRST_MS, 1, 20.5)], 0, broken=1)
    log.close()
    module = [sys.executable, "-m", "streaming_jobs.jobs.roll_up", str(log.root), log.name]
    options = ["--value", "heat", "--checkpoint", str(tmp_path / "checkpoint"), "--once"]
    command = subprocess.run(
        [*module, *options, "--master", "local[2]", *quick_arguments()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert command.returncode == 2
    assert command.stdout == ""
    assert re.fullmatch(r"roll_up: [^\n]*stream 'events'[^\n]*\n", command.stderr)
