"""Goal: SQL answers what the log holds at one moment, sealed or not.

Method: rows of every kind are appended; some are sealed. Answers are compared with those that plain
Python finds in the log's own rows.
"""

import re
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    StreamReader,
    UnavailableError,
)
from storage_core.sql import connect, query_batches
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab, give_up_a_block, schema_of
from tests.log.served import DOORS


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    """Labs of rows that are sealed but for the last, of ids and of keys; they stay as they are."""
    modes = ("none", "dictionary")
    made = {one: PartsLab(tmp_path_factory.mktemp(one), key_mode=one) for one in modes}
    for lab in made.values():
        rng = np.random.default_rng(21)
        for _ in range(3):
            lab.append(rng, 200)
            lab.stream.seal()
        lab.append(rng, 100)
        lab.stream.close()
    return made


@pytest.fixture
def lab(labs, key_mode):
    return labs[key_mode]


@pytest.fixture(params=DOORS)
def door(request):
    """By which door a scenario asks: that of a path, or of a server."""
    return request.param


@pytest.fixture
def answer(place):
    """What a query of a lab is answered, by the scenario's door."""

    def answered(lab, query):
        _, batches = query_batches(place(lab.root), query)
        return [row for batch in batches for row in batch.to_pylist()]

    return answered


@pytest.mark.parametrize("key_mode", ["none", "dictionary"])
def test_rows_are_those_of_the_log_sealed_or_not(lab, answer):
    rows = answer(lab, f'SELECT shard, address, "primary", state, {lab.id_column} FROM {NAME}')
    names = ("shard", "address", "primary", "state", lab.id_column)
    expected = [{name: row[name] for name in names} for row in lab.rows()]
    assert sorted(rows, key=lambda row: (row["shard"], row["address"])) == expected


def test_groups_are_counted_as_plain_python_does(lab, answer):
    rows = answer(lab, f"SELECT {lab.id_column} AS who, count(*) AS n FROM {NAME} GROUP BY ALL")
    expected: dict[object, int] = {}
    for row in lab.rows():
        expected[row[lab.id_column]] = expected.get(row[lab.id_column], 0) + 1
    assert {row["who"]: row["n"] for row in rows} == expected


def test_fields_of_versions_and_kinds_are_united_by_name(lab, answer):
    rows = answer(
        lab,
        "SELECT count(temperature) AS t, count(humidity) AS h, count(level) AS l, "
        f"count(value_version) AS v, count(payload) AS raw FROM {NAME}",
    )[0]
    assert rows["t"] > rows["h"] > 0
    assert rows["l"] > 0
    assert rows["v"] == rows["t"]
    assert rows["raw"] > 0


def test_root_is_where_it_was_when_it_was_named(tmp_path, monkeypatch):
    lab = PartsLab(tmp_path / "root")
    lab.append(np.random.default_rng(24), 50)
    lab.stream.seal()
    lab.stream.close()
    monkeypatch.chdir(tmp_path)
    with connect("root") as streams:
        monkeypatch.chdir(tmp_path.parent)
        streams.refresh()
        assert streams.sql(f"SELECT count(*) FROM {NAME}").fetchall() == [(50,)]


def test_part_that_went_is_told_and_looked_for_anew(tmp_path, answer, place):
    lab = PartsLab(tmp_path)
    rng = np.random.default_rng(25)
    for _ in range(5):
        lab.append(rng, 40)
        lab.stream.seal()
    with connect(place(tmp_path), [NAME]) as streams:
        # As if they had gone for good when they were joined.
        before = [part.path for part in lab.stream.parts()]
        lab.stream.compact()
        for path in set(before) - {part.path for part in lab.stream.parts()}:
            path.unlink(missing_ok=True)
        with pytest.raises(UnavailableError, match="take a new one"):
            streams.sql(f"SELECT count(state) FROM {NAME}").fetchall()
        streams.refresh()
        assert streams.sql(f"SELECT count(state) FROM {NAME}").fetchall() == [(200,)]
    part = lab.stream.parts()[0]
    part.path.unlink()
    with pytest.raises(CorruptionError, match=part.path.name):
        answer(lab, f"SELECT count(state) FROM {NAME}")
    lab.stream.close()


def test_expired_rows_are_not_shown(tmp_path, answer):
    lab = PartsLab(tmp_path)
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


