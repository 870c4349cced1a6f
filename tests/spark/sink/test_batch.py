"""Batch writes by a real Spark: each lands once, options and columns are refused on the driver."""

import threading
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.base import PySparkException

from storage_core import StreamReader
from tests.spark.support.sink_lab import BY_EACH_DOOR, NAME, SinkLab, lab_by


@pytest.fixture
def lab(request, spark, tmp_path):
    with lab_by(getattr(request, "param", "path"), spark, tmp_path) as lab:
        yield lab


def refusal(lab: SinkLab, rows: Any, mode: str = "append", **options: Any) -> str:
    """Return the first line of a write's error."""
    with pytest.raises(PySparkException) as raised:
        lab.write(rows, mode, **options)
    return str(raised.value).splitlines()[0]


@BY_EACH_DOOR
def test_rows_of_all_tasks_land_in_a_stream_that_is_made(lab):
    lab.write(range(1000), shards=2, unit="us")
    assert lab.stored == list(range(1000))
    assert lab.staged == []
    with StreamReader.open(lab.root, NAME) as reader:
        assert (reader.options.unit, reader.options.shards) == ("us", 2)
        assert reader.read(ids=7).column("payload").to_pylist() == [b"7"]


def test_each_write_is_a_transaction_of_its_own(lab):
    lab.write([1])
    lab.write([1])
    assert lab.stored == [1, 1]


@BY_EACH_DOOR
def test_frame_without_rows_or_without_tasks_is_a_write_too(lab, spark):
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), lab.frame([1]).schema)
    for frame in (nothing, lab.frame([1]).where("primary < 0"), lab.frame(range(3)).repartition(7)):
        lab.write(frame)
    assert (lab.stored, lab.staged) == ([0, 1, 2], [])


@BY_EACH_DOOR
def test_version_that_was_seen_with_other_rows_is_refused_unless_they_may_go(lab):
    lab.write([1], txnAppId="app", txnVersion=2)
    with pytest.raises(Exception, match="version 2 of app 'app' comes with 2 rows and is in the"):
        lab.write([1, 2], txnAppId="app", txnVersion=2)
    lab.write([1, 2], txnAppId="app", txnVersion=2, onChangedBatch="skip")
    assert (lab.stored, lab.staged) == ([1], [])


@BY_EACH_DOOR
def test_tombstones_versions_and_kafkas_columns_are_stored(lab, spark):
    query = "SELECT 1L AS primary, 2 AS secondary, CAST(NULL AS BINARY) AS value, 3 AS version"
    lab.write(spark.sql(query))
    query = (
        "SELECT X'00000009' AS key, X'AA' AS value, TIMESTAMP_MILLIS(1234) AS timestamp, "
        "'t' AS topic, 0 AS partition, 7L AS offset, 0 AS timestampType, "
        "array(named_struct('key', 'h', 'value', X'BB')) AS headers"
    )
    lab.write(spark.sql(query))
    with StreamReader.open(lab.root, NAME) as reader:
        names = ("primary", "secondary", "payload", "version", "headers")
        assert [tuple(row.values()) for row in reader.read(columns=names).to_pylist()] == [
            (1, 2, None, 3, None),
            (1234, 9, b"\xaa", 0, [{"key": "h", "value": b"\xbb"}]),
        ]


def test_no_mode_but_append_is_taken(lab):
    lab.write([1])
    assert "a log is only appended to: write with mode('append')" in refusal(
        lab, [2], mode="overwrite"
    )
    with pytest.raises(AnalysisException, match="ErrorIfExists"):
        lab.write([2], mode="errorifexists")
    assert lab.stored == [1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colour": "red"}, "unknown option colour"),
        ({"path": ""}, "option path is missing"),
        ({"shards": 3}, "3 is not a power of two"),
        ({"txnAppId": "a"}, "go together"),
        ({"stream": "a/b"}, "bad stream name 'a/b'"),
    ],
)
def test_bad_options_are_told_in_the_first_line_and_make_nothing(lab, options, said):
    assert said in refusal(lab, [1], **options)
    assert not lab.root.exists()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("primary", "CAST(NULL AS INT) AS secondary", "value"), "column 'secondary' holds nulls"),
        (("primary", "5000000000L AS secondary", "value"), "column 'secondary' of type int64"),
        (("X'01' AS key", "value", "TIMESTAMP_MILLIS(1) AS timestamp"), "column 'key'"),
    ],
)
def test_row_that_does_not_fit_fails_the_job_and_leaves_nothing(lab, columns, said):
    with pytest.raises(PySparkException, match=said):
        lab.write(lab.frame([1]).selectExpr(*columns))
    assert (lab.stored, lab.staged) == ([], [])


@BY_EACH_DOOR
def test_write_beside_a_live_writer_is_refused_and_lands_once_when_run_again(lab):
    lab.write([1])
    with lab.holding(), pytest.raises(PySparkException, match="another writer holds the shard"):
        lab.write([2], lockWait=0)
    assert lab.stored == [1]
    lab.write([2])
    assert lab.stored == [1, 2]


def test_writes_from_another_thread_once_the_session_is_the_threads_own(lab, spark):
    rows, failed = lab.frame([1]), []

    def write():
        try:
            spark.createDataFrame([], "n int")
            lab.write(rows)
        except Exception as error:  # noqa: BLE001 - told by the assertion
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (failed, lab.stored) == ([], [1])
