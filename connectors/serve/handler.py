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
import threading
import traceback
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus

import pyarrow as pa
import typer

from connectors.monitoring.metrics_text import CONTENT_TYPE, encode_families
from connectors.serve.answer_slots import AnswerSlots
from connectors.serve.answer_writer import AnswerWriter, Sink, header_lines
from connectors.serve.calls.body_room import BodyRoom
from connectors.serve.calls.call_answers import JSON, CallAnswers, no_such_path
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
    ShardlogError,
    UnavailableError,
)
from storage_core.protocol import (
    AUTHORIZATION,
    PROTOCOL,
    PROTOCOL_NUMBER,
    ROOT,
    VERSION,
    encode_error,
    status_of,
)
from typed_events.answer import Answer

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
        self.body_room = BodyRoom(settings.bounds, clock)
        self.watch = CommitWatch(clock)
        self.figures = Figures(version, settings.root)
        self.writes = StagedWrites(settings.root, settings.bounds, clock, self.figures)
        self.events = EventCommands(settings.root, clock, self.figures, settings.remembered)
        self.subscription_slots = AnswerSlots(
            settings.bounds.subscriptions, settings.bounds, clock, "subscriptions are open"
        )
        front_end = FrontEnd(
            *(self.events, self._tokens, self.slots, self.subscription_slots),
            *(settings.bounds, clock, self.figures, self.body_room),
        )
        self.stopping = threading.Event()
        self.lines = LineCommands(front_end)
        self.status = HttpStatus(settings.root, self.streams, front_end, self._identity)
        self._calls = CallAnswers(
            settings,
            version,
            clock,
            tokens=self._tokens,
            streams=self.streams,
            slots=self.slots,
            watch=self.watch,
            figures=self.figures,
            writes=self.writes,
            stopping=self.stopping,
        )
        self._commands = HttpCommands(front_end)
        self._fronts: Mapping[tuple[str, ...], _Front] = {
            ("command",): self._commands,
            ("subscribe",): HttpSubscriptions(front_end, self.stopping.is_set),
            ("ws",): HttpWebSocket(front_end, self.stopping.is_set),
            ("status",): self.status,
        }
        self.own_headers = header_lines(
            {
                "Server": "shardlog",
                PROTOCOL: str(PROTOCOL_NUMBER),
                VERSION: version,
                ROOT: self.streams.root_id,
            }
        )

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
                call, stream = self._calls.called(request)
                label = call.name
                sent, status = self._calls.answer(connection, writer, request, call, stream)
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

    def takes_body(self, connection: Connection, request: HttpRequest) -> bool:
        """Tell whether a request is read to its end: of those who may ask, while there is room."""
        try:
            self._check_host(request)
            self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
        except RefusedError:
            return False
        size = request.body_bytes
        # One that is too large is refused by its size.
        return size > self._bounds.body_bytes or self.body_room.take(connection, size)

    def refuse(
        self, writer: AnswerWriter, error: ShardlogError, *, closes: bool
    ) -> tuple[str, int]:
        """Send an error as an answer; return its status, and the bytes sent."""
        error = client_error(error, self._bounds)
        status = error.status if isinstance(error, RefusedError) else status_of(error)
        headers = dict(JSON)
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
                return HTTPStatus.OK, JSON, _encoded({"healthy": True})
            case ("health", "ready"):
                return self._ready()
            case ("metrics",):
                self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
                body = encode_families(self.figures.families())
                return HTTPStatus.OK, {"Content-Type": CONTENT_TYPE}, body
            case ("version",):
                return HTTPStatus.OK, JSON, _encoded({"version": self._version})
            case ("",) if self._settings.has_page and request.method != "POST":
                return HTTPStatus.OK, page().headers, page().body
            case ("v1", *_):
                return None
        raise no_such_path()

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
        return status, JSON, _encoded(details)

    def _identity(self) -> Mapping[str, object]:
        running_s = self._clock.monotonic_s() - self._started_s
        return {"version": self._version, "uptime_s": round(running_s, 3)}


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


def _failure_of(error: Exception) -> ShardlogError:
    if isinstance(error, MemoryError | pa.ArrowMemoryError):
        message = "the server has not enough memory for this answer; ask for less, or use `scan`"
        return UnavailableError(message)
    return ShardlogError(f"the server failed: {type(error).__name__}; its standard error has more")