def test_groups_of_rows_are_skipped_by_id_and_by_bloom_filter(tmp_path, place):
    lab = PartsLab(tmp_path)
    lab.append_orders(40_000)
    lab.stream.seal()
    _, batches = query_batches(
        place(lab.root), f"EXPLAIN ANALYZE SELECT * FROM {NAME} WHERE number = 'order-31007'"
    )
    (drawing,) = [str(text) for batch in batches for text in batch.column(1).to_pylist()]
    assert "Row Groups Scanned: 1 / " in " ".join(drawing.replace("│", " ").split())
    lab.stream.close()


def test_groups_are_skipped_by_a_time_that_is_made_a_number(tmp_path, place):
    lab = PartsLab(tmp_path)
    lab.append_orders(40_000)
    lab.stream.seal()
    before = f'"primary" < epoch_ms(epoch_ms({FIRST_MS + 20_000}))'
    with connect(place(tmp_path)) as streams:
        reported = streams.sql(f"EXPLAIN ANALYZE SELECT max(number) FROM {NAME} WHERE {before}")
        read, of = re.findall(r"Row Groups Scanned: (\d+) / (\d+)", str(reported.fetchall()))[0]
    assert int(read) < int(of)
    lab.stream.close()


def test_columns_that_nobody_asks_for_are_read_only_where_rows_may_be_hidden(root, answer):
    lab = PartsLab(root)
    lab.append_orders(20_000)
    lab.stream.seal()
    query = f"EXPLAIN SELECT sum(length(number)) FROM {NAME}"
    (before,) = answer(lab, query)
    lab.stream.alter(records_max=15_000)
    lab.stream.expire(now=FIRST_MS)
    (after,) = answer(lab, query)
    (count,) = answer(lab, f"SELECT count(*) AS n FROM {NAME}")
    lab.stream.close()
    assert count["n"] < 20_000
    assert "number" in before["explain_value"]
    assert not re.search(r"state|primary|address|shard(?!-)", before["explain_value"])
    assert "address" in after["explain_value"]


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        (f"SELECT nothing FROM {NAME}", 'column "nothing" not found'),
        ("SELECT * FROM nothing", "nothing does not exist"),
        (f"SELECT primary FROM {NAME}", 'write the column as "primary", in quotes'),
        ("SELECT 1; SELECT 2", "one read-only query at a time"),
        ("", "one read-only query at a time"),
        ("CREATE TABLE t (i int)", "one read-only query at a time"),
        (f"COPY {NAME} TO 'elsewhere'", "one read-only query at a time"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_what_is_no_query_is_told_in_a_line(lab, query, reported, answer):
    with pytest.raises(InvalidRequestError) as raised:
        answer(lab, query)
    assert reported in str(raised.value)
    assert "\n" not in str(raised.value)


def test_directory_above_the_root_is_no_column(tmp_path, answer):
    root = tmp_path / "version=3" / "env=prod"
    root.mkdir(parents=True)
    lab = PartsLab(root)
    lab.append(np.random.default_rng(24), 50)
    lab.stream.seal()
    (rows,) = answer(lab, f"SELECT max(version) AS version FROM {NAME}")
    assert rows == {"version": 0}
    assert "env" not in answer(lab, f"SELECT * FROM {NAME}")[0]
    lab.stream.close()


def test_rows_that_a_cap_takes_are_not_shown(tmp_path, answer):
    lab = PartsLab(tmp_path)
    rng = np.random.default_rng(26)
    for _ in range(3):
        lab.append(rng, 100)
        lab.stream.seal()
    lab.append(rng, 50)
    lab.stream.alter(records_max=260)
    lab.stream.expire(now=FIRST_MS)
    with StreamReader.open(tmp_path, NAME) as reader:
        left = reader.read(columns=["shard", "address"]).to_pylist()
    assert 0 < len(left) < 350
    rows = answer(lab, f"SELECT shard, address FROM {NAME} ORDER BY ALL")
    assert rows == sorted(left, key=lambda row: (row["shard"], row["address"]))
    lab.stream.close()


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_rows_that_were_given_up_behind_their_seal_are_not_shown(tmp_path, is_trimmed, answer):
    lab = PartsLab(tmp_path, block_records=64)
    rng = np.random.default_rng(27)
    appended = 300
    for _ in range(3):
        lab.append(rng, 100)
    lab.stream.seal()
    if is_trimmed:
        lab.stream.trim()
        lab.append(rng, 100)
        appended += 100
    give_up_a_block(lab.stream)
    with StreamReader.open(tmp_path, NAME) as reader:
        left = reader.read(columns=["shard", "address"]).to_pylist()
    assert 0 < len(left) == len(lab.rows()) < appended
    rows = answer(lab, f"SELECT shard, address FROM {NAME} ORDER BY ALL")
    assert rows == sorted(left, key=lambda row: (row["shard"], row["address"]))
    lab.stream.close()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_decimals_of_more_digits_than_sql_has_are_exact_texts(root, is_sealed, answer):
    lab = PartsLab(root)
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    listed = {"type": "array", "items": decimal}
    schema = schema_of([{"name": "price", "type": decimal}, {"name": "all", "type": listed}])
    much = (10**45 + 1).to_bytes(19, "big")
    body = b"\x26" + much + b"\x02\x02\x9c" + b"\x00"
    lab.append_bodies(schema, [body], 41)
    before = lab.rows()
    if is_sealed:
        lab.stream.seal()
        assert lab.rows_of_parts() == before
    (rows,) = answer(lab, f"SELECT * FROM {NAME}")
    assert (rows["price"], rows["all"]) == (f"1{'0' * 42}0.01", ["-1.00"])
    assert rows["payload"] is None
    lab.stream.close()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_map_that_has_a_key_twice_shows_the_last_and_keeps_its_payload(tmp_path, is_sealed, answer):
    lab = PartsLab(tmp_path)
    by_name: dict[str, Any] = {"name": "by", "type": {"type": "map", "values": "int"}}
    schema = schema_of([{"name": "listed", "type": {"type": "array", "items": by_name["type"]}}])
    twice = b"\x02" + b"\x06\x02a\x02\x02b\x04\x02a\x06\x00" + b"\x00"
    once = b"\x02" + b"\x02\x02a\x02\x00" + b"\x00"
    lab.append_bodies(schema, [twice, once], 42)
    before = lab.rows()
    if is_sealed:
        lab.stream.seal()
        assert lab.rows_of_parts() == before
    rows = answer(lab, f"SELECT listed[1]['a'] AS a, payload FROM {NAME} ORDER BY address")
    assert [row["a"] for row in rows] == [3, 1]
    assert [row["payload"] for row in rows] == [before[0]["payload"], None]
    lab.stream.close()


def test_query_reaches_no_variable_of_the_program(tmp_path, answer, place):
    lab = PartsLab(tmp_path)
    frame = pa.table({"x": [1]})
    assert frame.num_rows == 1
    with connect(place(lab.root)) as streams:
        for ask in (lambda: answer(lab, "FROM frame"), lambda: streams.sql("FROM frame")):
            with pytest.raises(InvalidRequestError, match="frame does not exist"):
                ask()
    lab.stream.close()


def reading_schema(kind, name):
    return schema_of([{"name": "reading", "type": kind}], name)


@pytest.mark.parametrize("sealed", ["none", "one", "all"])
def test_field_of_several_shapes_is_several_columns(tmp_path, sealed, answer):
    lab = PartsLab(tmp_path)
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "deep", "type": "int"}]}
    lab.append_bodies(
        schema_of([{"name": "reading", "type": "int"}], "One"), [b"\x02", b"\x04"], 43
    )
    if sealed == "one":
        lab.stream.seal()
    lab.append_bodies(reading_schema(inner, "Two"), [b"\x06"], 44)
    listed = {"type": "array", "items": "string"}
    lab.append_bodies(
        schema_of([{"name": "reading", "type": listed}], "Three"), [b"\x02\x02x\x00"], 45
    )
    if sealed == "all":
        lab.stream.seal()
    rows = answer(
        lab,
        "SELECT sum(reading) AS plain, max(reading_struct.deep) AS deep, "
        f"max(reading_list[1]) AS item, count(*) AS n FROM {NAME}",
    )
    assert rows == [{"plain": 3, "deep": 3, "item": "x", "n": 4}]
    lab.stream.close()


