"""Goal: a condition on `time` reads the row groups that one on the primary reads, and is right.

Method: EXPLAIN ANALYZE tells how many groups were read. Answers are compared with those over the
times of all rows, for each unit, each comparison, and times at the bounds of all that there are.
"""

import re
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from storage_core import InvalidRequestError, Stream, StreamOptions
from storage_core.sql import connect
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab

ORDERS = 40_000
# 20 and 25 seconds behind the first row.
FROM, UP_TO = "TIMESTAMP '2023-11-14 22:13:40'", "TIMESTAMP '2023-11-14 22:13:45'"
AFTER, BEFORE = FIRST_MS + 20_000, FIRST_MS + 25_000


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    lab = PartsLab(tmp_path_factory.mktemp("orders"))
    lab.append_orders(ORDERS)
    lab.stream.seal()
    lab.stream.close()
    with connect(lab.root, [NAME]) as streams:
        yield streams


def groups(streams, query):
    """Return how many row groups a query reads, and of how many."""
    reported = str(streams.sql(f"EXPLAIN ANALYZE {query}").fetchall())
    # Nothing is scanned where no file has a row.
    scans = re.findall(r"Row Groups Scanned: (\d+) / (\d+)", reported) or [(0, 1)]
    read, of = scans[0]
    return int(read), int(of)


@pytest.mark.parametrize(
    ("on_time", "on_primary"),
    [
        (f"time >= {FROM}", f'"primary" >= {AFTER}'),
        (f"time > {FROM}", f'"primary" > {AFTER}'),
        (f"time < {UP_TO}", f'"primary" < {BEFORE}'),
        (f"time <= {UP_TO}", f'"primary" <= {BEFORE}'),
        (f"time = {FROM}", f'"primary" = {AFTER}'),
        (f"time BETWEEN {FROM} AND {UP_TO}", f'"primary" BETWEEN {AFTER} AND {BEFORE}'),
        (f"{FROM} < time AND {UP_TO} >= time", f'"primary" BETWEEN {AFTER + 1} AND {BEFORE}'),
        (f"(time >= {FROM}) AND number <> 'x'", f"\"primary\" >= {AFTER} AND number <> 'x'"),
        (f'"Time" >= {FROM}', f'"primary" >= {AFTER}'),
        (f"{NAME}.time >= {FROM}", f'"primary" >= {AFTER}'),
        ("time >= '2023-11-14 22:13:40'", f'"primary" >= {AFTER}'),
        ("time >= TIMESTAMPTZ '2023-11-15 00:13:40+02'", f'"primary" >= {AFTER}'),
        ("time < DATE '2023-11-14'", f'"primary" < {FIRST_MS}'),
        (f"time < {UP_TO} - INTERVAL 2 SECONDS", f'"primary" < {BEFORE - 2000}'),
        ("time >= now() - INTERVAL 1 DAY", f'"primary" > {FIRST_MS + ORDERS}'),
        (f"time >= {FROM} AT TIME ZONE 'UTC'", f'"primary" >= {AFTER}'),
    ],
)
def test_condition_on_time_reads_the_groups_that_one_on_the_primary_reads(
    orders, on_time, on_primary
):
    text = "SELECT max(number), count(*) FROM {} WHERE {}"
    item, other = text.format(NAME, on_time), text.format(NAME, on_primary)
    assert groups(orders, item) == groups(orders, other)
    assert groups(orders, item)[0] < groups(orders, item)[1]
    assert orders.sql(item).fetchall() == orders.sql(other).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max(number) FROM {} t WHERE t.time < {}",
        "WITH a AS (SELECT * FROM {} WHERE time < {}) SELECT max(number) FROM a",
        "SELECT max(number) FROM (FROM {} WHERE time < {})",
        "SELECT 'none' UNION ALL SELECT max(number) FROM {} WHERE time < {}",
        "SELECT max(number) FROM {} a LEFT JOIN (SELECT 1 AS x) b ON true WHERE a.time < {}",
    ],
)
def test_condition_skips_groups_wherever_the_stream_is_named(orders, query):
    read, of = groups(orders, query.format(NAME, FROM))
    assert read < of


