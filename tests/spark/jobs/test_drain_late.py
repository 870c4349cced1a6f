"""`drain_late`: late rows come out once each, as they are, with how late each was."""

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from storage_core import InvalidRequestError, Stream, StreamOptions, StreamReader, SystemClock
from streaming_jobs.jobs.drain_late import LATE_BY, ORIGIN, drain_late
from tests.spark.support.avro_rows import BROKEN, append_heat
from tests.spark.support.lab import NAME
from tests.thin import EVERY_CASE
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS

SECONDS_MAX = 600
IDS = 20
ROWS = 400


@pytest.fixture
def job(lab, tmp_path):
    """The job's run over what is there, and what it has written."""

    def run(**options):
        options = {"checkpoint": tmp_path / "job", "once": True, **options}
        query = drain_late(lab.spark, lab.log.root, NAME, **options)
        assert query.awaitTermination(SECONDS_MAX), "the query goes on"

    return run


def corrections(lab, columns=("primary", "payload", "headers")):
    with StreamReader.open(lab.log.root, f"{NAME}-late") as reader:
        return reader.read(columns=list(columns)).to_pylist()


def header(row, name):
    return {one["key"]: one["value"] for one in row["headers"]}.get(name)


def append_rows(log, rng, number, key=None):
    """Append rows of which some are late; return how late each of these is, by its value."""
    times = FIRST_MS + number * ROWS * 10 + np.arange(ROWS) * 10
    times -= (rng.random(ROWS) < 0.05) * rng.integers(1, 30_000, ROWS)
    ids = rng.integers(0, IDS, ROWS).astype(np.int32)
    values = [b"%d-%d" % (number, at) for at in range(ROWS)]
    columns = {"primary": pa.array(times), "payload": pa.array(values, pa.binary())}
    if key is None:
        columns["secondary"] = pa.array(ids)
    else:
        columns["key"] = pa.array([b"device-%d" % one for one in ids], pa.binary())
    log.writer.append_batch(pa.RecordBatch.from_pydict(columns))
    log.writer.commit()
    return list(zip(ids.tolist(), times.tolist(), values, strict=True))


def lateness(rows):
    """Return how late rows are, by value: what plain Python finds in order of arrival."""
    newest: dict[int, int] = {}
    late = {}
    for secondary, time, value in rows:
        if time < newest.get(secondary, time):
            late[value] = newest[secondary] - time
        newest[secondary] = max(time, newest.get(secondary, time))
    return late


@pytest.mark.parametrize("id_column", [None, "key"])
def test_late_rows_come_out_once_with_how_late_they_were(lab, job, id_column):
    rng = np.random.default_rng(7)
    lab.log.create(shards=4, key_mode="none" if id_column is None else "dictionary")
    rows = []
    for run in range(3 if EVERY_CASE else 2):
        for number in range(2):
            rows += append_rows(lab.log, rng, 2 * run + number, id_column)
        lab.log.close()
        job(max_rows=ROWS)
        lab.log.open()
    expected = lateness(rows)
    assert len(expected) > 20
    written = corrections(lab)
    assert {row["payload"]: int(header(row, LATE_BY)) for row in written} == expected
    assert len(written) == len(expected)
    times = {value: time for _, time, value in rows}
    assert all(row["primary"] == times[row["payload"]] for row in written)


@pytest.mark.parametrize("secondary", ["field:device", "key"])
def test_topic_whose_ids_are_no_keys_tells_how_late_by_what_judged_it(lab, job, secondary):
    lab.log.create_topic({0: 0}, key_mode="none", secondary=secondary)
    times, ids = [50, 30, 20, 45], [7, 9, 9, 7]
    keys = [b"a", b"b", b"a", None]
    secondaries = ids if secondary == "field:device" else [-1] * 4
    lab.log.put(
        0,
        range(4),
        primary=pa.array(times),
        secondary=pa.array(secondaries, pa.int32()),
        key=pa.array(keys, pa.binary()),
        timestamp=pa.array(times),
    )
    job()
    late_by = {row["primary"]: int(header(row, LATE_BY)) for row in corrections(lab)}
    by_id, by_shard = {20: 10, 45: 5}, {30: 20, 20: 30, 45: 5}
    assert late_by == (by_id if secondary == "field:device" else by_shard)


