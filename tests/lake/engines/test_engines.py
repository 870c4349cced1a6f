"""Goal: every engine finds the rows of a plain list, typed, at each stage of a table's life.

Method: a topic's values are of five versions of a schema (readings.py), with late rows, null
values, raw ones and keys beyond ASCII. They are published, merged, expire, their older files are
deleted; another root takes over, and lets its own files go. Behind each of these each engine reads
all: the table by deltalake, Polars, DuckDB and Spark; the log by its own readers.
"""

from collections.abc import Iterator

import pytest

from tests.lake.engines.engines import OF_LOG, OF_SQL, OF_TABLE
from tests.lake.engines.engines_lab import NAME, EnginesLab, Place
from tests.lake.engines.readings import VERSIONS
from tests.lake.readers.rows import rows_of

# Times of day and nanoseconds Spark cannot read from the log's own parts.
UNREAD = {"clock", "at_timestamp_ns"}


def stages(lab: EnginesLab, *, is_streamed: bool = False) -> Iterator[str]:
    """Bring a table through its life; stop behind each stage, to be looked at."""
    first, second, third, fourth, fifth = VERSIONS
    lab.append(first, is_old=True)
    lab.append(first)
    lab.append(second)
    lab.publish()
    yield "published"
    # Parts that lie side by side are merged where there are enough.
    for version in (second, third, third, fourth, fourth):
        lab.append(version)
        lab.publish()
    lab.compact()
    yield "compacted"
    lab.expire()
    yield "expired"
    # A stream of Delta's reads its last batch anew when it is started again.
    lab.vacuum(with_log=not is_streamed)
    yield "vacuumed"
    lab.take_over()
    lab.append(fifth)
    lab.publish()
    yield "taken over"
    lab.let_go()
    yield "only in the lake"


def test_each_engine_of_this_process_finds_the_rows_of_each_stage(lab):
    for stage in stages(lab):
        ways = ((OF_TABLE, lab.of_table()), (OF_SQL, lab.of_sql()), (OF_LOG, lab.of_log()))
        for engines, expected in ways:
            for name, find in engines.items():
                assert expected.faults_of(rows_of(find(lab))) == [], (stage, name)
        assert lab.problems() == [], stage


# However long a download takes, it is no fault of the code.
@pytest.mark.timeout(0)
def test_delta_scan_of_duckdb_finds_the_rows_of_each_stage(lab, duck_delta):
    for stage in stages(lab):
        rows = duck_delta.rows(lab.target.uri, lab.table_columns, lab.floor)
        assert lab.of_table().faults_of(rows) == [], stage


@pytest.mark.spark
@pytest.mark.timeout(0)
def test_spark_finds_the_rows_of_each_stage_and_streams_each_once(lab, delta_spark, tmp_path):
    table = delta_spark.table(lab.target.uri, tmp_path / "checkpoint")
    streamed: set[Place] = set()
    for stage in stages(lab, is_streamed=True):
        of_parts = [name for name in lab.sql_columns if name not in UNREAD]
        turn = table.turn(lab.table_columns, (lab.root, NAME), of_parts, floor=lab.floor)
        expected = lab.of_table()
        assert expected.faults_of(turn.frame) == [], stage
        assert turn.landed == turn.frame, stage
        assert expected.without(streamed).faults_of(turn.news) == [], stage
        streamed |= expected.places
        assert lab.of_sql(of_parts).faults_of(turn.parts or []) == [], stage
