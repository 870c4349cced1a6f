"""Goal: whatever a client sends that may write, nothing is stored twice, and others write on."""

from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from storage_core import InvalidRequestError, TransactionId
from storage_core.protocol import PROTOCOL, encode_rows
from storage_core.remote.staging_client import StagingClient
from tests.log.serve.served import Served, serving
from tests.log.serve.writers.staged import NUMBERED, OF_OURS, PATIENT, land, rows, staged, stored
from tests.log.workbench import Workbench
from tests.waiting import await_that


@pytest.fixture
def bench(make_bench: Any) -> Workbench:
    """A stream of two shards that nobody holds."""
    bench: Workbench = make_bench(shards=2)
    bench.release()
    return bench


@pytest.fixture
def served_to_all(bench: Workbench) -> Iterator[Served]:
    with serving(bench.root, is_writable=True, headers=OF_OURS, staged_bytes=1 << 16) as served_:
        yield served_


def staged_by(
    served_: Served, stream: str, body: bytes, transaction: TransactionId = NUMBERED
) -> Any:
    """Post some bytes to be staged; return the answer's status and body."""
    path = f"/v1/streams/{stream}/stage?series={transaction.series}&number=1"
    return served_.post(path, body)


def as_stream(batch: pa.RecordBatch) -> bytes:
    return b"".join(bytes(memoryview(piece)) for piece in encode_rows(batch.schema, [batch]))


def test_names_of_staged_rows_that_are_paths_or_others_are_refused(bench, served_to_all):
    name = bench.name
    with StagingClient.open(f"shardlog://{served_to_all.server.address}", name) as area:
        parts = staged(area, NUMBERED, range(4))
        (attempt,) = {part.file.partition("/")[0] for part in parts[0]}
        own = {"series": "app", "number": 1, "wait": 0}
        for part, said in {
            "0:../../../root.json": "no name of staged rows",
            "0:/etc/passwd": "no name of staged rows",
            "0:0000000000000000": "deleted before they were published",
            f"7:{attempt}": "no rows of shard 7",
            f"x:{attempt}": "is not <shard>:<attempt>",
        }.items():
            assert said in str(served_to_all.refusal("land", name, parts=[part], **own))
        other = {**own, "series": "other", "parts": [f"0:{attempt}"]}
        assert "deleted before" in str(served_to_all.refusal("land", name, **other))
        twice = {**own, "parts": [f"0:{attempt}"] * 2}
        assert "the same is named twice" in str(served_to_all.refusal("land", name, **twice))
        few = {**own, "parts": [f"0:{attempt}"], "contents": f"4:{0:032x}"}
        assert "2 rows are staged" in str(served_to_all.refusal("land", name, **few))
        removed = {"series": "app", "number": 1, "attempts": ["../.."]}
        assert "no name of staged rows" in str(served_to_all.refusal("discard", name, **removed))
        land(area, NUMBERED, parts)
    assert stored(bench) == list(range(4))


def test_half_a_character_is_no_text(bench, served_to_all):
    for field in ("name", "owner"):
        values = {"name": "n", "owner": "o", field: "\ud800"}
        said = served_to_all.refusal("claim", bench.name, **values)
        assert isinstance(said, InvalidRequestError)
        assert str(said).startswith(f"{field}: ")


