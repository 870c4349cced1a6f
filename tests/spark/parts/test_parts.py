"""Goal: Spark over parts answers what the log holds at one moment, and skips what it need not read.

Method: rows of every kind are appended; some are sealed. Frames are compared with the log's
own rows and with what our source gives of the same stream, and plans are asked what was pushed
into the files.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from storage_core import CorruptionError, InvalidRequestError, Stream
from storage_core.sql import connect
from streaming_jobs.parts import dataframe
from tests.lake.absent.away import move_away
from tests.log.parts.parts_lab import (
    FIRST_MS,
    NAME,
    SCHEMAS,
    PartsLab,
    Row,
    give_up_a_block,
    schema_of,
)
from tests.log.sql.unlike_types import KINDS, append_pairs, faults_in, pairs_of
from tests.spark.support.session import HAS_SPLIT_FLOATS
from tests.thin import thin

ENVELOPE = ("shard", "address", "primary", "version", "state", "timestamp", "schema_id")


KEY_MODES = ["none", "dictionary"]


def partly_sealed(place: Path, key_mode: str) -> PartsLab:
    """Make a stream of 700 rows, of which two parts have 600."""
    lab = PartsLab(place / "a {root} [of] version=3", key_mode=key_mode)
    rng = np.random.default_rng(31)
    for _ in range(2):
        lab.append(rng, 300)
        lab.stream.seal()
    lab.append(rng, 100)
    return lab


@pytest.fixture(params=KEY_MODES)
def each_lab(request, tmp_path):
    """A stream of ids, and one of keys."""
    lab = partly_sealed(tmp_path, request.param)
    yield lab
    lab.stream.close()


@pytest.fixture(
    params=[pytest.param(mode, marks=pytest.mark.thinned) for mode in thin(KEY_MODES, 1)]
)
def lab(request, tmp_path):
    """A stream of ids or of keys, where that makes no difference."""
    lab = partly_sealed(tmp_path, request.param)
    yield lab
    lab.stream.close()


def rows_of(frame: Any, *names: str) -> list[Row]:
    rows = [row.asDict(recursive=True) for row in frame.select(*names).collect()]
    return sorted(rows, key=lambda row: (row["shard"], row["address"]))


def plan_of(frame: Any) -> str:
    frame.sparkSession.conf.set("spark.sql.maxMetadataStringLength", 10_000)
    try:
        text: str = frame._jdf.queryExecution().executedPlan().toString()
    finally:
        frame.sparkSession.conf.unset("spark.sql.maxMetadataStringLength")
    return text


def test_rows_are_those_of_the_log_sealed_or_not(spark, each_lab):
    names = [*ENVELOPE, each_lab.id_column]
    rows = rows_of(dataframe(spark, each_lab.root, NAME), *names)
    assert rows == [{name: row[name] for name in names} for row in each_lab.rows()]
    each_lab.stream.seal()
    assert rows_of(dataframe(spark, each_lab.root, NAME), *names) == rows


def test_fields_are_those_that_our_source_reads_from_blocks(spark, each_lab):
    options = {"path": str(each_lab.root), "stream": NAME, "readerSchema": SCHEMAS[1].text}
    options |= {"valueFormat": "avro", "mode": "PERMISSIVE", "startingOffsets": "earliest"}
    source = spark.read.format("shardlog").options(**options).load()
    source = source.where("_corrupt_value IS NULL").withColumnsRenamed(
        {"partition": "shard", "offset": "address"}
    )
    both = (
        dataframe(spark, each_lab.root, NAME)
        .alias("a")
        .join(source.alias("b"), ["shard", "address"])
    )
    terms = [f"a.{name} <=> b.{name}" for name in ("temperature", "value_version", "humidity")]
    same = " AND ".join([*terms, "to_json(a.tags) <=> to_json(b.tags)"])
    assert both.count() == source.count()
    assert both.where("a.temperature IS NOT NULL AND a.humidity IS NOT NULL").count() > 0
    assert both.where(f"NOT ({same})").count() == 0


def test_filters_and_columns_reach_the_files(spark, lab):
    frame = dataframe(spark, lab.root, NAME)
    frame = frame.where(f"primary >= {FIRST_MS + 5000} AND temperature = 20.5").select(
        "temperature"
    )
    plan = plan_of(frame)
    assert f"GreaterThanOrEqual(primary,{FIRST_MS + 5000})" in plan
    assert "EqualTo(temperature,20.5)" in plan
    assert "tags" not in plan.split("ReadSchema")[1].splitlines()[0]


def test_columns_that_nobody_asks_for_are_read_only_where_rows_may_be_hidden(spark, tmp_path):
    lab = PartsLab(tmp_path)
    lab.append_orders(100)
    lab.stream.seal()
    read = "ReadSchema: struct<number:string>"
    assert read in plan_of(dataframe(spark, lab.root, NAME).selectExpr("sum(length(number))"))
    lab.stream.alter(records_max=50)
    lab.stream.expire(now=FIRST_MS)
    frame = dataframe(spark, lab.root, NAME).selectExpr("sum(length(number))")
    lab.stream.close()
    assert read not in plan_of(frame)


def test_floats_of_parts_are_read_or_the_setting_is_named(spark, lab):
    """PySpark before 4.3 has no reader of them but the slower one."""
    frame = dataframe(spark, lab.root, NAME, columns=["temperature"])
    with connect(lab.root) as streams:
        warm = streams.sql(f"SELECT count_if(temperature > 20), count(temperature) FROM {NAME}")
        expected = warm.fetchall()
    counts = frame.selectExpr("count_if(temperature > 20)", "count(temperature)")
    assert [tuple(row) for row in counts.collect()] == expected
    if HAS_SPLIT_FLOATS:
        return
    setting = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(InvalidRequestError, match=f"'temperature'.*{setting}: set it to false"):
            dataframe(spark, lab.root, NAME, columns=["temperature"])
        whole = dataframe(spark, lab.root, NAME, columns=["address"])
        assert whole.count() == len(lab.rows())
    finally:
        spark.conf.set(setting, "false")


def test_only_columns_that_are_wanted_are_there(spark, lab):
    frame = dataframe(spark, lab.root, NAME, columns=["address", "humidity"])
    assert frame.columns == ["address", "humidity"]
    with pytest.raises(InvalidRequestError, match="wind"):
        dataframe(spark, lab.root, NAME, columns=["wind"])


@pytest.mark.parametrize("columns", ["address", [1]])
def test_columns_are_a_list_of_names(spark, lab, columns):
    with pytest.raises(InvalidRequestError, match="list of names"):
        dataframe(spark, lab.root, NAME, columns=columns)


def test_root_is_told_as_to_the_source(spark, lab, monkeypatch):
    monkeypatch.chdir(lab.root.parent)
    monkeypatch.setenv("HOME", str(lab.root.parent))
    name = lab.root.name
    roots = [name, Path(name), f"~/{name}", lab.root.absolute().as_uri()]
    assert [dataframe(spark, root, NAME).count() for root in roots] == [700] * 4


def test_frame_does_not_follow_the_working_directory(spark, lab, monkeypatch, tmp_path):
    monkeypatch.chdir(lab.root.parent)
    frame = dataframe(spark, lab.root.name, NAME)
    monkeypatch.chdir(tmp_path.parent)
    assert frame.count() == 700


ALIKE: list[Row] = [{"name": "b", "type": "int"}, {"name": "B", "type": "int"}]


def test_fields_whose_names_meet_have_the_columns_of_sql_sealed_or_not(spark, tmp_path):
    lab = PartsLab(tmp_path)
    inner = {"type": "record", "name": "Inner", "fields": ALIKE}
    fields = [
        *ALIKE,
        {"name": "in", "type": inner},
        {"name": "shard", "type": "int"},
        {"name": "value_shard", "type": "int"},
    ]
    value = {"b": 1, "B": 2, "in": {"b": 5, "B": 6}, "shard": 3, "value_shard": 4}
    lab.append_values(schema_of(fields), [value], 42)
    with connect(lab.root) as streams:
        names = streams.sql(f"FROM {NAME}").columns
    assert names[-4:] == ["b", "B_2", "value_shard", "value_value_shard"]
    for _ in range(2):
        frame = dataframe(spark, lab.root, NAME)
        assert frame.columns == names
        (row,) = frame.select(*names[-4:]).collect()
        assert tuple(row) == (1, 2, 3, 4)
        assert frame.where("unix_micros(time) = primary * 1000").count() == 1
        lab.stream.seal()
    lab.stream.close()


def test_numbers_and_truths_are_one_column_as_in_sql(spark, tmp_path):
    lab = PartsLab(tmp_path)
    for number, (kind, value) in enumerate({"long": 7, "boolean": True, "int": 5}.items()):
        schema = schema_of([{"name": "held", "type": kind}], kind.title())
        lab.append_values(schema, [{"held": value}], 40 + number)
    assert sorted(row.held for row in dataframe(spark, lab.root, NAME).collect()) == [1, 5, 7]
    lab.stream.close()


@pytest.mark.parametrize(("wrap", "names"), [("alone", ("A", "B")), ("records", ("A", "A"))])
def test_values_of_every_two_types_are_shown_as_they_are(spark, tmp_path, wrap, names):
    pairs = pairs_of(KINDS)
    lab = PartsLab(tmp_path)
    append_pairs(lab, pairs, wrap, names)
    lab.stream.seal()
    frame = dataframe(spark, tmp_path, NAME).orderBy("address")
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert list(faults_in(rows, pairs, wrap)) == []
    lab.stream.close()


def test_damaged_page_is_told_by_its_file(spark, tmp_path):
    lab = PartsLab(tmp_path)
    lab.append_orders(5000)
    lab.stream.seal()
    (part,) = lab.stream.parts()
    lab.stream.close()
    whole, row_group = part.path.read_bytes(), pq.read_metadata(part.path).row_group(0)
    frame = dataframe(spark, tmp_path, NAME)
    for column in range(row_group.num_columns):
        chunk = row_group.column(column)
        if chunk.path_in_schema not in frame.columns:
            continue
        damaged = bytearray(whole)
        damaged[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
        part.path.write_bytes(damaged)
        with pytest.raises(Py4JJavaError, match=part.path.name):
            frame.select(f"`{chunk.path_in_schema}`").collect()


def test_part_that_is_not_there_is_told(spark, tmp_path):
    lab = PartsLab(tmp_path)
    lab.append_orders(10)
    lab.stream.seal()
    (part,) = lab.stream.parts()
    lab.stream.close()
    part.path.unlink()
    with pytest.raises(CorruptionError, match=r"addresses \[0, 10\)"):
        dataframe(spark, tmp_path, NAME)


def test_frame_stays_at_its_moment(spark, lab):
    frame = dataframe(spark, lab.root, NAME)
    lab.append(np.random.default_rng(32), 50)
    lab.stream.seal()
    assert frame.count() == 700
    assert dataframe(spark, lab.root, NAME).count() == 750


def test_rows_that_were_given_up_behind_their_seal_are_not_shown(spark, tmp_path):
    lab = PartsLab(tmp_path)
    for number in range(3):
        lab.append(np.random.default_rng(number), 50)
    lab.stream.seal()
    give_up_a_block(lab.stream)
    rows = rows_of(dataframe(spark, tmp_path, NAME), "shard", "address")
    assert rows == [{name: row[name] for name in ("shard", "address")} for row in lab.rows()]
    assert len(rows) < 150
    lab.stream.close()


def test_expired_rows_are_not_shown(spark, tmp_path):
    lab = PartsLab(tmp_path)
    rng = np.random.default_rng(33)
    lab.append(rng, 300)
    lab.stream.seal()
    lab.append(rng, 300)
    lab.stream.alter(retention=timedelta(seconds=200))
    now = FIRST_MS + 600_000
    lab.stream.expire(now=now)
    rows = rows_of(dataframe(spark, lab.root, NAME), "shard", "address")
    left = [row for row in lab.rows_left(now - 200_000) if row["state"] != 3]
    lab.stream.close()
    assert [tuple(row.values()) for row in rows] == sorted(
        (row["shard"], row["address"]) for row in left
    )


def test_stream_without_rows_is_empty(spark, tmp_path):
    Stream.create(tmp_path, NAME).close()
    assert dataframe(spark, tmp_path, NAME).where("secondary = 1 AND payload IS NULL").count() == 0


def test_frame_is_used_again_after_its_parts_were_joined(spark, tmp_path):
    lab = PartsLab(tmp_path)
    rng = np.random.default_rng(34)
    for _ in range(5):
        lab.append(rng, 60)
        lab.stream.seal()
    frame = dataframe(spark, tmp_path, NAME)
    before = rows_of(frame, *ENVELOPE)
    assert lab.stream.compact().parts_obsolete
    assert rows_of(frame, *ENVELOPE) == before
    assert rows_of(dataframe(spark, tmp_path, NAME), *ENVELOPE) == before
    lab.stream.close()


def test_frame_has_the_rows_of_files_that_only_the_lake_has(spark, lab, tmp_path):
    lab.stream.alter(lake=str(tmp_path / "lake"))
    before = rows_of(dataframe(spark, lab.root, NAME), *ENVELOPE)
    assert move_away(lab.stream, tmp_path / "lake")
    assert rows_of(dataframe(spark, lab.root, NAME), *ENVELOPE) == before