_RECORD = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
SHAPES: list[tuple[Any, bytes, str]] = [
    ("int", b"\x06", "reading"),
    ("string", b"\x02x", "reading"),
    ("bytes", b"\x02\xff", "reading_bytes"),
    ({"type": "long", "logicalType": "timestamp-millis"}, b"\x02", "reading_timestamp"),
    ({"type": "int", "logicalType": "time-millis"}, b"\x02", "reading_time"),
    ({"type": "map", "values": "int"}, b"\x02\x02k\x02\x00", "reading_map"),
    ({"type": "array", "items": "int"}, b"\x02\x02\x00", "reading_list"),
    (
        {"type": "array", "items": _RECORD},
        b"\x02\x02\x00",
        "reading_list_struct",
    ),
]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_each_shape_of_a_field_has_a_column(root, is_sealed, answer):
    lab = PartsLab(root)
    for number, (kind, body, _) in enumerate(SHAPES):
        lab.append_bodies(reading_schema(kind, f"Kind{number}"), [body], 60 + number)
    if is_sealed:
        lab.stream.seal()
    columns = sorted({column for _, _, column in SHAPES})
    counts = ", ".join(f"count({one}) AS {one}" for one in columns)
    (rows,) = answer(lab, f"SELECT {counts} FROM {NAME}")
    assert rows == {one: 1 + (one == "reading") for one in columns}
    assert len(answer(lab, f"SELECT * FROM {NAME}")) == len(SHAPES)
    lab.stream.close()


