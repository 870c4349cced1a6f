"""Of what to make the server: threads of the standard library against an event loop (ADR 0069).

    python -m bench.serve.libraries threads http.server aiohttp

Each library serves the same root from a process of its own: `threads` is the product's server,
`http.server` the standard library's handler on a thread a connection, `aiohttp` (which has to be
installed: no part of the product needs it) an event loop that reads on threads. Measured is what a
client has of it: 100 rows of one id, alone and eight at once; a million rows; what 200 idle
clients cost; 100 rows beside eight clients that take nothing of a large answer. What a library
does not bound by itself is not bounded here.
"""

import asyncio
import os
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.records import DEVICES, FIRST_PRIMARY, record_batches
from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import Stream, StreamOptions, StreamReader, SystemClock
from storage_core.answering import rows_of
from storage_core.protocol import CALLS, RowStream, decode_query, encode_query, encode_rows

_ROWS: Final = 1_000_000
_LARGE_TIMES: Final = 2
_ASKS: Final = 240
_CLIENTS: Final = 8
_IDLE: Final = 200
_IDLE_S: Final = 4.0
_WAIT_S: Final = 120
_SMALL_ROWS: Final = 100
_SMALL: Final = {
    "ids": (17,),
    "start": FIRST_PRIMARY + 17 * _SMALL_ROWS,
    "end": FIRST_PRIMARY + 18 * _SMALL_ROWS - 1,
}
_PROC: Final = Path("/proc")


# --- servers -------------------------------------------------------------------------------


def _pieces(reader: StreamReader, target: str) -> Iterator[bytes]:
    """Yield the answer of a path as each library sends it."""
    path, _, query = target.partition("?")
    call = CALLS[path.rpartition("/")[2]]
    rows = rows_of(reader, call, decode_query(call.parameters, query))
    for piece in encode_rows(rows.schema, rows.batches, rows.result):
        yield bytes(piece)


def _serve(library: str, root: Path, parent: Connection) -> None:
    # As the product's process has it.
    sys.setswitchinterval(0.000_5)
    _LIBRARIES[library](root, parent)


def _serve_threads(root: Path, parent: Connection) -> None:
    server = ShardServer(ServeSettings(root=root, listen="127.0.0.1:0"))
    parent.send(server.port)
    parent.recv()
    server.close()


def _serve_http_server(root: Path, parent: Connection) -> None:
    with StreamReader.open(root, "bench") as reader:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in _pieces(reader, self.path):
                    self.wfile.write(b"%x\r\n" % len(piece))
                    self.wfile.write(piece)
                    self.wfile.write(b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
                self.wfile.flush()

            def log_message(self, *_: object) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        parent.send(server.server_port)
        parent.recv()


def _serve_aiohttp(root: Path, parent: Connection) -> None:
    web = import_module("aiohttp.web")
    pool = ThreadPoolExecutor(32)

    async def run(reader: StreamReader) -> None:
        loop = asyncio.get_running_loop()

        async def answer(request: Any) -> Any:  # noqa: ANN401 - a library that is not installed
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            # A reader's iterator belongs to one thread: small answers are made at once, and a
            # large one hands its pieces over one by one.
            ready: asyncio.Queue[bytes | None] = asyncio.Queue(4)

            def make() -> None:
                for piece in _pieces(reader, request.path_qs):
                    asyncio.run_coroutine_threadsafe(ready.put(piece), loop).result()
                asyncio.run_coroutine_threadsafe(ready.put(None), loop).result()

            making = loop.run_in_executor(pool, make)
            while (piece := await ready.get()) is not None:
                await response.write(piece)
            await making
            await response.write_eof()
            return response

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        parent.send(runner.addresses[0][1])
        await loop.run_in_executor(None, parent.recv)

    with StreamReader.open(root, "bench") as reader:
        asyncio.run(run(reader))
        os._exit(0)


_LIBRARIES: Final[dict[str, Callable[[Path, Connection], None]]] = {
    "threads": _serve_threads,
    "http.server": _serve_http_server,
    "aiohttp": _serve_aiohttp,
}


@contextmanager
def _serving(library: str, root: Path) -> Iterator[tuple[int, int]]:
    """Start a server; yield its port and process."""
    context = get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_serve, args=(library, root, child_end), daemon=True)
    process.start()
    try:
        assert parent_end.poll(_WAIT_S), f"{library} does not start"
        assert process.pid is not None
        yield parent_end.recv(), process.pid
    finally:
        process.kill()
        process.join()


