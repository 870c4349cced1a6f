"""Goal: a query looks at the streams that it names, and what is wrong with others is no matter.

Method: one stream is whole. Beside it others are damaged, gone, or called alike but for case.
"""

import re

import pytest

from storage_core import InvalidRequestError, ShardlogError, Stream, StreamOptions
from storage_core.sql import connect, query_batches

COUNT = "SELECT count(*) FROM {}"


def make(root, name, rows):
    with Stream.create(root, name, StreamOptions(shards=1)) as stream:
        for number in range(rows):
            stream.append(number, 1, b"x")
        stream.commit()
        stream.seal()


@pytest.fixture
def root(tmp_path):
    make(tmp_path, "good", 10)
    make(tmp_path, "bad", 5)
    return tmp_path


def part_of(root, name):
    (part,) = (root / name).rglob("*.rows")
    return part


def count(streams, name):
    return streams.sql(COUNT.format(name)).fetchall()[0][0]


def gone(part):
    part.unlink()


def of_another_footer(part):
    data = bytearray(part.read_bytes())
    data[-30] ^= 1
    part.write_bytes(data)


def without_file_of_its_own(part):
    (part.parents[2] / "stream.json").write_text("nothing")


@pytest.mark.parametrize("wrong", [gone, of_another_footer, without_file_of_its_own])
def test_stream_that_is_not_named_may_be_damaged(root, wrong):
    wrong(part_of(root, "bad"))
    with connect(root) as streams:
        assert count(streams, "good") == 10
        assert streams.sql("SHOW TABLES").fetchall() == [("bad",), ("good",)]
        with pytest.raises(ShardlogError, match=r"bad|new one"):
            count(streams, "bad")
        assert count(streams, "good") == 10
    _, batches = query_batches(root, COUNT.format("good"))
    assert list(batches)


def test_streams_that_differ_in_case_are_refused_where_a_query_names_both(root):
    make(root, "Good", 3)
    with connect(root) as streams:
        assert count(streams, "bad") == 5
        assert streams.sql("SHOW TABLES").fetchall() == [("Good",), ("bad",), ("good",)]
        assert count(streams, "good") == 10
        assert count(streams, "good") == 10
        # A connection that answers for one of them does not answer for the other.
        for query in (COUNT.format("Good"), "FROM good, Good", "SHOW ALL TABLES"):
            with pytest.raises(InvalidRequestError, match=r"'Good'.*'good'|'good'.*'Good'"):
                streams.sql(query)
        assert count(streams, "good") == 10
    with connect(root) as streams:
        assert count(streams, "Good") == 3
        with pytest.raises(InvalidRequestError, match="differ only in case"):
            count(connect(root), "GOOD")
    with pytest.raises(InvalidRequestError, match="differ only in case"):
        connect(root, ["good", "Good"])


def test_streams_that_were_named_are_looked_at_when_they_are(root):
    with connect(root, ["good"]) as streams:
        with Stream.open(root, "good") as stream:
            stream.append(99, 1, b"new")
            stream.commit()
        assert count(streams, "good") == 10
        with pytest.raises(InvalidRequestError, match=r"bad does not exist.*streams: good"):
            count(streams, "bad")
        streams.refresh()
        assert count(streams, "good") == 11


def test_stream_that_was_made_or_dropped_since_is_known_behind_a_refresh(root):
    with connect(root) as streams:
        assert count(streams, "bad") == 5
        make(root, "new", 7)
        (root / "bad").rename(root.parent / f"{root.name}-bad")
        streams.refresh()
        assert count(streams, "new") == 7
        with pytest.raises(InvalidRequestError, match="bad does not exist"):
            count(streams, "bad")


def test_table_that_is_not_there_is_told_with_one_that_is_like_it(root):
    with connect(root) as streams, pytest.raises(InvalidRequestError) as raised:
        count(streams, "godo")
    said = 'godo does not exist; did you mean "good"?; streams: bad, good'
    assert str(raised.value).endswith(said)


