"""Batch reads through a real Spark: columns, options, filters, and mistakes told on the driver."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException

from storage_core import HEADERS_TYPE
from tests.spark.support.lab import NAME, first_line, numbers_of
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS

FIRST = datetime.fromtimestamp(FIRST_MS / 1000, UTC).replace(tzinfo=None)


@pytest.fixture
def full(lab):
    """Twenty rows, even numbers in shard 0; 20 is late."""
    lab.log.create(shards=2)
    lab.log.append(20)
    lab.log.writer.append(FIRST_MS + 2, 18, b"20")
    lab.log.writer.commit()
    return lab


def test_rows_of_a_stream_have_every_column(full):
    row = full.read(includeHeaders="true").where("offset = 2 and partition = 1").collect()[0]
    assert row.asDict() == {
        "key": None,
        "value": bytearray(b"5"),
        "topic": NAME,
        "partition": 1,
        "offset": 2,
        "timestamp": FIRST + timedelta(milliseconds=5),
        "timestampType": 0,
        "headers": None,
        "primary": FIRST_MS + 5,
        "secondary": 5,
        "version": 0,
        "late": False,
        "state": 0,
        "schema_id": None,
    }


def test_rows_of_a_topic_look_as_kafkas_do(lab):
    lab.log.create_topic({0: 0, 3: 100})
    headers = pa.array([[("a", b"1"), ("a", None)], None], HEADERS_TYPE)
    payload = pa.array([b"", None], pa.binary())
    lab.log.put(3, [100, 107], headers=headers, payload=payload)
    columns = "key,value,topic,partition,offset,timestamp,timestampType,headers"
    rows = [tuple(row) for row in lab.read(columns=columns).orderBy("offset").collect()]
    key, first = bytearray(b"\x00\x00\x00\x07"), FIRST + timedelta(milliseconds=100)
    assert rows == [
        (key, b"", "orders", 3, 100, first, 0, [("a", bytearray(b"1")), ("a", None)]),
        (key, None, "orders", 3, 107, first + timedelta(milliseconds=7), 0, None),
    ]


def test_view_made_in_sql_reads_the_stream(full):
    full.spark.sql(
        f"create temporary view made_in_sql using shardlog "
        f"options (path '{full.log.root}', stream '{NAME}', ids '3,4')"
    )
    rows = full.spark.sql("select secondary from made_in_sql order by 1").collect()
    assert rows == [(3,), (4,)]


def ends(**by_shard):
    return {NAME: {name[1:]: offset for name, offset in by_shard.items()}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": ends(_0=9, _1=10)}, [18, 20]),
        ({"endingOffsets": ends(_0=2, _1=0)}, [0, 2]),
        ({"startingTimestamp": FIRST_MS + 18}, [18, 19, 20]),
        ({"startingTimestamp": FIRST_MS + 3, "endingTimestamp": FIRST_MS + 7}, [3, 4, 5, 6]),
        ({"startPrimary": FIRST_MS + 2, "endPrimary": FIRST_MS + 3}, [2, 3, 20]),
        ({"startPrimary": FIRST_MS + 2, "includeLate": "false", "ids": "2,18"}, [2, 18]),
        ({"minPartitions": 5, "maxRecordsPerPartition": 3}, list(range(21))),
        ({"endingOffsets": ends(_0=0, _1=0)}, []),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_option_chooses_rows(full, options, expected):
    assert full.numbers(**options) == expected


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_each_use_of_a_frame_has_its_own_filters(full, enabled):
    full.spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
    try:
        frame = full.read()
        low, high = frame.where("secondary < 3"), frame.where("secondary >= 18")
        assert (low.count(), frame.count(), high.count()) == (3, 21, 3)
        assert low.join(high, "offset").count() == 0
        assert numbers_of(low.union(high)) == [0, 1, 2, 18, 19, 20]
    finally:
        full.spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOfsets": "earliest"}, "unknown option startingofsets"),
        ({"maxOffsetsPerTrigger": "many"}, "option maxOffsetsPerTrigger: 'many'"),
        ({"stream": "nothing"}, "there is no such stream"),
        ({"path": "/nowhere"}, "not a shardlog root"),
    ],
)
def test_mistake_is_told_by_load_in_its_first_line(full, options, said):
    with pytest.raises(AnalysisException) as raised:
        full.read(**options)
    assert said in first_line(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "latest leaves nothing to read"),
        (
            {"startingOffsets": ends(_0=9, _1=0), "endingOffsets": ends(_0=5, _1=0)},
            "offset 9, lies above the end, 5",
        ),
    ],
    ids=["latest", "above"],
)
def test_mistake_that_only_a_batch_makes_is_told_before_its_job(full, options, said):
    with pytest.raises(PySparkException) as raised:
        full.read(**options).collect()
    assert said in first_line(raised.value)
