"""`land_topic`: Spark finds the rows of a stream's table, each once, without Delta's jars."""

from datetime import timedelta

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from storage_core.lake import vacuum_stream
from streaming_jobs.jobs.land_topic import land_topic
from tests.lake.engines.engines_lab import NAME as READINGS
from tests.lake.engines.engines_lab import EnginesLab
from tests.lake.engines.readings import VERSIONS
from tests.lake.readers.readers_lab import ReadersLab
from tests.lake.readers.rows import rows_of
from tests.log.parts.parts_lab import NAME as THINGS
from tests.spark.support.avro_rows import BROKEN, append_heat
from tests.spark.support.lab import NAME
from tests.unit.connectors.command import runner
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS

DAY_S = 86_400


@pytest.fixture
def into(tmp_path):
    # What Spark takes for a pattern, where it is not told.
    return tmp_path / "a {lake} [of] tests"


@pytest.fixture
def readers(tmp_path):
    lab = ReadersLab(tmp_path, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()


def numbers(frame):
    return sorted(int(row.payload) for row in frame.select("payload").collect())


def test_frame_has_the_rows_that_the_stream_shows_at_each_stage(spark, readers, capsys):
    def check():
        frame = land_topic(spark, readers.root, THINGS, readers.target)
        answer = rows_of(row.asDict() for row in frame.select(*readers.columns).collect())
        assert answer == readers.visible_rows(runner(capsys))

    readers.fill_parts()
    check()
    readers.evolve()
    readers.fill_parts()
    readers.compact()
    check()
    readers.begin_day()
    readers.fill_parts()
    readers.expire_days_before()
    check()
    readers.expire(-2 * DAY_S)
    assert land_topic(spark, readers.root, THINGS, readers.target).collect() == []


def test_rows_land_once_over_runs(lab, into):
    lab.log.create(shards=2)
    for run in range(3):
        lab.log.append(20, first=20 * run)
        lab.log.writer.seal()
        frame = land_topic(lab.spark, lab.log.root, NAME, into)
        assert numbers(frame) == list(range(20 * (run + 1)))
    frame = land_topic(lab.spark, lab.log.root, NAME, str(into))
    assert frame.columns[0] == "shard"
    assert numbers(frame) == list(range(60))
    assert numbers(frame.where("shard = 1")) == list(range(1, 60, 2))


def test_frame_stays_as_it_was_when_it_was_asked_for(lab, into):
    lab.log.create(shards=1)
    lab.log.append(5)
    lab.log.writer.seal()
    before = land_topic(lab.spark, lab.log.root, NAME, into)
    lab.log.append(5, first=5)
    lab.log.writer.seal()
    assert numbers(land_topic(lab.spark, lab.log.root, NAME, into)) == list(range(10))
    assert numbers(before) == list(range(5))


def test_value_that_cannot_be_read_lands_as_bytes(lab, into):
    lab.log.create(shards=1)
    rows = [(FIRST_MS + at, at, float(at)) for at in range(3)]
    append_heat(lab.log.writer, rows, 0, broken=1)
    lab.log.writer.seal()
    frame = land_topic(lab.spark, lab.log.root, NAME, into).orderBy("address")
    heats = [tuple(row) for row in frame.select("heat", "payload").collect()]
    assert heats == [(None, BROKEN), (1.0, None), (2.0, None)]


def test_floats_are_read_whatever_reader_spark_is_set_to(lab, into):
    lab.log.create(shards=1)
    append_heat(lab.log.writer, [(FIRST_MS, 1, 0.5)], 0)
    lab.log.writer.seal()
    setting = "spark.sql.parquet.enableVectorizedReader"
    was = lab.spark.conf.get(setting)
    lab.spark.conf.set(setting, "true")
    try:
        frame = land_topic(lab.spark, lab.log.root, NAME, into)
        assert [row.heat for row in frame.select("heat").collect()] == [0.5]
    finally:
        lab.spark.conf.set(setting, was)


def test_frame_reads_on_behind_a_takeover_for_as_long_as_its_files_stay(spark, tmp_path):
    log = EnginesLab(tmp_path)
    for _ in range(5):
        log.append(VERSIONS[0])
        log.publish()
    frame = land_topic(spark, log.root, READINGS)
    rows = frame.count()
    assert rows == len(log.of_table().rows)
    log.take_over()
    log.append(VERSIONS[1])
    log.compact()
    vacuum_stream(log.root, READINGS)
    assert frame.count() == rows
    log.vacuum()
    with pytest.raises((Py4JJavaError, PySparkException), match=r"FILE_NOT_EXIST.*\.parquet"):
        frame.count()
    assert land_topic(spark, log.root, READINGS).count() == len(log.of_table().rows)
    log.close()