@pytest.mark.parametrize("name", ["plain-dash", "order", "2024-data", "9lives"])
@pytest.mark.parametrize("query", ["FROM {}", "EXPLAIN SELECT 1 FROM {} WHERE true"])
def test_stream_without_the_quotes_that_it_needs_is_told(tmp_path, name, query):
    make(tmp_path, name, 1)
    with connect(tmp_path) as streams, pytest.raises(InvalidRequestError) as raised:
        streams.sql(query.format(name))
    assert str(raised.value).endswith(f'; write the stream as "{name}", in quotes')
    assert str(raised.value).count("in quotes") == 1


@pytest.mark.parametrize(
    "query", ['SELECT primary FROM "order" ORDER BY 1', 'FROM "order" WHER 1', "SELEC 1"]
)
def test_query_that_has_the_quotes_of_a_stream_is_not_told_of_them(tmp_path, query):
    make(tmp_path, "order", 1)
    with connect(tmp_path) as streams, pytest.raises(InvalidRequestError) as raised:
        streams.sql(query)
    assert "the stream" not in str(raised.value)


@pytest.mark.parametrize("query", ["SHOW", "DESCRIBE", "desc ;", "SHOW -- all\n"])
def test_what_shows_all_tables_shows_all_streams(root, query):
    with connect(root) as streams:
        visible = streams.sql(query)
        names = visible.columns.index("name")
        assert sorted(row[names] for row in visible.fetchall()) == ["bad", "good"]


OF_DUCKDB = [
    *("duckdb_tables", "duckdb_views", "duckdb_columns", "sqlite_master", "pragma_database_list"),
]


@pytest.mark.parametrize("name", ["order", "range", "main", "temp", *OF_DUCKDB])
def test_stream_has_its_name_whatever_else_is_called_so(tmp_path, name):
    with Stream.create(tmp_path, name, StreamOptions(shards=1)) as stream:
        stream.append(0, 1, b"a")
    _, batches = query_batches(tmp_path, f'SELECT payload FROM "{name}"')
    assert [row for batch in batches for row in batch.to_pylist()] == [{"payload": b"a"}]


def test_streams_are_listed_as_tables(tmp_path):
    for name in ("one", "two"):
        Stream.create(tmp_path, name).close()
    for query in ("SHOW TABLES", "SELECT table_name AS name FROM information_schema.tables"):
        _, batches = query_batches(tmp_path, query)
        assert {"one", "two"} <= {row["name"] for batch in batches for row in batch.to_pylist()}


@pytest.mark.parametrize("name", [*OF_DUCKDB, "tables", "columns", "information_schema.tables"])
def test_stream_of_any_name_is_listed(tmp_path, name):
    with Stream.create(tmp_path, name, StreamOptions(shards=1)) as stream:
        stream.append(0, 1, b"a")
    Stream.create(tmp_path, "other").close()
    _, batches = query_batches(tmp_path, "SHOW TABLES")
    result = [row["name"] for batch in batches for row in batch.to_pylist()]
    assert result == sorted([name, "other"])
    with connect(tmp_path, [name]) as streams:
        streams.connection.execute("CREATE TEMP TABLE mine AS SELECT 1")
        assert ("mine",) in streams.sql("SHOW TABLES").fetchall()


@pytest.mark.parametrize("name", OF_DUCKDB)
@pytest.mark.parametrize(
    "visible", ["SHOW ALL TABLES", "SHOW -- all\n ALL TABLES;", "SHOW", "DESCRIBE"]
)
def test_name_that_hides_what_shows_columns_is_told_or_hides_none(tmp_path, name, visible):
    Stream.create(tmp_path, name).close()
    try:
        _, batches = query_batches(tmp_path, visible)
    except InvalidRequestError as error:
        assert re.search(rf"stream '{name}' hides .* SHOW TABLES", str(error))  # noqa: PT017
    else:
        assert name in [row["name"] for batch in batches for row in batch.to_pylist()]