def as_arrow(batch: pa.RecordBatch, compression: Any = None) -> bytes:
    """Return a batch as Arrow itself writes it."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def with_payload(payload: Any) -> pa.RecordBatch:
    batch = rows(range(len(payload)))
    return batch.set_column(batch.schema.get_field_index("payload"), "payload", payload)


def broken_offsets() -> pa.RecordBatch:
    """Return rows one of whose payloads lies outside its column."""
    batch = rows([1, 2, 3])
    offsets = pa.array([0, 1 << 30, 2, 3], pa.int32()).buffers()[1]
    buffers = [None, offsets, batch.column("payload").buffers()[2]]
    payload = pa.Array.from_buffers(pa.binary(), 3, buffers)
    return batch.set_column(batch.schema.get_field_index("payload"), "payload", payload)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "ended early"),
        (b"no Arrow at all", "ended early"),
        (as_stream(rows([1, 2]))[:-40], "ended early"),
        (as_stream(broken_offsets()), "the rows cannot be read"),
        (as_stream(rows([1]).rename_columns(["a", "b", "c"])), "column"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(100), "rows"),
        (bytes(1 << 17), "--stage-mib-max"),
        # A few bytes that stand for many.
        (as_arrow(rows(range(99)), "zstd"), "compressed"),
        (as_arrow(rows(range(99)), "lz4"), "compressed"),
        (as_arrow(with_payload(pa.array([b"x"] * 9).dictionary_encode())), "plain values"),
        (as_arrow(with_payload(pa.array([b"x" * 99] * 9, pa.binary_view()))), "plain values"),
        (as_stream(rows([1, 2]))[:8] + bytes(400), "ended early"),
    ],
    ids=[
        *("nothing", "garbage", "cut", "offsets", "columns", "lengths", "size"),
        *("zstd", "lz4", "dictionary", "view", "schema"),
    ],
)
def test_rows_that_are_none_are_refused_and_the_connection_goes_on(
    bench, served_to_all, body, said
):
    status, answer = staged_by(served_to_all, bench.name, body)
    assert status in (400, 413)
    assert said in answer
    assert not list(bench.staging.rglob("*.arrow"))
    assert served_to_all.result("committed", bench.name) == {0: 0, 1: 0}


def test_place_of_a_client_that_sends_nothing_more_is_given_to_who_waits(bench):
    with (
        serving(bench.root, is_writable=True, stagings=1, stalled_s=0.1) as served_,
        served_.connected() as sock,
    ):
        target = f"/v1/streams/{bench.name}/stage?series=slow"
        head = f"POST {target} HTTP/1.1\r\n{PROTOCOL}: 1\r\nContent-Length: 1000\r\n\r\n"
        sock.sendall(head.encode() + b"\xff\xff\xff\xff")
        await_that(lambda: served_.metric("shardlog_server_stagings") == 1, "a place is taken")
        address = f"shardlog://{served_.server.address}"
        with StagingClient.open(address, bench.name, options=PATIENT) as area:
            land(area, NUMBERED, staged(area, NUMBERED, range(4)))
        assert served_.metric("shardlog_server_landed_total") == 1
        assert served_.metric("shardlog_server_staged_rows_total") == 4
    assert stored(bench) == list(range(4))


def test_place_of_a_client_that_goes_on_sending_too_slowly_is_given_to_who_waits(bench):
    slowly: Any = {"stalled_s": 1e6, "send_s": 1e6, "slow_s": 0.2}
    with (
        serving(bench.root, is_writable=True, stagings=1, **slowly) as served_,
        served_.connected() as sock,
    ):
        target = f"/v1/streams/{bench.name}/stage?series=slow"
        head = f"POST {target} HTTP/1.1\r\n{PROTOCOL}: 1\r\nContent-Length: 1000000\r\n\r\n"
        sock.sendall(head.encode() + b"\xff\xff\xff\xff\x00\x80\x00\x00")
        await_that(lambda: served_.metric("shardlog_server_stagings") == 1, "a place is taken")
        is_over = Event()

        def go_on() -> None:
            with suppress(OSError):
                while not is_over.wait(0.02):
                    sock.sendall(b"0")

        slow = Thread(target=go_on)
        slow.start()
        try:
            address = f"shardlog://{served_.server.address}"
            with StagingClient.open(address, bench.name, options=PATIENT) as area:
                land(area, NUMBERED, staged(area, NUMBERED, range(4)))
        finally:
            is_over.set()
            slow.join()
    assert stored(bench) == list(range(4))