@pytest.mark.parametrize(
    "query",
    [
        # What follows from a condition is added to it alone.
        "SELECT count(*) FROM {0} WHERE time < {1} OR true",
        "SELECT count(*) FROM {0} WHERE NOT time < {1}",
        "SELECT count(*) FROM {0} WHERE (time < {1}) IS NOT NULL",
        "SELECT count(*) FROM {0} WHERE time NOT BETWEEN {1} AND {2}",
        "SELECT count(*) FROM {0} WHERE time <> {1}",
        "SELECT count(*) FROM {0} WHERE time IS DISTINCT FROM {1}",
        # Whose time it is.
        'WITH {0} AS (SELECT {1} AS time, 1 AS "primary") FROM {0} WHERE time = {1}',
        'SELECT count(*) FROM (SELECT {1} AS time, 1 AS "primary") AS {0} WHERE {0}.time = {1}',
        'SELECT count(*) FROM {0} AS t(a, b, "primary", c) WHERE c < {1}',
        'SELECT count(*) FROM {0} AS t(a, b, c, time, "primary") WHERE time < {1}',
        'SELECT count(*) FROM {0} AS t(a, b, c, time, "primary") WHERE t.time >= {1}',
        "SELECT count(*) FROM {0} a LEFT JOIN {0} b ON a.address = -b.address WHERE b.time IS NULL",
        "SELECT count(*) FROM {0} a JOIN {0} b USING (address) WHERE a.time < {1} AND b.time < {2}",
        "SELECT count(*) FROM {0} o WHERE EXISTS (SELECT 1 FROM range(3) WHERE o.time < {1})",
        "SELECT {1} AS time, count(*) FROM {0} WHERE time < {1}",
        'SELECT count(*) AS "primary" FROM {0} WHERE time < {1}',
        "SELECT count(*) FROM {0} WHERE time < {1} GROUP BY time > {2} HAVING count(*) > 1",
        "SELECT count(*) FROM {0} WHERE time < (SELECT max(time) FROM {0})",
        "SELECT count(*) FROM {0} WHERE time < time + INTERVAL 1 DAY",
        "SELECT count(*) FROM {0} WHERE time < NULL",
        "SELECT count(*) FROM {0} WHERE time < 'infinity' AND time > '-infinity'",
    ],
)
def test_query_with_a_condition_on_time_answers_as_without_bounds(orders, query):
    text = query.format(NAME, FROM, UP_TO)
    assert orders.sql(text).fetchall() == orders.connection.sql(text).fetchall()


@pytest.mark.parametrize(
    "long",
    [
        " + ".join(["1"] * 900) + " > 0",
        "NOT " * 400 + "true",
        f"address NOT IN ({', '.join(map(str, range(-30_000, 0)))})",
        "length(" + " || ".join(["'time'"] * 500) + ") > 0",
    ],
    ids=["deep sum", "deep negation", "many values", "deep text"],
)
def test_query_that_is_large_or_deep_is_asked_as_it_was_written(orders, long):
    text = f"SELECT count(*) FROM {NAME} WHERE time < {FROM} AND {long}"
    assert orders.sql(text).fetchall() == [(20_000,)]


OTHER = f'SELECT {FROM} AS time, 1 AS "primary"'


@pytest.mark.parametrize(
    ("hide", "undo"),
    [
        (f"CREATE TEMP TABLE {NAME} AS {OTHER}", f"DROP TABLE temp.{NAME}"),
        (f"CREATE TEMP VIEW {NAME} AS {OTHER}", f"DROP VIEW temp.{NAME}"),
        (f"CREATE SCHEMA s; CREATE TABLE s.{NAME} AS {OTHER}; USE s", "USE memory.main"),
        (
            f"ATTACH ':memory:' AS other; CREATE TABLE other.{NAME} AS {OTHER}; USE other",
            "USE memory",
        ),
        (f"CREATE OR REPLACE VIEW {NAME} AS {OTHER}", ""),
    ],
)
def test_table_that_hides_a_stream_keeps_its_own_times(orders, hide, undo):
    text = f"SELECT count(*) FROM {NAME} WHERE time >= {FROM}"
    count = orders.sql(text).fetchall()
    orders.connection.execute(hide)
    try:
        assert orders.sql(text).fetchall() == [(1,)]
    finally:
        orders.connection.execute(undo)
        orders.refresh()
    assert orders.sql(text).fetchall() == count


