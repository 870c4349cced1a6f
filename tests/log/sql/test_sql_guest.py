"""Goal: SQL is a good guest: of any path, on a full memory, and where somebody has had enough.

Method: real queries over real files, directories and signals.
"""

import gc
import os
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest

from storage_core import InvalidRequestError, Stream, StreamOptions
from storage_core.sql import connect, query_batches
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab, schema_of
from tests.thin import thinned
from tests.waiting import WAIT_MAX_S


@pytest.mark.parametrize("name", ["x[yz]w", "x?w", "x*", 'it\'s [a] "root"'])
def test_characters_of_patterns_in_a_path_stand_for_themselves(tmp_path, name):
    for number, root in enumerate((tmp_path / "xyw", tmp_path / name), 1):
        root.mkdir(exist_ok=True)
        lab = PartsLab(root)
        lab.append(np.random.default_rng(number), 10 * number)
        lab.stream.seal()
        lab.stream.close()
    _, batches = query_batches(tmp_path / name, f"SELECT count(*) AS n FROM {NAME}")
    assert [batch.to_pylist() for batch in batches] == [[{"n": 20}]]


def test_what_does_not_fit_memory_lies_in_no_directory_of_the_caller(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "there"))
    with connect(tmp_path, [], memory_bytes_max=60 * 10**6) as streams:
        many = "SELECT range, md5(range::VARCHAR) AS text FROM range(2_000_000) ORDER BY text"
        streams.connection.execute(f"CREATE TEMP TABLE sorted AS {many}")
        assert [len(list(each.iterdir())) for each in (tmp_path / "here", tmp_path / "there")] == [
            0,
            1,
        ]
    assert list((tmp_path / "there").iterdir()) == []


INTERRUPTED = """
import os, signal, sys, threading
from storage_core.sql import query_batches
threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    _, batches = query_batches(sys.argv[1], sys.argv[2])
    list(batches)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("expression", "rest"),
    [
        ("sum(hash(a.range, b.range))", ""),
        ("a.range, b.range", "WHERE hash(a.range, b.range) = 1"),
    ],
)
def test_interrupt_comes_out_of_a_query_as_one(tmp_path, expression, rest):
    PartsLab(tmp_path).stream.close()
    query = f"SELECT {expression} FROM range(10_000_000) a, range(100_000) b {rest}"
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), query]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MAX_S, check=False)
    assert (ran.returncode, ran.stderr) == (7, "")


INTERRUPTED_AT_LOADING = """
import os, signal, sys
from storage_core.sql import query_batches

def interrupt(frame, event, _):
    is_enum = event == "call" and frame.f_code.co_filename.endswith("enum.py")
    if is_enum and "duckdb" in sys.modules:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(interrupt)
try:
    query_batches(sys.argv[1], "SELECT 1")
except KeyboardInterrupt:
    sys.exit(7 if "duckdb" in sys.modules else 8)
"""


def test_interrupt_is_one_while_duckdb_is_loaded(tmp_path):
    """DuckDB makes its enums as it is loaded, and aborts the process where one cannot be made."""
    PartsLab(tmp_path).stream.close()
    command = [sys.executable, "-c", INTERRUPTED_AT_LOADING, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MAX_S, check=False)
    assert (ran.returncode, ran.stderr) == (7, "")


INTERRUPTED_ANYWHERE = """
import collections, signal, sys, time
from storage_core.sql import connect

root, query, tries = sys.argv[1], sys.argv[2], int(sys.argv[3])
signal.signal(signal.SIGALRM, signal.default_int_handler)
ends = collections.Counter()

def ask():
    with connect(root) as streams:
        streams.sql(query).fetchall()
        streams.refresh()

ask()
start = time.perf_counter()
ask()
took_s = time.perf_counter() - start
for number in range(tries):
    try:
        signal.setitimer(signal.ITIMER_REAL, took_s * (number + 1) / tries)
        ask()
        signal.setitimer(signal.ITIMER_REAL, 0)
        ends["answer"] += 1
    except KeyboardInterrupt:
        ends["interrupt"] += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
