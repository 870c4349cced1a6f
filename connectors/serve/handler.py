"""What a request is answered: health, metrics, and the calls of the protocol.

    GET /health/live, /health/ready    without a token
    GET /metrics, /version
    GET /                              the page, without a token
    GET /status                        how the streams stand
    POST /command                      commands over typed events
    GET /subscribe, /ws                their subscriptions, and both over a WebSocket
    GET | POST /v1/<call>, /v1/streams/<stream>/<call>    storage_core/protocol/calls.py

Any thread; a request belongs to that of its connection.
"""

import json
import os
import socket
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

import pyarrow as pa
import typer

from connectors.monitoring.metrics_text import CONTENT_TYPE, encode_families
from connectors.serve.answer_slots import AnswerSlots
from connectors.serve.answer_writer import AnswerWriter, Piece, Sink
from connectors.serve.commands.event_commands import EventCommands
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.commands.http_commands import HttpCommands, StoreRequest
from connectors.serve.commands.http_subscriptions import HttpSubscriptions
from connectors.serve.commands.line_commands import LineCommands
from connectors.serve.commit_watch import CommitWatch
from connectors.serve.connection import Connection, GoneError
from connectors.serve.figures import Figures
from connectors.serve.http_request import HttpRequest
from connectors.serve.open_streams import OpenStreams
from connectors.serve.page.page import page
from connectors.serve.refusals import (
    BusyError,
    RefusedError,
    client_error,
    too_many_connections,
)
from connectors.serve.settings import Bounds, ServeSettings
from connectors.serve.staged_writes import StagedWrites
from connectors.serve.status.http_status import HttpStatus
from connectors.serve.tokens import Tokens
from connectors.serve.websocket.http_websocket import HttpWebSocket
from connectors.settings.operations_settings import is_loopback, split_address
from storage_core import (
    Clock,
    InvalidRequestError,
    ShardlogError,
    StreamReader,
    UnavailableError,
    UnsupportedFormatError,
    list_streams,
)
from storage_core.answering import ReadTooLargeError, RowAnswer, result_of, rows_of
from storage_core.protocol import (
    AUTHORIZATION,
    COMPRESSION,
    COMPRESSIONS,
    MEDIA_JSON,
    MEDIA_ROWS,
    PROTOCOL,
    PROTOCOL_NUMBER,
    ROOT,
    VERSION,
    Call,
    Compression,
    call_named,
    decode_body,
    decode_query,
    encode_error,
    encode_result,
    encode_rows,
    status_of,
)
from typed_events.answer import Answer

_JSON: Final = {"Content-Type": MEDIA_JSON, "Cache-Control": "no-store"}
_PATHS: Final = (
    *("/health/live", "/health/ready", "/metrics", "/version"),
    *("/", "/status", "/command", "/subscribe", "/ws"),
    *("/v1/<call>", "/v1/streams/<stream>/<call>"),
)
_OF_STREAM: Final = 4
_Front = HttpCommands | HttpSubscriptions | HttpWebSocket | HttpStatus


