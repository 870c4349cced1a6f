"""What a call of the protocol is answered: `/v1/<call>`, `/v1/streams/<stream>/<call>`.

Which call it is, and whether the client may make it (`called`); then its answer (`answer`), as JSON
or as rows. Any thread; a request belongs to that of its connection.
"""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any, Final

import pyarrow as pa

from connectors.serve.answer_slots import AnswerSlots
from connectors.serve.answer_writer import AnswerWriter, Piece
from connectors.serve.commit_watch import CommitWatch
from connectors.serve.connection import Connection
from connectors.serve.figures import Figures
from connectors.serve.http_request import HttpRequest, refuse_left_body
from connectors.serve.open_streams import OpenStreams
from connectors.serve.refusals import RefusedError, client_error
from connectors.serve.settings import Bounds, ServeSettings
from connectors.serve.staged_writes import StagedWrites
from connectors.serve.tokens import Tokens
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
    Call,
    Compression,
    call_named,
    decode_body,
    decode_query,
    encode_result,
    encode_rows,
)

JSON: Final = {"Content-Type": MEDIA_JSON, "Cache-Control": "no-store"}
_PATHS: Final = (
    *("/health/live", "/health/ready", "/metrics", "/version"),
    *("/", "/status", "/command", "/subscribe", "/ws"),
    *("/v1/<call>", "/v1/streams/<stream>/<call>"),
)
_OF_STREAM: Final = 4


def no_such_path() -> RefusedError:
    """Return what is said of a path that is none."""
    message = f"there is no such path; there are {', '.join(_PATHS)}"
    return RefusedError(HTTPStatus.NOT_FOUND, message)


class CallAnswers:
    """Answers calls over the streams of a root."""

    def __init__(  # noqa: PLR0913 - what a server has
        self,
        settings: ServeSettings,
        version: str,
        clock: Clock,
        *,
        tokens: Tokens,
        streams: OpenStreams,
        slots: AnswerSlots,
        watch: CommitWatch,
        figures: Figures,
        writes: StagedWrites,
        stopping: threading.Event,
    ) -> None:
        """Answer by what a server has."""
        self._settings = settings
        self._bounds: Bounds = settings.bounds
        self._version = version
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._tokens = tokens
        self._streams = streams
        self._slots = slots
        self._watch = watch
        self._figures = figures
        self._writes = writes
        self._stopping = stopping

    def called(self, request: HttpRequest) -> tuple[Call, str]:
        """Return the call of a path, and its stream, once the client may make it.

        Raises:
            ShardlogError: It may not, or the path is none of a call.
        """
        segments = request.segments
        of_stream = len(segments) == _OF_STREAM and segments[1] == "streams"
        if not of_stream and len(segments) != 2:  # noqa: PLR2004 - /v1/<call>
            raise no_such_path()
        if request.method == "HEAD":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "a call takes GET or POST")
        try:
            call = call_named(segments[-1], of_stream=of_stream)
        except InvalidRequestError as error:
            # Whoever may not read is not told either.
            self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
            raise RefusedError(HTTPStatus.NOT_FOUND, error.message) from error
        self._tokens.check(request.headers.get(AUTHORIZATION.lower()), call.right)
        refuse_left_body(request)
        if call.right == "write" and request.method != "POST":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "this call takes POST")
        number = request.headers.get(PROTOCOL.lower(), str(PROTOCOL_NUMBER))
        if number != str(PROTOCOL_NUMBER):
            message = (
                f"this server speaks protocol {PROTOCOL_NUMBER}, not {number[:20]}: install the "
                "same version on both sides"
            )
            raise UnsupportedFormatError(message)
        self._streams.check_root(request.headers)
        return call, segments[2] if of_stream else ""

    def answer(
        self,
        connection: Connection,
        writer: AnswerWriter,
        request: HttpRequest,
        call: Call,
        stream: str,
    ) -> tuple[int, str]:
        """Answer a call that the client may make; return the bytes sent, and the status.

        Raises:
            GoneError: The client is not there any more.
            ShardlogError: It is refused; nothing was sent.
        """
        values = _values_of(call, request)
        closes = not request.keeps_alive or self._stopping.is_set()
        ok = str(HTTPStatus.OK.value)
        result: object
        if call.scope == "server":
            body = encode_result(call, self._of_server(call))
            return writer.write_whole(HTTPStatus.OK, JSON, body, closes=closes), ok
        if call.right == "write":
            result = self._writes.result(connection, request, call, stream, values)
            return writer.write_whole(
                HTTPStatus.OK, JSON, encode_result(call, result), closes=closes
            ), ok
        archived = values.pop("archived", None)
        if call.answer == "json":
            anew = call.name == "facts"
            with self._streams.using(stream, archived, request.headers, anew=anew) as reader:
                if call.name == "wait":
                    result = self._watch.wait(
                        reader,
                        **values,
                        is_ended=lambda: self._stopping.is_set() or connection.is_gone(),
                    )
                else:
                    result = result_of(reader, call, values)
                body = encode_result(call, result)
            return writer.write_whole(HTTPStatus.OK, JSON, body, closes=closes), ok
        compression = _compression_of(request)
        with (
            self._slots.taking(connection),
            self._streams.using(stream, archived, request.headers) as reader,
            self._held(reader, call, values) as rows,
        ):
            outcome = _Outcome()
            sent = writer.write_pieces(
                {"Content-Type": MEDIA_ROWS},
                self._pieces(rows, compression, outcome),
                is_old=request.is_old,
                closes=closes,
            )
        self._figures.add("rows", outcome.rows)
        return sent, outcome.status

    @contextmanager
    def _held(
        self, reader: StreamReader, call: Call, values: Mapping[str, Any]
    ) -> Iterator[RowAnswer]:
        """Have the rows of a call; those that are many are gathered by few calls at once."""
        with ExitStack() as holding:
            try:
                rows = rows_of(reader, call, values, self._bounds.small_bytes)
                holding.enter_context(self._slots.holding(rows.bytes_held))
            except ReadTooLargeError:
                keep = holding.enter_context(self._slots.reserving())
                rows = rows_of(reader, call, values)
                keep(rows.bytes_held)
            yield rows

    def _of_server(self, call: Call) -> object:
        if call.name == "streams":
            return list_streams(self._settings.root)
        return {
            "version": self._version,
            "protocol": PROTOCOL_NUMBER,
            "root": str(self._settings.root),
            "root_id": self._streams.root_id,
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


def _with_client_errors(
    batches: Iterator[pa.RecordBatch], bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except ShardlogError as error:
        raise client_error(error, bounds) from error.__cause__


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