print(ends["interrupt"])
"""


def test_interrupt_is_one_wherever_it_comes(tmp_path):
    """DuckDB hands each tenth on as an error of its own, or of a part that it cannot read."""
    lab = PartsLab(tmp_path)
    lab.append(np.random.default_rng(1), 10)
    lab.stream.seal()
    lab.stream.close()
    query = f"SELECT count(*) FROM {NAME}"
    command = [sys.executable, "-c", INTERRUPTED_ANYWHERE, str(tmp_path), query, "60"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MAX_S, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0


MANY = "SELECT list(md5(range::VARCHAR)) AS all FROM range(1_000_000)"
SORTED = "SELECT range, md5(range::VARCHAR) AS text FROM range(2_000_000) ORDER BY text"


def test_memory_is_bounded_and_may_be_more(tmp_path):
    with connect(tmp_path, []) as streams:
        (reported,) = streams.connection.execute(
            "SELECT current_setting('memory_limit')"
        ).fetchone()
        (whole,) = bound_of_the_system()
        assert gibibytes(reported) == pytest.approx(max(1, gibibytes(whole) / 3.2), rel=0.1)
    PartsLab(tmp_path).stream.close()
    with pytest.raises(InvalidRequestError, match=r"memory limit.* --memory-mib-max") as raised:
        query_batches(tmp_path, MANY, memory_bytes_max=32 * 2**20)
    assert "\n" not in str(raised.value)
    _, batches = query_batches(tmp_path, SORTED, memory_bytes_max=64 * 2**20)
    assert sum(batch.num_rows for batch in batches) == 2_000_000
    with pytest.raises(InvalidRequestError, match="the minimum is 33554432"):
        connect(tmp_path, [], memory_bytes_max=1)


def bound_of_the_system():
    """Return what DuckDB takes by itself, which is four fifths."""
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().execute("SELECT current_setting('memory_limit')").fetchone()


def gibibytes(reported):
    number, unit = reported.split()
    return float(number) * {"MiB": 2**-10, "GiB": 1, "TiB": 2**10}[unit]


def test_progress_is_told_while_the_first_rows_are_waited_for(tmp_path):
    PartsLab(tmp_path).stream.close()
    reported: list[float] = []
    _, batches = query_batches(tmp_path, SORTED, reported.append, memory_bytes_max=64 * 2**20)
    assert max(reported) > 0
    assert max(reported) <= 100
    assert sum(batch.num_rows for batch in batches) == 2_000_000


def test_tables_are_streams_alone_and_keep_their_rows(tmp_path):
    lab = PartsLab(tmp_path)
    lab.append(np.random.default_rng(3), 50)
    with connect(tmp_path) as streams:
        for _ in range(2):
            gc.collect()
            assert streams.sql("SHOW TABLES").fetchall() == [(NAME,)]
            assert streams.sql(f"SELECT count(*) FROM {NAME}").fetchall() == [(50,)]
            streams.refresh()
    lab.stream.close()


_IN_A_ZONE = f"""
import sys
from storage_core.sql import connect
with connect(sys.argv[1]) as streams:
    asked = "count(*) FILTER (time = moment), min(date_trunc('day', moment))::VARCHAR"
    print(streams.sql(f"SELECT {{asked}} FROM {NAME}").fetchall())
"""


@thinned("zone", ["America/New_York", "Asia/Kolkata"], count=1)
def test_answer_is_the_same_in_any_zone(root, zone):
    lab = PartsLab(root)
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    value = {"moment": datetime.fromtimestamp(FIRST_MS / 1000, UTC)}
    lab.append_values(schema_of([{"name": "moment", "type": moment}]), [value], 1)
    lab.stream.close()
    child = [sys.executable, "-c", _IN_A_ZONE, str(root)]
    said = subprocess.run(
        child, env=os.environ | {"TZ": zone}, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[(1, '2023-11-14 00:00:00+00')]"


def test_json_in_a_payload_is_asked_as_a_text_and_never_as_bytes(root):
    with Stream.create(root, NAME, StreamOptions(shards=1)) as stream:
        stream.append(FIRST_MS, 1, b'{"x": {"y": 5}}')
    for expression in ("decode(payload) ->> '$.x.y'", "decode(payload) -> 'x' ->> 'y'"):
        _, batches = query_batches(root, f"SELECT {expression} AS y FROM {NAME}")
        assert [batch.to_pylist() for batch in batches] == [[{"y": "5"}]]
    with pytest.raises(InvalidRequestError, match=r"as in decode\(payload\) ->> 'name'"):
        query_batches(root, f"SELECT payload ->> 'x' FROM {NAME}")


@pytest.fixture(scope="module")
def json_rows(tmp_path_factory):
    """A root of which a stream has JSON in its payloads, and a connection to it."""
    root = tmp_path_factory.mktemp("json")
    with Stream.create(root, NAME, StreamOptions(shards=1)) as stream:
        stream.append(FIRST_MS, 1, b'{"x": [1]}')
    with connect(root) as streams:
        yield root, streams


@pytest.mark.parametrize(
    "expression",
    [
        *("json_extract_string({}, 'x')", "json_extract_path({}, 'x')", "json_value({}, '$.x')"),
        *("json_extract_path_text({}, 'x')", "json_exists({}, '$.x')", "json_contains({}, '1')"),
        *("json_keys({})", "json_keys({}, '$.x')", "json_type({})", "json_type({}, '$.x')"),
        *("json_array_length({})", "json_array_length({}, '$.x')", "json_structure({})"),
        *(
            "json_valid({})",
            "json({})",
            "from_json({}, '\"JSON\"')",
            "json_transform({}, '\"JSON\"')",
        ),
    ],
)
def test_function_of_json_refuses_bytes_and_takes_texts(json_rows, expression):
    root, streams = json_rows
    name = expression.partition("(")[0]
    with pytest.raises(
        InvalidRequestError, match=rf"^[\w ]+: {name} needs JSON and got bytes.*decode\("
    ):
        query_batches(root, f"SELECT {expression.format('payload')} FROM {NAME}")
    answered = streams.sql(f"SELECT {expression.format('decode(payload)')} AS x FROM {NAME}")
    plain = f"SELECT system.main.{expression.format('decode(payload)')} AS x FROM {NAME}"
    assert answered.types == streams.sql(plain).types
    assert answered.fetchall() == streams.sql(plain).fetchall()


def test_bytes_that_are_no_text_are_told_with_what_passes_over_them(root):
    with Stream.create(root, NAME, StreamOptions(shards=1)) as stream:
        stream.append(FIRST_MS, 1, b"\xff{}")
        stream.append(FIRST_MS + 1, 1, b'{"x": 1}')
    with pytest.raises(InvalidRequestError, match=r"characters; TRY\(decode\(payload\)\) is null"):
        query_batches(root, f"SELECT decode(payload) ->> 'x' AS x FROM {NAME}")
    query = f"SELECT TRY(decode(payload)) ->> 'x' AS x FROM {NAME} ORDER BY address"
    _, batches = query_batches(root, query)
    assert [row["x"] for batch in batches for row in batch.to_pylist()] == [None, "1"]