def test_correction_says_where_its_row_lies(lab, job):
    lab.log.create(shards=2)
    lab.log.append(10)
    lab.log.writer.append(FIRST_MS, 3, b"late")
    lab.log.writer.commit()
    job()
    (row,) = corrections(lab)
    assert header(row, ORIGIN) == b"events/1/5"
    assert header(row, LATE_BY) == b"3"


@pytest.mark.parametrize(
    ("into", "message"),
    [(NAME, "cannot be written to itself"), ("../late", "can be no stream's name")],
)
def test_stream_that_corrections_cannot_go_to_is_refused(lab, job, into, message):
    lab.log.create()
    lab.log.append(1)
    with pytest.raises(InvalidRequestError, match=message):
        job(into=into)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "stream 'others' holds rows that are no corrections; name another with into"),
        ({"unit": "s"}, "stream 'others' counts s, and 'events' ms; name another with into"),
        ({"key_mode": "dictionary"}, "are of keys, and those of 'events' of ids; name another"),
    ],
)
def test_stream_of_something_else_is_refused_and_left_as_it_is(lab, job, options, message):
    lab.log.create()
    lab.log.append(1)
    with Stream.create(lab.log.root, "others", StreamOptions(shards=1, **options)) as others:
        whose = {"key": [b"a"]} if "key_mode" in options else {"secondary": [1]}
        others.append_batch(pa.table({"primary": [1], "payload": [b"x"], **whose}))
    with pytest.raises(InvalidRequestError, match=message):
        job(into="others")
    with StreamReader.open(lab.log.root, "others") as reader:
        assert sum(reader.committed().values()) == 1


def test_stream_of_a_topic_takes_no_corrections(lab):
    lab.log.create_topic({0: 0})
    Stream.create(lab.log.root, "plain", StreamOptions(shards=1)).close()
    with pytest.raises(InvalidRequestError, match="stream 'events' is a topic's; name another"):
        drain_late(lab.spark, lab.log.root, "plain", NAME, checkpoint=lab.log.root / "x")


def test_rows_that_expired_while_the_job_was_stopped_are_passed_over_if_wanted(lab, job):
    lab.log.create(shards=1, retention=timedelta(days=2))
    lab.log.append(5)
    job()
    lab.log.append(5, first=5)
    lab.log.writer.append(FIRST_MS, 5, b"expires")
    lab.log.writer.commit()
    today = SystemClock().now_ns() // 10**6
    lab.log.writer.append(today, 5, b"newest")
    lab.log.writer.commit()
    lab.log.writer.expire()
    lab.log.writer.append(today - 1, 5, b"late")
    lab.log.writer.commit()
    with pytest.raises(StreamingQueryException, match="have expired or are gone before they were"):
        job()
    job(skip_lost=True)
    assert [row["payload"] for row in corrections(lab)] == [b"late"]


def test_stream_without_late_rows_gets_no_corrections(lab, job):
    lab.log.create()
    lab.log.append(10)
    job()
    with pytest.raises(InvalidRequestError, match="no such stream"):
        corrections(lab)


def test_batch_that_comes_again_writes_no_correction_twice(lab, job, tmp_path):
    lab.log.create(shards=2)
    lab.log.append(10)
    lab.log.writer.append(FIRST_MS, 3, b"late")
    lab.log.writer.commit()
    job()
    for name in ("0", ".0.crc"):
        (tmp_path / "job" / "commits" / name).unlink(missing_ok=True)
    job()
    assert len(corrections(lab)) == 1


def test_corrections_of_avro_values_are_read_by_fields(lab, job):
    lab.log.create(shards=2)
    rows = [(FIRST_MS + 10 * at, 1, float(at)) for at in range(5)]
    append_heat(lab.log.writer, rows, 1)
    late: list[tuple[int, int, float | None]] = [(FIRST_MS + 5, 1, 77.5), (FIRST_MS + 6, 1, None)]
    append_heat(lab.log.writer, [(FIRST_MS + 7, 1, 0.0), *late], 0, broken=1)
    job()
    frame = lab.spark.read.format("shardlog").options(path=lab.log.root, stream=f"{NAME}-late")
    corrected = frame.options(valueFormat="avro", mode="PERMISSIVE").load().collect()
    assert {(row.primary - FIRST_MS, row.heat, row.place) for row in corrected} == {
        (5, 77.5, "place 1"),
        (6, None, None),
        (7, None, None),
    }
    (broken,) = [row._corrupt_value for row in corrected if row._corrupt_value is not None]
    assert broken == BROKEN
    assert {header(row, LATE_BY) for row in corrections(lab)} == {b"35", b"34", b"33"}
