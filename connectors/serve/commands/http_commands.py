"""`POST /command`: commands in, their answer out, in the form that Accept names.

The body is text, UTF-8: one command, or several (bodies.py). A page of another origin cannot
command through a browser: what browsers say of it, Origin and Sec-Fetch-Site, is compared with the
server's own name.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from connectors.output_formats.answer_forms import MEDIA_TYPES, AnswerForm, answer_pieces
from connectors.serve.answer_writer import AnswerWriter
from connectors.serve.commands.bodies import parsed_text
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.connection import Connection, GoneError
from connectors.serve.http_request import HttpRequest, refuse_left_body
from connectors.serve.refusals import BusyError, RefusedError
from storage_core import InvalidRequestError, ShardlogError
from storage_core.protocol import AUTHORIZATION
from typed_events.answer import Answer, Status
from typed_events.language.commands import Store
from typed_events.refusals import message_of, status_of

# Beside the body: status and message, this one with its characters as in a URL.
STATUS: Final = "Shardlog-Status"
MESSAGE: Final = "Shardlog-Message"
CODES: Final = {
    Status.OK: HTTPStatus.OK,
    Status.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    Status.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Status.CONFLICT: HTTPStatus.CONFLICT,
    Status.BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
    Status.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_BY_MEDIA: Final[dict[str, AnswerForm]] = {
    **{media.partition(";")[0]: form for form, media in MEDIA_TYPES.items()},
    "*/*": "text",
    "text/*": "text",
    "application/*": "json",
    "application/jsonl": "jsonl",
    "application/ndjson": "jsonl",
}
# As a body that is sent without naming one, by curl -d, and by a program that says what it is.
_TEXTS: Final = (
    *("", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream"),
)
_QUOTED: Final = {number: quote(chr(number)) for number in range(128)}
_OK: Final = str(HTTPStatus.OK.value)
_HOW: Final = "a command is sent as the body of a POST, as by curl --data-binary PING http://HOST:PORT/command"


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A request that is one STORE, and the form of its answer."""

    store: Store
    form: AnswerForm


class HttpCommands:
    """Answers `POST /command`. Any thread; a request belongs to that of its connection."""

    def __init__(self, front_end: FrontEnd) -> None:
        """Answer by the event store of a server."""
        self._front_end = front_end

    def answer(
        self, connection: Connection, writer: AnswerWriter, request: HttpRequest, *, closes: bool
    ) -> tuple[int, str]:
        """Answer a request; return the bytes sent, and the status.

        Raises:
            GoneError: The client is not there any more, or its answer broke off.
        """
        form: AnswerForm = "text"
        try:
            form = form_of(request.headers.get("accept", "*/*"))
            self._check(request)
            front_end = self._front_end
            text = _text_of(request.body, front_end.bounds.command_bytes)
            commands = parsed_text(text, front_end.events)
            with front_end.place_for(commands, connection):
                answer = front_end.answered(commands, _authorization(request), connection.is_gone)
                return self._send(writer, answer, form, is_old=request.is_old, closes=closes)
        except GoneError:
            raise
        except ShardlogError as error:
            if writer.has_begun:
                # What was sent is no whole answer, and the client sees that it is cut.
                connection.cut()
                message = f"the answer broke off: {error}"
                raise GoneError(message) from error
            return refuse(writer, error, form, closes=closes)

    def store_of(self, request: HttpRequest) -> StoreRequest | None:
        """Return the STORE that a request is, if the client may; None where it is none alone.

        Raises:
            ShardlogError: It would be refused.
        """
        form = form_of(request.headers.get("accept", "*/*"))
        self._check(request)
        front_end = self._front_end
        text = _text_of(request.body, front_end.bounds.command_bytes)
        store = None if "\n" in text.rstrip() else front_end.events.only_store(text)
        if store is None:
            only, *others = parsed_text(text, front_end.events)
            if others or not isinstance(only.command, Store):
                return None
            store = only.command
        front_end.tokens.check(_authorization(request), "write")
        return StoreRequest(store, form)

    def write_stored(
        self, writer: AnswerWriter, wanted: StoreRequest, answer: Answer, *, closes: bool
    ) -> tuple[int, str]:
        """Write the answer to a STORE; return the bytes written, and the status."""
        if wanted.form == "text" and answer.status is Status.OK:
            # As most are, and a text has nothing of its row.
            headers = {**_headers("text", Status.OK), MESSAGE: _quoted(answer.message)}
            body = b"".join(answer_pieces(answer, "text"))
            return writer.write_whole(HTTPStatus.OK, headers, body, closes=closes), _OK
        return self._send(writer, answer, wanted.form, is_old=False, closes=closes)

    def _check(self, request: HttpRequest) -> None:
        if request.method != "POST":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, _HOW)
        refuse_other_origin(request)
        self._front_end.tokens.check(_authorization(request), "read")
        refuse_left_body(request)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media not in _TEXTS:
            message = f"a command is text/plain, not {media[:60]}; {_HOW}"
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
        if request.query:
            message = f"{_HOW}; nothing of it is in the query"
            raise RefusedError(HTTPStatus.BAD_REQUEST, message)

    def _send(
        self,
        writer: AnswerWriter,
        answer: Answer,
        form: AnswerForm,
        *,
        is_old: bool,
        closes: bool,
    ) -> tuple[int, str]:
        code = CODES[answer.status]
        is_telling = code is not HTTPStatus.OK and form == "arrow"
        form = "json" if is_telling else form
        headers = _headers(form, answer.status) | {MESSAGE: _quoted(answer.message)}
        if code is not HTTPStatus.OK:
            if answer.status is Status.BUSY:
                headers["Retry-After"] = "1"
            body = b"".join(answer_pieces(answer, form))
            return writer.write_whole(code, headers, body, closes=closes), str(code.value)
        with closing(self._front_end.bounded(answer)) as rows:
            pieces = answer_pieces(replace(answer, batches=rows), form)
            sent = writer.write_pieces(
                headers,
                told_at_end(pieces) if form == "arrow" else pieces,
                is_old=is_old,
                closes=closes,
            )
        return sent, str(code.value)