# --- measures ------------------------------------------------------------------------------


def _ask(connection: HTTPConnection, call: str, **values: Any) -> int:  # noqa: ANN401 - parameters
    path = CALLS[call].path("bench")
    connection.request("GET", f"{path}?{encode_query(CALLS[call].parameters, values)}")
    answer = connection.getresponse()
    rows = sum(batch.num_rows for batch in RowStream(answer))
    answer.read()
    return rows


def _latencies(port: int, asks: int) -> list[float]:
    connection = HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
    seconds = []
    for _ in range(asks):
        start = time.perf_counter()
        assert _ask(connection, "read", **_SMALL) == _SMALL_ROWS
        seconds.append(time.perf_counter() - start)
    connection.close()
    return seconds


def _percentiles(seconds: list[float]) -> str:
    p99 = statistics.quantiles(seconds, n=100)[98]
    return f"p50 {statistics.median(seconds) * 1e3:6.2f} ms   p99 {p99 * 1e3:6.2f} ms"


def _processor_s(pid: int) -> float:
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    pages = int((_PROC / str(pid) / "statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


def _eight_at_once(port: int) -> float:
    asks = _ASKS // _CLIENTS
    start = time.perf_counter()
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(lambda _: _latencies(port, asks), range(_CLIENTS)))
    return _CLIENTS * asks / (time.perf_counter() - start)


def _large(port: int) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
    start = time.perf_counter()
    rows = sum(_ask(connection, "scan") for _ in range(_LARGE_TIMES))
    connection.close()
    return rows / (time.perf_counter() - start) / 1e6


def _idle(port: int, pid: int) -> float:
    with ExitStack() as stack:
        for _ in range(_IDLE):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), _WAIT_S))
        before = _processor_s(pid)
        SystemClock().sleep(_IDLE_S)
        return (_processor_s(pid) - before) / _IDLE_S * 100


def _beside_stalled(port: int) -> list[float]:
    query = encode_query(CALLS["scan"].parameters, {})
    with ExitStack() as stack:
        for _ in range(_CLIENTS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), _WAIT_S))
            path = CALLS["scan"].path("bench")
            sock.sendall(f"GET {path}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert sock.recv(1)
        return _latencies(port, _ASKS // 4)


def _measure(library: str, root: Path) -> None:
    with _serving(library, root) as (port, pid):
        _latencies(port, 20)
        begun_s = _processor_s(pid)
        alone = _percentiles(_latencies(port, _ASKS))
        small_ms = (_processor_s(pid) - begun_s) / _ASKS * 1e3
        begun_s = _processor_s(pid)
        large = _large(port)
        large_ms = (_processor_s(pid) - begun_s) / _LARGE_TIMES * 1e3
        lines = [
            ("100 rows, one client", f"{alone}   {small_ms:.2f} ms of the server's processor"),
            ("100 rows, eight clients", f"{_eight_at_once(port):8.0f} answers a second"),
            ("a scan of a million rows", f"{large:8.1f} M rows/s   {large_ms:.0f} ms of processor"),
            ("200 idle clients", f"{_idle(port, pid):8.2f} % of a core"),
            ("100 rows beside 8 stalled", _percentiles(_beside_stalled(port))),
            ("memory at the end", f"{_resident_mb(pid):8.0f} MB"),
        ]
    for name, figure in lines:
        sys.stdout.write(f"{library:12} {name:28} {figure}\n")
    sys.stdout.flush()


def main(libraries: list[str]) -> None:
    """Measure each library in turn."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with Stream.create(root, "bench", StreamOptions(shards=1)) as stream:
            for batch in record_batches(_ROWS // 10_000, 10_000, shuffled=False):
                # Each hundred in a row have one id, so that little of an answer is reading.
                ids = (batch.column("primary").to_numpy() - FIRST_PRIMARY) // _SMALL_ROWS % DEVICES
                column = pa.array(ids.astype(np.int32))
                stream.append_batch(batch.set_column(1, "secondary", column))
                stream.commit()
        sys.stdout.write(f"pyarrow {pa.__version__}, {os.cpu_count()} cores\n")
        for library in libraries:
            _measure(library, root)


if __name__ == "__main__":
    main(sys.argv[1:] or ["threads", "http.server"])
