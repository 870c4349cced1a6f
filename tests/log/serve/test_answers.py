"""Each call answers what the reader does, by body and by query, and health and metrics answer."""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage_core import ReadRequest, Record, Stream, StreamReader, root_id
from storage_core.answering import facts_of
from storage_core.protocol import CALLS, COMPRESSION, PROTOCOL, ROOT, RowStream, request_values
from tests.log.fixtures import MEMORY
from tests.log.serve.served import Served, serving
from tests.log.topics import NAME, TopicCopy
from tests.log.workbench import Workbench, batch_of

STREAM = "stream-0"
REQUEST = ReadRequest(1, order="primary", ids=(1,), end=900, limit=30, latest_by="primary")


def fill(bench: Workbench) -> None:
    """Append rows of three ids, some late, some without a payload."""
    for secondary in range(3):
        primaries = [*range(0, 3000, 3), 5, 7]
        payloads = [None if n % 50 == 0 else b"%d" % n for n in primaries]
        bench.stream.append_batch(batch_of(primaries, secondary=secondary, payload=payloads))
    bench.commit()


@pytest.fixture(scope="module")
def stream() -> Iterator[Workbench]:
    """A stream of two shards with rows of three ids."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        bench = Workbench(Path(folder), STREAM, shards=2, jitter=2)
        fill(bench)
        yield bench
        bench.release()


@pytest.fixture(scope="module")
def served(stream: Workbench) -> Iterator[Served]:
    with serving(stream.root) as served:
        yield served


@pytest.fixture(scope="module")
def reader(stream: Workbench) -> Iterator[StreamReader]:
    with StreamReader.open(stream.root, stream.name) as reader:
        yield reader


def of_records(records: list[Record]) -> pa.Table:
    names = ("shard", "secondary", "primary", "version", "address", "late", "payload")
    return pa.table({name: [getattr(record, name) for record in records] for name in names})


def each_record(reader: StreamReader, **values: Any) -> pa.Table:
    records: list[Record] = []
    reader.for_each(**values, fn=records.append)
    return of_records(records)


ROWS: dict[str, tuple[dict[str, Any], Callable[[StreamReader, dict[str, Any]], pa.Table]]] = {
    "read": (
        {"ids": (0, 2), "start": 10, "end": 500, "limit": 20, "columns": ("primary", "payload")},
        lambda reader, values: reader.read(**values),
    ),
    "scan": ({"ids": (1,)}, lambda reader, values: joined(reader.scan(**values))),
    "tail": (
        {"shard": 1, "start_address": 7, "end_address": 900},
        lambda reader, values: joined(reader.tail(**values)),
    ),
    "records": ({"ids": (2, 0)}, lambda reader, values: each_record(reader, **values)),
    "latest": ({}, lambda reader, values: of_records(list(reader.latest(**values).values()))),
    "available": (
        {"from_": 10, "width": 40},
        lambda reader, values: reader.available(**values)[1],
    ),
    "scan_shard": (
        request_values(REQUEST),
        lambda reader, _: joined(reader.shard(REQUEST.shard).scan(REQUEST)),
    ),
}


def in_any_order(rows: pa.Table, call: str) -> list[dict[str, Any]]:
    """Return rows as `==` compares them: of `latest` none comes first."""
    listed = rows.to_pylist()
    return sorted(listed, key=lambda row: row["secondary"]) if call == "latest" else listed


def joined(batches: Any) -> pa.Table:
    return pa.Table.from_batches(list(batches))


@pytest.mark.parametrize("call", ROWS)
def test_rows_are_those_that_the_reader_returns(
    served: Served, reader: StreamReader, call: str
) -> None:
    values, asked_here = ROWS[call]
    expected = asked_here(reader, values)
    assert expected.num_rows
    for by_query in (False, True):
        rows = served.rows(call, STREAM, by_query=by_query, **values)
        assert in_any_order(rows, call) == in_any_order(expected, call)
        assert rows.schema.names == expected.schema.names


RESULTS: dict[str, tuple[dict[str, Any], Callable[[StreamReader], object]]] = {
    "facts": ({}, facts_of),
    "refresh": ({}, facts_of),
    "committed": ({}, StreamReader.committed),
    "position": ({}, StreamReader.position),
    "wait": (
        {"shard": 0, "address": 5, "timeout": 0.0},
        lambda reader: reader.wait(0, 5, 0.0),
    ),
    "earliest": ({"ids": (1,), "from_": 4}, lambda reader: reader.earliest((1,), 4)),
    "lost_ranges": ({}, StreamReader.lost_ranges),
    "gaps": ({}, StreamReader.gaps),
    "unsealed": ({}, StreamReader.unsealed),
    "untrimmed": ({}, StreamReader.untrimmed),
    "parts": ({}, StreamReader.parts),
    "stats": ({"shard": 1}, lambda reader: reader.stats(1)),
    "source": ({"shard": 0}, lambda reader: reader.source(0)),
    "schemas": ({}, StreamReader.schemas),
    "shard_schemas": ({"shard": 0}, lambda reader: list(reader.shard(0).schemas())),
    "start": ({"shard": 1}, lambda reader: reader.start(1)),
    "horizon": ({"shard": 1}, lambda reader: reader.horizon(1)),
    "missing": (
        {"shard": 1, "start": 0, "end": 9},
        lambda reader: reader.missing(1, 0, 9),
    ),
}


@pytest.mark.parametrize("call", RESULTS)
def test_result_is_what_the_reader_returns(served: Served, reader: StreamReader, call: str) -> None:
    values, asked_here = RESULTS[call]
    assert served.result(call, STREAM, **values) == asked_here(reader)


def test_every_call_of_the_table_is_tried_here() -> None:
    # Those of parts are in tests/log/sql/test_served.py.
    of_parts = {"snapshot", "part_bytes"}
    elsewhere = {"server", "streams", "state", "sizes", "dead_letters", "owners"} | of_parts
    # Those that write are tried in test_staged_writes.py.
    read = {name for name, call in CALLS.items() if call.right == "read"}
    assert {*ROWS, *RESULTS, *elsewhere} == read


def test_rest_of_the_calls_answer_too(served: Served, reader: StreamReader, stream) -> None:
    assert served.result("streams") == [STREAM]
    assert served.result("server")["root_id"] == root_id(stream.root)
    assert served.result("state", STREAM, shard=1).committed == reader.committed()[1]
    assert min(served.result("sizes", STREAM).values()) > 0


def test_dead_letters_come_by_address(copy) -> None:
    copy.add({3: 100})
    copy.open(3)
    copy.append(3, dead={100: b"raw", 101: b""})
    copy.stream.commit()
    with serving(copy.root) as served:
        letters = served.rows("dead_letters", NAME, shard=3, start=100)
    assert letters.to_pydict() == {"address": [100, 101], "dead_letter": [b"raw", b""]}


def test_keys_go_and_come_with_their_rows(make_bench) -> None:
    bench = make_bench(key_mode="dictionary")
    rows = pa.RecordBatch.from_pydict(
        {"key": [b"\x00", None, b"b"], "primary": [1, 2, 3], "payload": [b"x"] * 3}
    )
    bench.stream.append_batch(rows)
    bench.commit()
    with serving(bench.root) as served:
        for keys in ((b"\x00",), (None, b"b"), ()):
            read = served.rows("read", bench.name, keys=keys)
            assert set(read.column("key").to_pylist()) == set(keys)
        assert served.rows("latest", bench.name).num_rows == 3


@pytest.mark.parametrize("call", ["read", "scan", "tail", "records", "latest", "available"])
def test_answer_without_rows_has_their_columns(served: Served, call: str) -> None:
    values = {"shard": 0} if call == "tail" else {}
    empty, _ = served.rows_and_result(call, STREAM, ids=(99,), **values)
    full, result = served.rows_and_result(call, STREAM, **values)
    assert (empty.num_rows, empty.schema) == (0, full.schema)
    assert result == (0 if call == "available" else None)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_buffers_are_compressed_as_the_client_wants(
    served: Served, reader: StreamReader, compression: str
) -> None:
    served.headers[COMPRESSION] = compression
    assert served.rows("read", STREAM) == reader.read()
    del served.headers[COMPRESSION]


def test_rows_appended_since_are_in_the_next_answer(served: Served, stream) -> None:
    before = served.rows("read", STREAM, ids=(7,)).num_rows
    stream.keep([1, 2], secondary=7)
    assert served.rows("read", STREAM, ids=(7,)).num_rows == before + 2


def test_wait_ends_when_the_address_is_committed(served: Served, stream) -> None:
    end = served.result("committed", STREAM)[1]
    assert not served.result("wait", STREAM, shard=1, address=end, timeout=0.05)
    served.begin("wait", STREAM, shard=1, address=end, timeout=30)
    stream.keep([9000], secondary=1)
    assert served.answer_begun("wait") is True


def test_each_answer_says_who_answers(served: Served, stream) -> None:
    for path in ("/health/live", "/v1/server", "/nope"):
        answer = served.get(path)
        answer.read()
        assert answer.headers[ROOT] == root_id(stream.root)
        assert (answer.headers[PROTOCOL], answer.headers["Shardlog-Version"]) == ("1", "1.2.3")


def test_health_and_metrics_are_on_the_same_port(served: Served) -> None:
    rows = served.rows("read", STREAM).num_rows
    for path in ("/health/live", "/health/ready"):
        answer = served.get(path)
        assert (answer.status, json.loads(answer.read())) == (200, {"healthy": True})
    assert served.metric("shardlog_server_rows_total") >= rows
    assert served.metric("shardlog_server_bytes_total") > rows
    assert served.metric("shardlog_server_streams") == 1


def test_lost_range_comes_as_its_error_behind_rows_that_do_not_count(bench: Any) -> None:
    bench.keep(range(3000))
    bench.keep(range(3000, 6000))
    bench.close()
    bench.damage_block(3000)
    with serving(bench.root) as served:
        answer = served.ask("tail", bench.name, shard=0)
        assert answer.status == 200
        rows = RowStream(answer)
        with pytest.raises(Exception, match="shard 0") as caught:
            rows.read_all()
    assert type(caught.value).__name__ in ("CorruptionError", "LostRangeError")
    assert not rows.is_whole


def test_stream_needs_no_writer(bench: Workbench) -> None:
    bench.keep([1, 2])
    bench.close()
    with serving(bench.root) as served:
        assert served.rows("read", bench.name).num_rows == 2
        assert served.metric("shardlog_server_rows_total") == 2


def test_holder_of_each_shard_is_told_as_long_as_it_holds_it(copy: TopicCopy) -> None:
    copy.add({1: 100, 4: 7})
    copy.open(1)
    copy.append(1, [100, 104])
    copy.stream.commit()
    with serving(copy.root) as served:
        owners = served.result("owners", NAME)
        assert {n: (one.born, one.start, one.committed) for n, one in owners.items()} == {
            1: (100, 100, 105),
            4: (7, 7, 7),
        }
        assert [one.holder is not None for _, one in sorted(owners.items())] == [True, False]
        copy.open(4)
        owners = served.result("owners", NAME)
        assert [one.holder is not None for _, one in sorted(owners.items())] == [False, True]
        copy.stream.close()
        assert not any(one.holder for one in served.result("owners", NAME).values())
        copy.stream = Stream.open(copy.root, NAME)