@lru_cache(256)
def form_of(accept: str) -> AnswerForm:
    """Return the form that a client wants most of those that there are.

    Raises:
        RefusedError: It wants none of them.
    """
    wanted: list[tuple[float, AnswerForm]] = []
    for item in accept.split(","):
        media, *parameters = (text.strip().lower() for text in item.split(";"))
        form = _BY_MEDIA.get(media)
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        try:
            quality = float(weight)
        except ValueError:
            quality = 0.0
        if form is not None and quality > 0:
            wanted.append((quality, form))
    if not wanted:
        there_are = ", ".join(media.partition(";")[0] for media in MEDIA_TYPES.values())
        message = f"an answer has no form that Accept names; there are {there_are}"
        raise RefusedError(HTTPStatus.NOT_ACCEPTABLE, message)
    return max(wanted, key=lambda pair: pair[0])[1]


def refuse_other_origin(request: HttpRequest) -> None:
    """Refuse what a browser sends for a page that is not the server's own.

    Raises:
        RefusedError: It is.
    """
    origin = request.headers.get("origin")
    is_other = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if origin is not None:
        is_other |= origin.partition("://")[2] != request.headers.get("host", "")
    if is_other:
        message = "a page of another origin cannot command this server"
        raise RefusedError(HTTPStatus.FORBIDDEN, message)


def _text_of(body: bytes, bytes_max: int) -> str:
    if len(body) > bytes_max:
        message = f"a body of {len(body):,} bytes of commands; {bytes_max:,} is the most"
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the commands are not UTF-8, at byte {error.start}"
        raise InvalidRequestError(message) from error


def _quoted(text: str) -> str:
    """Return what `quote` does, of a text of ASCII in a third of its time."""
    return text.translate(_QUOTED) if text.isascii() else quote(text)


@lru_cache(64)
def _headers(form: AnswerForm, status: Status) -> dict[str, str]:
    return {
        "Content-Type": MEDIA_TYPES[form],
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        STATUS: str(status),
    }


def _authorization(request: HttpRequest) -> str | None:
    return request.headers.get(AUTHORIZATION.lower())


def told_at_end(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of a stream whose last one says itself which error ended it."""
    try:
        yield from pieces
    except ShardlogError:
        return


def refuse(
    writer: AnswerWriter,
    error: ShardlogError,
    form: AnswerForm,
    *,
    closes: bool,
    allowed: str = "POST",
) -> tuple[int, str]:
    """Send an error as the answer to a command; return the bytes sent, and the status."""
    answer = Answer(status_of(error), message_of(error))
    code = CODES[answer.status]
    headers = {}
    if isinstance(error, RefusedError):
        code = error.status
        closes = closes or error.closes
    if code is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="shardlog"'
    elif code is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = allowed
    elif code is HTTPStatus.UPGRADE_REQUIRED:
        headers["Upgrade"] = "websocket"
    elif isinstance(error, BusyError) or answer.status is Status.BUSY:
        headers["Retry-After"] = "1"
    form = "json" if form == "arrow" else form
    body = b"".join(answer_pieces(answer, form))
    headers |= _headers(form, answer.status)
    return writer.write_whole(code, headers, body, closes=closes), str(code.value)
