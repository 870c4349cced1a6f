"""Goal: `time` in SQL is a moment in UTC, as in reads, files and Spark, however it is asked.

Method: one row, whose moment is known, is asked in each way that SQL has of times; sealed and not.
"""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions
from storage_core.sql import connect
from tests.log.parts.parts_lab import FIRST_MS, NAME

ASKED = {
    "typeof(time)": "TIMESTAMP WITH TIME ZONE",
    "time::VARCHAR": "2023-11-14 22:13:20+00",
    "time = TIMESTAMP '2023-11-14 22:13:20'": True,
    "time = TIMESTAMPTZ '2023-11-15 00:13:20+02'": True,
    "time = '2023-11-14 22:13:20'": True,
    "time = '2023-11-14T22:13:20Z'": True,
    "time > DATE '2023-11-14' AND time < DATE '2023-11-15'": True,
    'time = epoch_ms("primary")': True,
    "time::DATE = DATE '2023-11-14'": True,
    "time::TIMESTAMP = TIMESTAMP '2023-11-14 22:13:20'": True,
    "time < now()": True,
    "date_trunc('hour', time)::VARCHAR": "2023-11-14 22:00:00+00",
    "date_trunc('day', time)::VARCHAR": "2023-11-14 00:00:00+00",
    "time_bucket(INTERVAL 10 MINUTES, time)::VARCHAR": "2023-11-14 22:10:00+00",
    "strftime(time, '%Y-%m-%dT%H:%M:%S')": "2023-11-14T22:13:20",
    "extract(hour FROM time)": 22,
    "dayname(time)": "Tuesday",
    "epoch_ms(time)": FIRST_MS,
    "(time + INTERVAL 1 DAY)::VARCHAR": "2023-11-15 22:13:20+00",
    "date_diff('day', DATE '2023-11-01', time)": 13,
    "(time AT TIME ZONE 'Europe/Berlin')::VARCHAR": "2023-11-14 23:13:20",
}


@pytest.fixture(scope="module", params=["not sealed", "sealed"])
def streams(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, NAME, StreamOptions(shards=1)) as stream:
        stream.append(FIRST_MS, 1, b"a")
        stream.commit()
        if request.param == "sealed":
            stream.seal()
    with connect(root) as streams:
        yield streams


@pytest.mark.parametrize("query", ASKED)
def test_time_is_asked_in_each_way_that_sql_has(streams, query):
    assert streams.sql(f"SELECT {query} AS x FROM {NAME}").fetchall() == [(ASKED[query],)]


def test_time_is_a_moment_in_utc_to_python_and_to_arrow(streams):
    query = streams.sql(f"SELECT time FROM {NAME}")
    moment = datetime.fromtimestamp(FIRST_MS / 1000, UTC)
    assert query.fetchall() == [(moment,)]
    table = query.to_arrow_table()
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    assert table.to_pylist() == [{"time": moment}]
