"""Goal: SQL answers what the log holds at one moment, sealed or not.

Method: rows of every kind are appended; some are sealed. Answers are compared with those that plain
Python finds in the log's own rows.
"""

from datetime import timedelta

import numpy as np
import pytest

from storage_core import InvalidRequestError
from storage_core.cold.sql import batches_of, connect
from tests.log.cold.cold_lab import FIRST_MS, NAME, ColdLab


@pytest.fixture(params=["none", "dictionary"])
def lab(request, tmp_path):
    lab = ColdLab(tmp_path, key_mode=request.param)
    rng = np.random.default_rng(21)
    for _ in range(3):
        lab.append(rng, 200)
        lab.stream.seal()
    lab.append(rng, 100)
    yield lab
    lab.stream.close()


def answer(lab, query):
    _, batches = batches_of(lab.root, query)
    return [row for batch in batches for row in batch.to_pylist()]


def test_rows_are_those_of_the_log_sealed_or_not(lab):
    found = answer(lab, f'SELECT shard, address, "primary", state, {lab.who} FROM {NAME}')
    names = ("shard", "address", "primary", "state", lab.who)
    expected = [{name: row[name] for name in names} for row in lab.rows()]
    assert sorted(found, key=lambda row: (row["shard"], row["address"])) == expected


def test_groups_are_counted_as_plain_python_does(lab):
    found = answer(lab, f"SELECT {lab.who} AS who, count(*) AS n FROM {NAME} GROUP BY ALL")
    expected: dict[object, int] = {}
    for row in lab.rows():
        expected[row[lab.who]] = expected.get(row[lab.who], 0) + 1
    assert {row["who"]: row["n"] for row in found} == expected


def test_fields_of_versions_and_kinds_are_united_by_name(lab):
    found = answer(
        lab,
        "SELECT count(temperature) AS t, count(humidity) AS h, count(level) AS l, "
        f"count(value_version) AS v, count(payload) AS raw FROM {NAME}",
    )[0]
    assert found["t"] > found["h"] > 0
    assert found["l"] > 0
    assert found["v"] == found["t"]
    assert found["raw"] > 0


def test_moment_stays_until_it_is_looked_at_anew(lab):
    with connect(lab.root) as streams:
        count = f"SELECT count(*) FROM {NAME}"
        before = streams.sql(count).fetchall()
        lab.append(np.random.default_rng(22), 50)
        lab.stream.seal()
        assert streams.sql(count).fetchall() == before == [(700,)]
        streams.refresh()
        assert streams.sql(count).fetchall() == [(750,)]


def test_expired_rows_are_not_shown(tmp_path):
    lab = ColdLab(tmp_path)
    rng = np.random.default_rng(23)
    lab.append(rng, 300)
    lab.stream.seal()
    lab.append(rng, 300)
    lab.stream.alter(retention=timedelta(seconds=200))
    now = FIRST_MS + 600_000
    lab.stream.expire(now=now)
    floor = now - 200_000
    expected = sum(row["primary"] >= floor and row["state"] != 3 for row in lab.rows_left(floor))
    assert answer(lab, f"SELECT count(*) AS n FROM {NAME}") == [{"n": expected}]
    lab.stream.close()


def test_stream_without_rows_is_an_empty_table(tmp_path):
    lab = ColdLab(tmp_path)
    assert answer(lab, f"SELECT count(*) AS n FROM {NAME}") == [{"n": 0}]
    lab.stream.close()


def test_groups_of_rows_are_skipped_by_id_and_by_bloom_filter(tmp_path):
    lab = ColdLab(tmp_path)
    lab.append_orders(40_000)
    lab.stream.seal()
    _, batches = batches_of(
        lab.root, f"EXPLAIN ANALYZE SELECT * FROM {NAME} WHERE number = 'order-31007'"
    )
    (drawing,) = [str(text) for batch in batches for text in batch.column(1).to_pylist()]
    assert "Row Groups Scanned: 1 / " in " ".join(drawing.replace("│", " ").split())
    lab.stream.close()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (f"SELECT nothing FROM {NAME}", 'column "nothing" not found'),
        ("SELECT * FROM nothing", "nothing does not exist"),
        (f"SELECT primary FROM {NAME}", 'is written "primary", in quotes'),
        ("SELECT 1; SELECT 2", "one query is answered at a time"),
        ("", "one query is answered at a time"),
        ("CREATE TABLE t (i int)", "one query is answered at a time"),
        (f"COPY {NAME} TO 'elsewhere'", "one query is answered at a time"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_what_is_no_query_is_told_in_a_line(lab, query, told):
    with pytest.raises(InvalidRequestError) as raised:
        answer(lab, query)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_span_of_time_is_a_text(lab):
    found = answer(lab, "SELECT INTERVAL 1 DAY AS span, 1 AS n")
    assert found == [{"span": "1 day", "n": 1}]
