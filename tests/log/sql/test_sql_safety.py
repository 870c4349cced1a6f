"""Goal: a query reads the streams that it names. It writes nothing and reaches nothing else.

Method: statements that write, set, install or read other files are given to the engine in each of
the ways there are. All that lies beside the streams, and each part, is afterwards as it was.
"""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core import InvalidRequestError, ShardlogError, Stream, StreamOptions
from storage_core.sql import connect, query_batches

ROWS = 5
WRITES = [
    "COPY (SELECT 42 AS x) TO '{part}' (FORMAT parquet)",
    "COPY st TO '{at}/written'",
    "EXPORT DATABASE '{at}/written'",
    "ATTACH '{at}/written.db'",
    "CREATE TABLE z AS SELECT 1",
    "CREATE VIEW z AS FROM st",
    "INSERT INTO st SELECT * FROM st",
    "SET threads = 1",
    "INSTALL httpfs",
    "PREPARE z AS SELECT 1",
    "WITH a AS (PIVOT st ON version USING count(*)) INSERT INTO st FROM a",
    "COPY (PIVOT st ON version USING count(*)) TO '{at}/written'",
    "CREATE TABLE z AS PIVOT st ON version USING count(*)",
    "DROP VIEW st",
    "USE temp",
    "CHECKPOINT",
    "BEGIN",
]
BEFORE = [
    *("", "EXPLAIN ", "EXPLAIN ANALYZE ", "EXPLAIN (ANALYZE) "),
    "EXPLAIN (ANALYZE, FORMAT json) ",
]
REFUSED = [
    *(f"{before}{statement}" for before in BEFORE for statement in WRITES),
    "EXPLAIN /* /* */ */ ANALYZE COPY (SELECT 1) TO '{at}/written'",
    "EXPLAIN /* /* */ ANALYZE SELECT 1 -- */ COPY (SELECT 1) TO '{at}/written'",
    "EXPLAIN --\nANALYZE COPY (SELECT 1) TO '{at}/written'",
    "EXPLAIN EXPLAIN ANALYZE COPY (SELECT 1) TO '{at}/written'",
    "FROM st; COPY (SELECT 1) TO '{at}/written'",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "LOAD httpfs",
    "SELECT 1; SELECT 2",
    "",
    "SELECT * FROM read_csv('{at}/secret.csv')",
    "SELECT * FROM '{at}/secret.csv'",
    "SELECT content FROM read_text('{at}/secret.csv')",
    "SELECT * FROM glob('{at}/*')",
    "SELECT * FROM enable_logging(storage='file', storage_path='{at}/written')",
    "SELECT * FROM enable_profiling(save_location='{at}/written', format='json')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_text('file://{at}/secret.csv')",
    "SELECT * FROM sqlite_scan('{at}/written', 'z')",
    "SELECT 1::POINTER",
    "SELECT * FROM read_parquet('{part}')",
    "SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{at}/written''')",
    "SELECT * FROM read_parquet('shardlog://st/0/*/part-0000000000.parquet')",
    "EXPLAIN ANALYZE SELECT * FROM read_csv('{at}/secret.csv')",
]
ANSWERED = [
    "SELECT count(*) FROM st",
    "EXPLAIN SELECT * FROM st",
    "EXPLAIN ANALYZE SELECT count(*) FROM st;",
    "EXPLAIN (SELECT count(*) FROM st)",
    "EXPLAIN (FORMAT json) SELECT count(*) FROM st",
    "EXPLAIN (ANALYZE, FORMAT json) SELECT count(*) FROM st",
    "-- what\n/* is */ EXPLAIN -- asked\nANALYZE\nSELECT count(*) FROM st",
    "WITH a AS (SELECT 1 AS x) SELECT * FROM a",
    "FROM st SELECT secondary",
    "VALUES (1), (2)",
    "PIVOT st ON secondary USING count(*)",
    "EXPLAIN ANALYZE PIVOT st ON secondary USING count(*)",
    "EXPLAIN /* /* nested */ */ SELECT count(*) FROM st",
    "PIVOT st ON secondary USING count(*); -- by id",
    "WITH a AS (FROM st) PIVOT a ON secondary USING count(*)",
    "SELECT count(*) FROM st UNION ALL SELECT 1",
    "DESCRIBE SELECT * FROM st",
    "DESCRIBE st",
    "SUMMARIZE st",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "SELECT * FROM query_table('st')",
    "TABLE st",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a root, whose only rows are in a part alone, and a file beside it."""
    index = tmp_path_factory.mktemp("place")
    with Stream.create(index / "root", "st", StreamOptions(shards=1)) as stream:
        for number in range(ROWS):
            stream.append(number, 1, b"x")
        stream.commit()
        stream.seal()
        stream.trim()
    (index / "secret.csv").write_text("top,secret\n1,2\n")
    return index


def everything(place):
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def filled(place, query):
    (part,) = place.rglob("*.parquet")
    return query.format(at=place, part=part)


def rows_of(root, query, **options):
    _, batches = query_batches(root, query, **options)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def streams(place):
    with connect(place / "root") as streams:
        yield streams


@pytest.mark.parametrize("query", REFUSED)
def test_statement_that_does_not_only_ask_streams_is_refused_in_a_line(place, streams, query):
    statement, before = filled(place, query), everything(place)
    with pytest.raises(InvalidRequestError) as raised:
        streams.sql(statement).fetchall()
    assert "\n" not in str(raised.value)
    assert everything(place) == before


@pytest.mark.parametrize("query", [WRITES[0], f"EXPLAIN ANALYZE {WRITES[0]}", REFUSED[-2]])
def test_command_refuses_as_connections_do(place, query):
    before = everything(place)
    with pytest.raises(InvalidRequestError):
        rows_of(place / "root", filled(place, query))
    assert everything(place) == before


@pytest.mark.parametrize("query", ANSWERED)
def test_statement_that_asks_is_answered(streams, query):
    assert streams.sql(query).fetchall()


def test_connection_itself_reaches_no_file_and_takes_no_setting(place, streams):
    before = everything(place)
    ((view,),) = streams.sql("SELECT sql FROM duckdb_views() WHERE view_name = 'st'").fetchall()
    (url,) = re.findall(r"shardlog:[^']+", view)
    for statement in (*WRITES[:4], "SET enable_external_access = true", "SET threads = 1"):
        with pytest.raises(Exception, match=r"(?i)permission|configuration|cannot"):
            streams.connection.execute(filled(place, statement))
    with pytest.raises(Exception, match="writes no file"):
        streams.connection.execute(f"COPY (SELECT 1) TO '{url}'")
    assert everything(place) == before


def test_other_file_is_told_with_what_opens_it(place):
    query = filled(place, "SELECT * FROM read_csv('{at}/secret.csv')")
    with pytest.raises(InvalidRequestError, match="--allow-external-access"):
        rows_of(place / "root", query)
    rows = rows_of(place / "root", query, allow_external_access=True)
    assert rows == [{"top": 1, "secret": 2}]


def test_connection_that_was_opened_reads_and_writes_files_and_asks_by_sql(place, tmp_path):
    with connect(place / "root", ["st"], allow_external_access=True) as streams:
        streams.connection.execute(f"COPY st TO '{tmp_path}/st.csv'")
        assert streams.sql(f"SELECT count(*) FROM '{tmp_path}/st.csv'").fetchall() == [(ROWS,)]
        with pytest.raises(ShardlogError, match="one read-only query"):
            streams.sql(f"COPY st TO '{tmp_path}/again.csv'")
    assert not (tmp_path / "again.csv").exists()


def test_file_that_was_written_anew_is_read_anew(tmp_path):
    Stream.create(tmp_path / "root", "st", StreamOptions(shards=1)).close()
    prices, rows = tmp_path / "prices.parquet", []
    with connect(tmp_path / "root", allow_external_access=True) as streams:
        for value in (1111, 2222, 3333):
            # Of the same size, and within a second of each other.
            pq.write_table(pa.table({"price": [value] * 1000}), prices)
            for ask in (streams.sql, streams.connection.sql):
                rows += ask(f"SELECT min(price), sum(price) FROM '{prices}'").fetchall()
    assert rows == [(value, 1000 * value) for value in (1111, 2222, 3333) for _ in range(2)]
