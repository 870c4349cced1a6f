"""`GET /subscribe?command=SUBSCRIBE …`: the frames of a subscription as server-sent events.

    id: order/0:42                   the checkpoint behind the row
    event: row                       row, checkpoint, caught_up, heartbeat; failed is the last one
    data: {"context_id": …}

A browser that reconnects sends the last `id` as Last-Event-ID, and goes on there. Whoever accepts
another form is answered with the rows alone. An answer ends once it has taken as long as any may,
and once the server is to stop.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import pyarrow as pa

from connectors.output_formats.answer_forms import MEDIA_TYPES, answer_pieces
from connectors.output_formats.json_text import json_text
from connectors.serve.answer_writer import AnswerWriter, chunk_behind
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.commands.http_commands import (
    form_of,
    refuse,
    refuse_other_origin,
    told_at_end,
)
from connectors.serve.commands.live_sender import LiveSender, LiveSubscriber
from connectors.serve.connection import Connection, GoneError
from connectors.serve.http_request import HttpRequest
from connectors.serve.refusals import RefusedError
from storage_core import InvalidRequestError, ShardlogError
from storage_core.protocol import AUTHORIZATION
from typed_events.answer import Answer
from typed_events.language.commands import Subscribe
from typed_events.refusals import message_of, status_of

if TYPE_CHECKING:
    from typed_events.subscriptions.frames import Frame
    from typed_events.subscriptions.subscription import Subscription

_EVENTS: Final = "text/event-stream"
_LAST_SEEN: Final = "last-event-id"
_LOOK_EVERY_S: Final = 1.0
_SENT_AT_ONCE: Final = 65_536
_HOW: Final = "a subscription is GET /subscribe?command=SUBSCRIBE…, its command as in a URL"


class HttpSubscriptions:
    """Answers `GET /subscribe`. Any thread; a request belongs to that of its connection."""

    def __init__(self, front_end: FrontEnd, is_stopping: Callable[[], bool]) -> None:
        """Answer by the event store of a server, until that is to stop."""
        self._front_end = front_end
        self._is_stopping = is_stopping
        self.live_sender = LiveSender()

    def answer(
        self, connection: Connection, writer: AnswerWriter, request: HttpRequest, *, closes: bool
    ) -> tuple[int, str]:
        """Answer a request; return the bytes sent, and the status.

        Raises:
            GoneError: The client is not there any more, or its answer broke off.
        """
        try:
            return self._answer(connection, writer, request, closes=closes)
        except GoneError:
            raise
        except ShardlogError as error:
            if writer.has_begun:
                # What was sent is no whole answer, and the client sees that it is cut.
                connection.cut()
                message = f"the subscription broke off: {error}"
                raise GoneError(message) from error
            return refuse(writer, error, "json", closes=closes, allowed="GET")

    def _answer(
        self, connection: Connection, writer: AnswerWriter, request: HttpRequest, *, closes: bool
    ) -> tuple[int, str]:
        command = self._command(request)
        accepts = request.headers.get("accept", "*/*")
        is_framed = _EVENTS in accepts or "*/*" in accepts
        form = "jsonl" if is_framed else form_of(accepts)
        front_end = self._front_end
        with (
            front_end.subscription_slots.taking(connection),
            closing(front_end.events.subscribe(command)) as subscription,
        ):
            is_over = self._is_over(connection)
            subscriber = LiveSubscriber(subscription, connection, _made_for(request))
            if is_framed:
                is_alone = connection.is_encrypted
                tell = None if is_alone else partial(self._tell, subscriber, connection, is_over)
                pieces = _framed(subscription, is_over, tell)
            else:
                rows = _rows(subscription, is_over)
                pieces = answer_pieces(Answer(schema=subscription.schema, batches=rows), form)
            headers = {
                "Content-Type": _EVENTS if is_framed else MEDIA_TYPES[form],
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
                "X-Content-Type-Options": "nosniff",
            }
            sent = writer.write_pieces(
                headers,
                told_at_end(pieces) if form == "arrow" else pieces,
                is_old=request.is_old,
                closes=closes,
                flushed_at=0,
            )
        return sent + subscriber.sent_bytes, str(HTTPStatus.OK.value)

    def _tell(
        self, subscriber: LiveSubscriber, connection: Connection, is_over: Callable[[], bool]
    ) -> bool:
        """Have what is told sent by the thread for all, for as long as it can be, if it can."""
        is_told = self.live_sender.tell(subscriber, is_over)
        rest, subscriber.rest = subscriber.rest, b""
        if rest:
            connection.send([rest])
        return is_told

    def _command(self, request: HttpRequest) -> Subscribe:
        """Return the command of a request, once the client may give it."""
        if request.method != "GET":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, _HOW)
        refuse_other_origin(request)
        front_end = self._front_end
        front_end.tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
        try:
            named = parse_qsl(request.query, strict_parsing=bool(request.query), errors="strict")
        except ValueError as error:
            message = f"the query string cannot be read: {error}; {_HOW}"
            raise InvalidRequestError(message) from error
        if len(named) != 1 or named[0][0] != "command":
            raise InvalidRequestError(_HOW)
        command = front_end.events.parse(named[0][1])
        if not isinstance(command, Subscribe):
            message = "GET /subscribe takes SUBSCRIBE alone; other commands go to POST /command"
            raise InvalidRequestError(message)
        seen = request.headers.get(_LAST_SEEN)
        return command if not seen else replace(command, start=seen)

    def _is_over(self, connection: Connection) -> Callable[[], bool]:
        clock = self._front_end.clock
        until_s = clock.monotonic_s() + self._front_end.bounds.answer_s
        checked_s = 0.0

        def is_over() -> bool:
            nonlocal checked_s
            now_s = clock.monotonic_s()
            # Not behind each event: with many subscribers that would be what takes longest.
            if now_s >= checked_s + _LOOK_EVERY_S / 2:
                checked_s = now_s
                if connection.is_gone():
                    message = "the subscriber has gone away"
                    raise GoneError(message)
            return self._is_stopping() or now_s >= until_s

        return is_over


def _made_for(request: HttpRequest) -> "Callable[[Sequence[Frame]], bytes]":
    """Return what makes frames a piece of the answer to a request."""
    from connectors.serve.commands.frame_texts import told_bytes  # noqa: PLC0415 - see there

    framed = partial(chunk_behind, is_old=request.is_old)
    form = "old" if request.is_old else "chunked"
    return lambda frames: told_bytes(frames, framed, form)


def _framed(
    subscription: "Subscription",
    is_over: Callable[[], bool],
    tell: Callable[[], bool] | None,
) -> Iterator[bytes]:
    """Yield server-sent events, those that are there at once together.

    Args:
        subscription: Tells them.
        is_over: Whether no more are to come.
        tell: Has them sent by another thread as long as nothing is read from the log; returns
            whether it was tried. None where that cannot be.
    """
    from connectors.serve.commands.frame_texts import text_of  # noqa: PLC0415 - see there

    # The head goes out at once, however long there is nothing to tell.
    yield b": shardlog\n\n"
    try:
        while not is_over():
            if tell is not None and subscription.is_following and tell():
                continue
            frame = subscription.poll(_LOOK_EVERY_S)
            texts: list[str] = []
            size = 0
            while frame is not None:
                texts.append(text_of(frame))
                size += len(texts[-1])
                frame = subscription.poll(0) if size < _SENT_AT_ONCE else None
            if texts:
                yield "".join(texts).encode()
    except GoneError:
        raise
    except ShardlogError as error:
        said = {"status": str(status_of(error)), "message": message_of(error)}
        yield f"event: failed\ndata: {json_text(said)}\n\n".encode()


def _rows(subscription: "Subscription", is_over: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    from typed_events.subscriptions.frames import Rows  # noqa: PLC0415 - as above
    from typed_events.subscriptions.subscribed_batches import conformed  # noqa: PLC0415

    while not is_over():
        frame = subscription.poll(_LOOK_EVERY_S)
        if isinstance(frame, Rows):
            yield conformed(frame.batch, subscription.schema)