class Handler:
    """Answers requests."""

    def __init__(
        self, settings: ServeSettings, version: str, clock: Clock, *, is_open_to_all: bool
    ) -> None:
        """Answer for a root.

        Args:
            settings: The server's.
            version: Of shardlog.
            clock: Time.
            is_open_to_all: Whether other machines can reach the address.
        """
        self._settings = settings
        self._bounds: Bounds = settings.bounds
        self._version = version
        self._clock = clock
        self._is_open_to_all = is_open_to_all
        self._tokens = Tokens(
            settings.read_tokens, settings.write_tokens, clock, is_writable=settings.is_writable
        )
        self._started_s = clock.monotonic_s()
        self.streams = OpenStreams(settings.root, settings.bounds, clock)
        self.slots = AnswerSlots(settings.bounds.answers, settings.bounds, clock)
        self.watch = CommitWatch(clock)
        self.figures = Figures(version, settings.root)
        self.writes = StagedWrites(settings.root, settings.bounds, clock, self.figures)
        self.events = EventCommands(settings.root, clock, self.figures, settings.remembered)
        self.subscription_slots = AnswerSlots(
            settings.bounds.subscriptions, settings.bounds, clock, "subscriptions are open"
        )
        front_end = FrontEnd(
            *(self.events, self._tokens, self.slots, self.subscription_slots),
            *(settings.bounds, clock, self.figures),
        )
        self.stopping = threading.Event()
        self.lines = LineCommands(front_end)
        self.status = HttpStatus(settings.root, self.streams, front_end, self._identity)
        self._commands = HttpCommands(front_end)
        self._fronts: Mapping[tuple[str, ...], _Front] = {
            ("command",): self._commands,
            ("subscribe",): HttpSubscriptions(front_end, self.stopping.is_set),
            ("ws",): HttpWebSocket(front_end, self.stopping.is_set),
            ("status",): self.status,
        }
        self.own_headers: Mapping[str, str] = {
            "Server": "shardlog",
            PROTOCOL: str(PROTOCOL_NUMBER),
            VERSION: version,
            ROOT: self.streams.root_id,
        }

    def handle(self, connection: Connection, request: HttpRequest) -> bool:
        """Answer a request; return whether another may follow on the connection.

        Raises:
            GoneError: The client is not there any more.
        """
        begun_s = self._clock.monotonic_s()
        keeps = request.keeps_alive and not self.stopping.is_set() and not connection.is_reserved
        is_head = request.method == "HEAD"
        writer = AnswerWriter(connection, self.own_headers, is_head=is_head)
        label, status, sent = "none", "cut", 0
        try:
            self._check_host(request)
            front = self._fronts.get(request.segments)
            plain = None if front is not None else self._plain(request)
            if front is not None:
                self._check_connection(connection)
                label = request.segments[0]
                sent, status = front.answer(connection, writer, request, closes=not keeps)
            elif plain is None:
                self._check_connection(connection)
                call, stream = self._called(request)
                label = call.name
                sent, status = self._answer(connection, writer, request, call, stream)
            else:
                label = "/".join(request.segments)
                code, headers, body = plain
                status = str(code.value)
                sent = writer.write_whole(code, headers, body, closes=not keeps)
        except GoneError:
            raise
        except ShardlogError as error:
            status, sent = self.refuse(writer, error, closes=not keeps)
        except Exception as error:  # noqa: BLE001 - the outermost: a request never ends the server
            keeps = False
            failure = _failure_of(error)
            typer.echo(f"shardlog: {failure}\n{traceback.format_exc()}", err=True)
            if not writer.has_begun:
                status, sent = self.refuse(writer, failure, closes=True)
        finally:
            self.figures.answered(label, status, self._clock.monotonic_s() - begun_s, sent)
            if status == "cut":
                self.figures.add("answers_cut")
        return connection.leave_rows() and keeps

    def takes_body(self, request: HttpRequest) -> bool:
        """Tell whether a request is read to its end: only of those who may ask at all."""
        try:
            self._check_host(request)
            self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
        except RefusedError:
            return False
        return True

    def refuse(
        self, writer: AnswerWriter, error: ShardlogError, *, closes: bool
    ) -> tuple[str, int]:
        """Send an error as an answer; return its status, and the bytes sent."""
        error = client_error(error, self._bounds)
        status = error.status if isinstance(error, RefusedError) else status_of(error)
        headers = dict(_JSON)
        if status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="shardlog"'
        elif status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD, POST"
        elif isinstance(error, BusyError):
            headers["Retry-After"] = "1"
        body = _encoded(encode_error(error))
        return str(status.value), writer.write_whole(status, headers, body, closes=closes)

    # --- of a thread that has many connections -----------------------------------------------

    def store_of(self, request: HttpRequest) -> StoreRequest | None:
        """Return the STORE that a request is; None where it is more or less than that.

        Raises:
            ShardlogError: It would be refused.
        """
        if request.segments != ("command",) or not request.keeps_alive or self.stopping.is_set():
            return None
        self._check_host(request)
        return self._commands.store_of(request)

    def write_stored(
        self, sink: Sink, wanted: StoreRequest, answer: Answer, *, closes: bool
    ) -> tuple[int, str]:
        """Write the answer to a STORE; return its bytes and status."""
        writer = AnswerWriter(sink, self.own_headers)
        return self._commands.write_stored(writer, wanted, answer, closes=closes)

    # --- what is asked -----------------------------------------------------------------------

    def _check_host(self, request: HttpRequest) -> None:
        """Refuse a page of a browser that has given this machine's address its own name."""
        host = request.headers.get("host")
        if host is None or self._is_open_to_all or not self._tokens.is_open:
            return
        if not _is_this_machine(host):
            message = "this server answers to this machine alone: Host is not its name"
            raise RefusedError(HTTPStatus.FORBIDDEN, message)

    def _check_connection(self, connection: Connection) -> None:
        """Refuse a call on a connection that is kept for health and metrics."""
        if connection.is_reserved:
            raise too_many_connections(self._bounds)

    def _plain(self, request: HttpRequest) -> tuple[HTTPStatus, Mapping[str, str], bytes] | None:
        """Return the answer of a path that is no call."""
        match request.segments:
            case ("health", "live"):
                return HTTPStatus.OK, _JSON, _encoded({"healthy": True})
            case ("health", "ready"):
                return self._ready()
            case ("metrics",):
                self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
                body = encode_families(self.figures.families())
                return HTTPStatus.OK, {"Content-Type": CONTENT_TYPE}, body
            case ("version",):
                return HTTPStatus.OK, _JSON, _encoded({"version": self._version})
            case ("",) if self._settings.has_page and request.method != "POST":
                return HTTPStatus.OK, page().headers, page().body
            case ("v1", *_):
                return None
        message = f"there is no such path; there are {', '.join(_PATHS)}"
        raise RefusedError(HTTPStatus.NOT_FOUND, message)

    def _ready(self) -> tuple[HTTPStatus, Mapping[str, str], bytes]:
        reason = "the server is stopping" if self.stopping.is_set() else None
        if reason is None:
            try:
                self.streams.check_root({})
            except ShardlogError as error:
                reason = str(error)
        details = {
            "healthy": reason is None,
            **({"reason": reason} if reason else {}),
            **({"events_owner": self.events.owner} if self.events.owner else {}),
        }
        status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
        return status, _JSON, _encoded(details)

    def _called(self, request: HttpRequest) -> tuple[Call, str]:
        """Return the call of a path, and its stream, once the client may make it."""
        segments = request.segments
        of_stream = len(segments) == _OF_STREAM and segments[1] == "streams"
        if not of_stream and len(segments) != 2:  # noqa: PLR2004 - /v1/<call>
            message = f"there is no such path; there are {', '.join(_PATHS)}"
            raise RefusedError(HTTPStatus.NOT_FOUND, message)
        if request.method == "HEAD":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "a call takes GET or POST")
        try:
            call = call_named(segments[-1], of_stream=of_stream)
        except InvalidRequestError as error:
            # Whoever may not read is not told either.
            self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
            raise RefusedError(HTTPStatus.NOT_FOUND, error.message) from error
        self._tokens.check(request.headers.get(AUTHORIZATION.lower()), call.right)
        if call.right == "write" and request.method != "POST":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "this call takes POST")
        number = request.headers.get(PROTOCOL.lower(), str(PROTOCOL_NUMBER))
        if number != str(PROTOCOL_NUMBER):
            message = (
                f"this server speaks protocol {PROTOCOL_NUMBER}, not {number[:20]}: install the "
                "same version on both sides"
            )
            raise UnsupportedFormatError(message)
        self.streams.check_root(request.headers)
        return call, segments[2] if of_stream else ""

    # --- answers -----------------------------------------------------------------------------

    def _answer(
        self,
        connection: Connection,
        writer: AnswerWriter,
        request: HttpRequest,
        call: Call,
        stream: str,
    ) -> tuple[int, str]:
        values = _values_of(call, request)
        closes = not request.keeps_alive or self.stopping.is_set()
        ok = str(HTTPStatus.OK.value)
        result: object
        if call.scope == "server":
            body = encode_result(call, self._of_server(call))
            return writer.write_whole(HTTPStatus.OK, _JSON, body, closes=closes), ok
        if call.right == "write":
            result = self.writes.result(connection, request, call, stream, values)
            return writer.write_whole(
                HTTPStatus.OK, _JSON, encode_result(call, result), closes=closes
            ), ok
        archived = values.pop("archived", None)
        if call.answer == "json":
            anew = call.name == "facts"
            with self.streams.using(stream, archived, request.headers, anew=anew) as reader:
                if call.name == "wait":
                    result = self.watch.wait(
                        reader,
                        **values,
                        is_ended=lambda: self.stopping.is_set() or connection.is_gone(),
                    )
                else:
                    result = result_of(reader, call, values)
                body = encode_result(call, result)
            return writer.write_whole(HTTPStatus.OK, _JSON, body, closes=closes), ok
        compression = _compression_of(request)
        with (
            self.slots.taking(connection),
            self.streams.using(stream, archived, request.headers) as reader,
            self._held(reader, call, values) as rows,
        ):
            outcome = _Outcome()
            sent = writer.write_pieces(
                {"Content-Type": MEDIA_ROWS},
                self._pieces(rows, compression, outcome),
                is_old=request.is_old,
                closes=closes,
            )
        self.figures.add("rows", outcome.rows)
        return sent, outcome.status

    @contextmanager
    def _held(
        self, reader: StreamReader, call: Call, values: Mapping[str, Any]
    ) -> Iterator[RowAnswer]:
        """Have the rows of a call; those that are many are gathered by few calls at once."""
        with ExitStack() as holding:
            try:
                rows = rows_of(reader, call, values, self._bounds.small_bytes)
                holding.enter_context(self.slots.holding(rows.bytes_held))
            except ReadTooLargeError:
                keep = holding.enter_context(self.slots.reserving())
                rows = rows_of(reader, call, values)
                keep(rows.bytes_held)
            yield rows

    def _identity(self) -> Mapping[str, object]:
        running_s = self._clock.monotonic_s() - self._started_s
        return {"version": self._version, "uptime_s": round(running_s, 3)}

    def _of_server(self, call: Call) -> object:
        if call.name == "streams":
            return list_streams(self._settings.root)
        return {
            "version": self._version,
            "protocol": PROTOCOL_NUMBER,
            "root": str(self._settings.root),
            "root_id": self.streams.root_id,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "running_s": round(self._clock.monotonic_s() - self._started_s, 3),
        }

    def _pieces(
        self,
        rows: RowAnswer,
        compression: Compression | None,
        outcome: "_Outcome",
    ) -> Iterator[Piece]:
        batches = self._bounded(rows.batches, outcome)
        pieces = encode_rows(rows.schema, batches, rows.result, compression)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                if end.value is not None:
                    outcome.status, outcome.rows = type(end.value).__name__, 0
                return
            yield piece if isinstance(piece, bytes) else memoryview(piece)

    def _bounded(
        self, batches: Iterator[pa.RecordBatch], outcome: "_Outcome"
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches as far as an answer may go; beyond, it ends with an error."""
        until_s = self._clock.monotonic_s() + self._bounds.answer_s
        for batch in _with_client_errors(batches, self._bounds):
            outcome.rows += batch.num_rows
            if self._bounds.rows and outcome.rows > self._bounds.rows:
                message = f"the answer has more than {self._bounds.rows} rows; ask for fewer"
                raise InvalidRequestError(message)
            if self._clock.monotonic_s() > until_s:
                message = (
                    f"the answer took more than {self._bounds.answer_s:g} s; ask for a range at a "
                    "time"
                )
                raise UnavailableError(message)
            yield batch


@lru_cache(256)
def _is_this_machine(host: str) -> bool:
    """Tell whether a Host names this machine, with a port or without."""
    try:
        name, _ = split_address(host if host.rpartition(":")[2].isdecimal() else f"{host}:0")
    except ValueError:
        return False
    return is_loopback(name)


def _encoded(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _with_client_errors(
    batches: Iterator[pa.RecordBatch], bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except ShardlogError as error:
        raise client_error(error, bounds) from error.__cause__


def _failure_of(error: Exception) -> ShardlogError:
    if isinstance(error, MemoryError | pa.ArrowMemoryError):
        message = "the server has not enough memory for this answer; ask for less, or use `scan`"
        return UnavailableError(message)
    return ShardlogError(f"the server failed: {type(error).__name__}; its standard error has more")


class _Outcome:
    """How an answer with rows went, up to now."""

    def __init__(self) -> None:
        self.rows = 0
        self.status = str(HTTPStatus.OK.value)


def _values_of(call: Call, request: HttpRequest) -> dict[str, Any]:
    parameters = call.all_parameters
    if call.takes_rows:
        return decode_query(parameters, request.query)
    if request.method == "GET":
        if request.body:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "a GET has no body; use POST")
        return decode_query(parameters, request.query)
    if request.query:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the parameters of a POST are in its body")
    return decode_body(parameters, request.body)


def _compression_of(request: HttpRequest) -> Compression | None:
    match request.headers.get(COMPRESSION.lower(), "none"):
        case "none":
            return None
        case "lz4":
            return "lz4"
        case "zstd":
            return "zstd"
        case text:
            message = f"{COMPRESSION}: {text[:20]!r} is none of {', '.join(COMPRESSIONS)}"
            raise RefusedError(HTTPStatus.BAD_REQUEST, message)