def test_condition_on_time_is_asked_while_rows_of_another_query_are_fetched(orders):
    text = f"SELECT count(*) FROM {NAME} WHERE time < {FROM}"
    expected = orders.sql(text).fetchall()
    rows = orders.sql(f"FROM {NAME}").to_arrow_reader(100)
    answer = orders.sql(text)
    assert rows.read_all().num_rows == ORDERS
    assert answer.fetchall() == expected
    orders.connection.execute("SELECT 1 UNION ALL SELECT 2")
    orders.sql(text)
    assert orders.connection.fetchall() == [(1,), (2,)]


def test_query_that_is_interrupted_is_not_asked_again(orders, monkeypatch):
    """`EXPLAIN ANALYZE` runs as soon as it is asked, and another thread may interrupt it."""
    texts: list[str] = []

    class Interrupted:
        """The connection, of which each EXPLAIN is interrupted."""

        def sql(self, text):
            if not text.startswith("EXPLAIN"):
                return connection.sql(text)
            texts.append(text)
            raise duckdb.InterruptException("Interrupted!")  # noqa: EM101 - as DuckDB says

        def __getattr__(self, name):
            return getattr(connection, name)

    connection = orders.connection
    monkeypatch.setattr(orders, "connection", Interrupted())
    with pytest.raises(InvalidRequestError, match="Interrupted"):
        orders.sql(f"EXPLAIN ANALYZE SELECT count(*) FROM {NAME} WHERE time >= {FROM}")
    assert len(texts) == 1


def test_error_of_a_query_with_a_condition_on_time_is_of_the_query_as_written(orders):
    text = f"SELECT nothing,\n max(number)\nFROM {NAME}\nWHERE time > {FROM} AND wrong = 1"
    with pytest.raises(Exception, match=r"\"(wrong|nothing)\" not found"):
        orders.sql(text)


_EDGES_US = (0, 1, -1, 999, 1000, 1001, -999, -1000, -1001, 10**6, -(10**6), 1_700_000_000_123_456)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def primaries_of(unit):
    """Return primaries about the times that are compared with, and the furthest there are."""
    about = {us * _PER_SECOND[unit] // 10**6 + step for us in _EDGES_US for step in (-1, 0, 1)}
    return sorted(about | {-(2**63) + 1, 2**63 - 2, 10**17, -(10**17)})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_comparisons_answer_what_python_finds_at_every_bound(tmp_path, unit):
    rows = primaries_of(unit)
    with Stream.create(
        tmp_path, NAME, StreamOptions(shards=1, unit=unit, ahead_max=2**63 - 1)
    ) as stream:
        columns: dict[str, Any] = {
            "primary": rows,
            "secondary": pa.array(np.arange(len(rows), dtype=np.int32)),
            "payload": [b"x"] * len(rows),
        }
        stream.append_batch(pa.RecordBatch.from_pydict(columns))
        stream.commit()
        stream.seal()
    with connect(tmp_path) as streams:
        times = streams.sql(f'SELECT "primary", epoch_us(time) FROM {NAME}').fetchall()
        assert sum(us is None for _, us in times) >= (unit in ("s", "ms"))
        for us, (sign, is_so) in product(_EDGES_US, _COMPARISONS.items()):
            literal = f"'{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)}'"
            text = (
                f'SELECT "primary" FROM {NAME} WHERE time {sign} TIMESTAMPTZ {literal} ORDER BY ALL'
            )
            expected = [(one,) for one, at in times if at is not None and is_so(at, us)]
            assert streams.sql(text).fetchall() == sorted(expected), text
        for far in ("290000-01-01", "290000-01-01 (BC)", "9999-01-01", "infinity", "-infinity"):
            for sign in _COMPARISONS:
                text = f"SELECT count(*) FROM {NAME} WHERE time {sign} TIMESTAMP '{far}'"
                assert streams.sql(text).fetchall() == streams.connection.sql(text).fetchall()


_COMPARISONS = {
    "<": lambda at, us: at < us,
    "<=": lambda at, us: at <= us,
    "=": lambda at, us: at == us,
    ">=": lambda at, us: at >= us,
    ">": lambda at, us: at > us,
}
