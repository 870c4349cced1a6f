"""The HTTP server of a worker: a few paths, one short answer a connection.

It runs on a thread of its own, which waits nearly always, and is bounded: so many connections at a
time, so many bytes of a question, so long for the whole of one, whoever reads or writes slowly.
What comes beyond is closed without a word. Only GET and HEAD are answered.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from connectors.monitoring.answers import Answer
from connectors.monitoring.listening import bound_socket
from connectors.settings.operations_settings import join_address

_CONNECTIONS_MAX: Final = 16
_QUESTION_BYTES_MAX: Final = 8192
_QUESTION_WITHIN_S: Final = 5.0
_STOP_WITHIN_S: Final = 5.0
_QUESTION_PARTS: Final = 3


class OperationsServer:
    """Serves what `answer_to` says of a path. Starts when made; `close` ends it."""

    def __init__(
        self,
        listen: str,
        answer_to: Callable[[str], Answer],
        answer_at_once: Callable[[str], Answer | None] = lambda _: None,
        question_within_s: float = _QUESTION_WITHIN_S,
    ) -> None:
        """Take the address, and serve it.

        Args:
            listen: Host and port.
            answer_to: Called with a path; by one thread at a time.
            answer_at_once: Called with a path before that; what it returns does not wait for those
                that asked before. It may not wait for anything.
            question_within_s: How long a connection may take in all.

        Raises:
            UnavailableError: Another process has the address.
            InvalidRequestError: The host is none of this machine's, or the port needs rights.
        """
        self._answer_to = answer_to
        self._answer_at_once = answer_at_once
        self._within_s = question_within_s
        self._socket = bound_socket(listen, "metrics.listen")
        self.host, self.port = self._socket.getsockname()[:2]
        self._open = 0
        self._answerer = ThreadPoolExecutor(1, "shardlog-answers")
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="shardlog-operations", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Host and port, the one that was taken where any was asked for."""
        return join_address(self.host, self.port)

    def close(self) -> None:
        """Stop; connections that are open are cut."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(_STOP_WITHIN_S)
        self._answerer.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, sock=self._socket, limit=_QUESTION_BYTES_MAX
        )
        await self._ending.wait()
        server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= _CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._open += 1
        try:
            # What does not fit, comes too slowly or is broken off has no answer.
            with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(self._within_s):
                    await self._answer(reader, writer)
                    writer.close()
                    await writer.wait_closed()
        finally:
            self._open -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            answer = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            writer.write(_encoded(answer, is_head=False))
            return
        parts = question.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        method = parts[0]
        if len(parts) != _QUESTION_PARTS or not parts[2].startswith("HTTP/1."):
            answer = _refusal(HTTPStatus.BAD_REQUEST)
        elif method not in ("GET", "HEAD"):
            answer = _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            path = parts[1].partition("?")[0]
            answer = await self._answer_of(path)
        writer.write(_encoded(answer, is_head=method == "HEAD"))
        await writer.drain()

    async def _answer_of(self, path: str) -> Answer:
        at_once = self._answer_at_once(path)
        if at_once is not None:
            return at_once
        return await self._loop.run_in_executor(self._answerer, self._answer_to, path)


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(status, f"{status.phrase}\n".encode(), "text/plain; charset=utf-8")


def _encoded(answer: Answer, *, is_head: bool) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if answer.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
    ).encode()
    return head if is_head else head + answer.body