def test_bytes_and_texts_stay_one_column(root, answer):
    lab = PartsLab(root)
    lab.append_bodies(schema_of([{"name": "note", "type": "bytes"}]), [b"\x02a"], 70)
    lab.stream.seal()
    lab.append_bodies(schema_of([{"name": "note", "type": "string"}]), [b"\x02b"], 71)
    rows = answer(lab, f"SELECT note FROM {NAME} ORDER BY note")
    assert rows == [{"note": b"a"}, {"note": b"b"}]
    lab.stream.close()


def test_rows_are_pivoted(lab, answer):
    expected: dict[int, int] = {}
    for row in lab.rows():
        expected[row["state"]] = expected.get(row["state"], 0) + 1
    for query in (
        f"PIVOT {NAME} ON state USING count(*) GROUP BY shard",
        f"-- by state\n( FROM (PIVOT {NAME} ON state USING count(*) GROUP BY shard))",
    ):
        rows = answer(lab, query)
        assert {state: sum(row[str(state)] for row in rows) for state in expected} == expected


def test_fault_behind_the_first_rows_is_told_in_a_line(root, answer):
    lab = PartsLab(root)
    lab.append_orders(5_000)
    query = f"SELECT if(address > 4000, error('too far'), address) AS a FROM {NAME}"
    with pytest.raises(InvalidRequestError, match="too far") as raised:
        answer(lab, query)
    assert "\n" not in str(raised.value)
    lab.stream.close()


def test_columns_of_one_name_are_told_apart(lab, answer):
    rows = answer(lab, "SELECT 1 AS a, 2 AS a, 3 AS A_1, INTERVAL 1 DAY AS span, 4 AS Span")
    assert rows == [{"a": 1, "a_2": 2, "A_1": 3, "span": "1 day", "Span_1": 4}]
    joined = answer(lab, f"SELECT * FROM {NAME} a JOIN {NAME} b USING (shard, address) LIMIT 1")
    assert joined[0]["primary"] == joined[0]["primary_1"]


def test_what_few_formats_have_is_text(lab, answer):
    rows = answer(lab, "SELECT '101'::BIT AS bits, union_value(x := 1) AS one")
    assert rows == [{"bits": "101", "one": "1"}]
    many = "170141183460469231731687303715884105728"
    rows = answer(lab, f"SELECT {many}::BIGNUM AS n, TIMETZ '10:00:00+02' AS t")
    assert rows == [{"n": many, "t": "10:00:00+02"}]
    assert answer(lab, "SELECT {'a': 1}::VARIANT AS v") == [{"v": "{'a': 1}"}]


def test_answer_keeps_the_order_that_was_asked_for(root, answer):
    lab = PartsLab(root)
    lab.append_orders(5_000)
    query = f"SELECT address AS a, 1 AS a FROM {NAME} ORDER BY address DESC"
    assert [row["a"] for row in answer(lab, query)] == list(range(4_999, -1, -1))
    lab.stream.close()
