"""Reading over a server against reading by path, each by a client in a process of its own.

The server has one process of its own as well. Ranges are of 100 rows of one id that lie together;
the replay is all rows of a shard by address. A client over a server lies idle while it is answered,
as the server does in between, where one by path goes on at once. So ranges are read twice: one
behind the other, and with a pause before each on both sides. Idle clients follow: each waits for
an address that does not come, and asks again when the server has had enough of waiting.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.child import answer_of, child_process, memory_peak
from bench.log.peers import ONE_SHARD
from bench.measure import Contestant, Experiment, Measured, Row, latencies, timed
from bench.records import DEVICES, FIRST_PRIMARY, record_batches
from bench.serve.process import serve
from storage_core import Stream, StreamReader, SystemClock
from storage_core.protocol import CALLS, encode_body
from storage_core.protocol.calls import WAIT_S_MAX

_ROWS: Final = 2_000_000
_BATCH_ROWS: Final = 10_000
_RANGE_ROWS: Final = 100
_RANGES: Final = 400
_PAUSE_S: Final = 0.005
_IDLE: Final = 64
_IDLE_S: Final = 5.0
_WAIT_S: Final = 120.0
_NAME: Final = "bench"
_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@contextmanager
def _serve(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Stream.create(workspace, _NAME, ONE_SHARD) as stream:
        for batch in record_batches(_ROWS // _BATCH_ROWS, _BATCH_ROWS, shuffled=False):
            ids = (batch.column("primary").to_numpy() - FIRST_PRIMARY) // _RANGE_ROWS % DEVICES
            column = pa.array(ids.astype(np.int32))
            stream.append_batch(batch.set_column(1, "secondary", column))
            stream.commit()
    with child_process(serve, workspace) as child:
        said = child.answer()
        port, pid = int(said["port"]), int(said["pid"])
        address = f"shardlog://127.0.0.1:{port}"
        yield {
            "path": lambda: answer_of(_read, str(workspace)),
            "server": lambda: answer_of(_read, address),
            "paced by path": lambda: answer_of(_read, str(workspace), _PAUSE_S),
            "paced by server": lambda: answer_of(_read, address, _PAUSE_S),
            "tail by path": lambda: answer_of(_tail, str(workspace)),
            "tail by server": lambda: answer_of(_tail, address),
            "idle": lambda: _idle(port, pid),
        }


def _ranges() -> Iterator[dict[str, Any]]:
    chance = np.random.default_rng(3)
    for group in chance.integers(0, _ROWS // _RANGE_ROWS, _RANGES).tolist():
        first = FIRST_PRIMARY + group * _RANGE_ROWS
        yield {"ids": (group % DEVICES,), "start": first, "end": first + _RANGE_ROWS - 1}


def _read(place: str, pause_s: float = 0.0) -> Measured:
    seconds = []
    clock = SystemClock()
    with StreamReader.open(place, _NAME) as reader:
        reader.refresh()
        for values in _ranges():
            if pause_s:
                clock.sleep(pause_s)
            start = time.perf_counter()
            table = reader.read(**values)
            seconds.append(time.perf_counter() - start)
            assert table.num_rows == _RANGE_ROWS
    return latencies(seconds)


def _tail(place: str) -> Measured:
    with StreamReader.open(place, _NAME) as reader:
        reader.refresh()
        with timed(_ROWS) as measured:
            rows = sum(batch.num_rows for batch in reader.tail(0))
    assert rows == _ROWS
    return measured


def _idle(port: int, pid: int) -> Measured:
    """Let clients wait, and look at what the server takes meanwhile."""
    with ExitStack() as stack:
        for _ in range(_IDLE):
            connection = HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
            stack.enter_context(closing(connection))
            values = {"shard": 0, "address": _ROWS, "timeout": WAIT_S_MAX}
            body = encode_body(CALLS["wait"].parameters, values)
            connection.request("POST", CALLS["wait"].path(_NAME), body)
        SystemClock().sleep(2)
        before, start = _processor_s(pid), time.perf_counter()
        SystemClock().sleep(_IDLE_S)
        spent = _processor_s(pid) - before
        elapsed = time.perf_counter() - start
    return {"share": spent / elapsed, "bytes": memory_peak(str(pid))}


def _processor_s(pid: int) -> float:
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


SERVE: Final = Experiment(
    "serve",
    (
        Row(
            "serve/range-p99",
            "`read` of 100 rows of one id over a server: how much later than by path, p99",
            ("server", "p99"),
            ("path", "p99"),
            sense="at most",
            limit=0.002,
            wanted=0.000_7,
            compared="difference",
        ),
        Row(
            "serve/range-p50",
            "the same, p50",
            ("server", "p50"),
            ("path", "p50"),
            sense="at most",
            compared="difference",
        ),
        Row(
            "serve/paced-p99",
            f"the same, p99, with {_PAUSE_S * 1000:.0f} ms before each read on both sides",
            ("paced by server", "p99"),
            ("paced by path", "p99"),
            sense="at most",
            compared="difference",
        ),
        Row(
            "serve/paced-p50",
            "the same, p50, with a pause",
            ("paced by server", "p50"),
            ("paced by path", "p50"),
            sense="at most",
            compared="difference",
        ),
        Row(
            "serve/tail",
            "`tail` of 2 M rows over a server against by path",
            ("tail by server", "rate"),
            ("tail by path", "rate"),
        ),
        Row(
            "serve/tail-cpu",
            "the client's part of it against by path, by processor time",
            ("tail by server", "cpu_rate"),
            ("tail by path", "cpu_rate"),
            limit=0.5,
            wanted=0.8,
        ),
        Row(
            "serve/idle",
            "processor of a server that 64 clients follow where nothing comes, cores",
            ("idle", "share"),
            sense="at most",
            limit=0.01,
        ),
        Row(
            "serve/memory",
            "most memory of the server after all that, bytes",
            ("idle", "bytes"),
            sense="at most",
            limit=250e6,
        ),
    ),
    _serve,
)
