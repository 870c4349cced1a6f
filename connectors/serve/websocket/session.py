"""What a client of a WebSocket is answered: a command a message, in their order.

AUTH <token>          first, where the server asks for tokens and no header has brought one
SUBSCRIBE …           answered with its number; its messages have that number
UNSUBSCRIBE <number>  ends it
any other command     answered with one message, the JSON that `POST /command` has
"""

import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Final

from wsproto.frame_protocol import CloseReason

from connectors.output_formats.answer_forms import answer_pieces
from connectors.serve.commands.bodies import Parsed, parsed
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.connection import Connection, GoneError
from connectors.serve.refusals import RefusedError
from connectors.serve.websocket.message_socket import MessageSocket
from connectors.serve.websocket.socket_subscription import SocketSubscription
from storage_core import ShardlogError
from storage_core.protocol import bearer
from typed_events.answer import Answer
from typed_events.errors import BusyError, NotFoundError
from typed_events.language.commands import Subscribe
from typed_events.refusals import message_of, status_of

SUBSCRIPTIONS_MAX: Final = 32
_LOOK_EVERY_S: Final = 0.5
_OWN: Final = re.compile(r"\s*(AUTH|UNSUBSCRIBE)\s+(\S+)\s*;?\s*\Z", re.IGNORECASE)
_PING_EVERY_S: Final = 20.0
_UNHEARD_MAX_S: Final = 60.0


class SocketSession:
    """Answers one WebSocket. Of the thread of its connection."""

    def __init__(
        self,
        front_end: FrontEnd,
        connection: Connection,
        authorization: str | None,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Take over a connection whose handshake is done; `authorization` is that of its head."""
        self._front_end = front_end
        self._connection = connection
        connection.ends_by_itself = True
        self._authorization = authorization
        self._is_stopping = is_stopping
        self._clock = front_end.clock
        self._socket = MessageSocket(
            *(connection, front_end.bounds.command_bytes, self._clock),
            partial(front_end.body_room.take, connection),
        )
        self._subscriptions: dict[int, SocketSubscription] = {}
        self._numbered = 0
        self._holding = ExitStack()
        self._has_slot = False

    def serve(self) -> None:
        """Answer until the client or the server ends it; nothing is raised."""
        code, reason = CloseReason.GOING_AWAY, "the server is stopping"
        try:
            with self._holding:
                code, reason = self._answer_all()
        except GoneError:
            self._connection.cut()
        finally:
            for subscription in self._subscriptions.values():
                subscription.close(self._front_end.bounds.send_s)
        if not self._connection.is_cut:
            self._socket.close(code, reason)
            self._connection.cut()

    def _answer_all(self) -> tuple[CloseReason, str]:
        """Answer messages; return why that is the end."""
        bounds = self._front_end.bounds
        asked_s = pinged_s = self._clock.monotonic_s()
        while not self._is_stopping():
            self._forget_over()
            is_idle = not self._subscriptions
            self._connection.waiting_since_s = asked_s if is_idle else None
            text = self._socket.next_text(_LOOK_EVERY_S)
            now_s = self._clock.monotonic_s()
            if text is not None:
                self._connection.end_wait()
                try:
                    self._answer(text)
                    self._front_end.body_room.leave(self._connection)
                except RefusedError as error:
                    self._send(Answer(status_of(error), message_of(error)))
                    return CloseReason.POLICY_VIOLATION, error.message
                asked_s = self._clock.monotonic_s()
            elif is_idle and now_s - asked_s > bounds.idle_s:
                return CloseReason.GOING_AWAY, f"nothing was asked for {bounds.idle_s:g} s"
            elif self._needs_token and now_s - asked_s > bounds.request_s:
                return CloseReason.POLICY_VIOLATION, "this server asks for a token: send AUTH"
            elif now_s - self._socket.heard_s > _UNHEARD_MAX_S:
                message = "the client does not answer pings"
                raise GoneError(message)
            elif now_s - max(self._socket.heard_s, pinged_s) > _PING_EVERY_S:
                self._socket.ping()
                pinged_s = now_s
        return CloseReason.GOING_AWAY, "the server is stopping"

    @property
    def _needs_token(self) -> bool:
        return self._authorization is None and not self._front_end.tokens.is_open

    def _answer(self, text: str) -> None:
        """Answer a message.

        Raises:
            RefusedError: The token is missing or wrong.
        """
        own = _OWN.match(text)
        if own is not None and own[1].upper() == "AUTH":
            self._authorization = bearer(own[2])
            self._check()
            self._send(Answer(message="the token is known"))
            return
        # A token may have been withdrawn.
        self._check()
        try:
            if own is not None:
                answer = self._unsubscribed(own[2])
            else:
                command = parsed(text, self._front_end.events)
                if isinstance(command, Subscribe):
                    self._subscribe(command)
                    return
                self._command(Parsed(1, command))
                return
        except GoneError:
            raise
        except ShardlogError as error:
            answer = Answer(status_of(error), message_of(error))
        self._send(answer)

    def _check(self) -> None:
        self._front_end.tokens.check(self._authorization, "read")

    def _command(self, command: Parsed) -> None:
        front_end = self._front_end
        with front_end.place_for([command], self._connection):
            answer = front_end.answered([command], self._authorization, self._socket.is_gone)
            self._send(answer)

    def _subscribe(self, command: Subscribe) -> None:
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            message = f"a WebSocket has at most {SUBSCRIPTIONS_MAX} subscriptions: end one first"
            raise BusyError(message)
        front_end = self._front_end
        if not self._has_slot:
            self._holding.enter_context(front_end.subscription_slots.taking(self._connection))
            self._has_slot = True
        subscription = front_end.events.subscribe(command)
        self._numbered += 1
        number = self._numbered
        sending = SocketSubscription(
            number,
            subscription,
            (self._connection, self._socket),
            self._clock.monotonic_s() + front_end.bounds.answer_s,
            self._clock,
        )
        sending.start()
        self._subscriptions[number] = sending

    def _unsubscribed(self, text: str) -> Answer:
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - digits
        sending = self._subscriptions.pop(number, None)
        if sending is None:
            message = f"there is no subscription {text[:40]} here"
            raise NotFoundError(message)
        sending.close(self._front_end.bounds.send_s)
        return Answer(message=f"subscription {number} has ended")

    def _forget_over(self) -> None:
        for number in [n for n, each in self._subscriptions.items() if each.is_over]:
            del self._subscriptions[number]

    def _send(self, answer: Answer) -> None:
        with closing(self._front_end.bounded(answer)) as rows:
            self._socket.send_pieces(answer_pieces(replace(answer, batches=rows), "json"))
