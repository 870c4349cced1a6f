"""Messages of text over a connection that has become a WebSocket.

One thread takes messages; any may send. What is sent and what is received goes through one lock,
since an encrypted socket is no two threads' at once. A client that takes too little holds up who
sends to it, for as long as any answer may, and is then cut: nothing waits in memory for it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Final

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

from connectors.serve.connection import Connection, GoneError
from connectors.serve.refusals import no_room
from storage_core import Clock, ShardlogError

_SENT_AT_ONCE: Final = 65_536
_CLOSED_WITHIN_S: Final = 2.0
# What a close frame has room for.
_REASON_BYTES_MAX: Final = 120


class ClosedByClientError(GoneError):
    """The client has closed the WebSocket, or what it sent closed it."""


class MessageSocket:
    """A WebSocket with a client behind it.

    Attributes:
        heard_s: When something came from the client last.
    """

    def __init__(
        self, connection: Connection, bytes_max: int, clock: Clock, has_room: Callable[[int], bool]
    ) -> None:
        """Take over a connection whose handshake is done.

        Args:
            connection: The connection.
            bytes_max: The most that a message has.
            clock: Time.
            has_room: Tells whether there is room for a message of so many bytes.
        """
        self._connection = connection
        self._bytes_max = bytes_max
        self._clock = clock
        self._has_room = has_room
        self._frames = Frames(ConnectionType.SERVER)
        self._lock = threading.RLock()
        self._texts: list[str] = []
        self._part: list[str] = []
        self._part_bytes = 0
        self.heard_s = clock.monotonic_s()

    def next_text(self, wait_s: float) -> str | None:
        """Return the next message; None where none came within some seconds.

        Raises:
            GoneError: The client has closed, went away, or sent what is no message of text.
        """
        if not self._texts:
            self._receive()
        if not self._texts:
            self._connection.await_received(wait_s)
            self._receive()
        return self._texts.pop(0) if self._texts else None

    def is_gone(self) -> bool:
        """Tell whether the client has ended the connection; what it sent meanwhile waits."""
        with self._lock:
            return self._connection.is_gone()

    def send_texts(self, texts: Iterable[str]) -> None:
        """Send messages, those that are there together.

        Raises:
            GoneError: The client did not take them, or has closed.
        """
        with self._lock:
            self._send(b"".join(self._encoded(TextMessage(text)) for text in texts))

    def send_pieces(self, pieces: Iterator[bytes]) -> None:
        """Send one message as it is made; pieces end with whole characters.

        Raises:
            ShardlogError: The message could not be made, and nothing of it was sent.
            GoneError: The client did not take it, or it broke off.
        """
        waiting: list[bytes] = []
        size = 0
        with ExitStack() as holding:
            has_begun = False
            try:
                for piece in pieces:
                    waiting.append(piece)
                    size += len(piece)
                    if size < _SENT_AT_ONCE:
                        continue
                    if not has_begun:
                        # From the first fragment to the last no other message comes between.
                        holding.enter_context(self._lock)
                        has_begun = True
                    self._send_fragment(waiting, is_last=False)
                    waiting, size = [], 0
            except ShardlogError as error:
                if not has_begun or isinstance(error, GoneError):
                    raise
                self._connection.cut()
                message = f"the answer broke off: {error}"
                raise GoneError(message) from error
            with self._lock:
                self._send_fragment(waiting, is_last=True)

    def ping(self) -> None:
        """Ask the client to say that it is there."""
        with self._lock:
            self._send(self._encoded(Ping()))

    def close(self, code: int, reason: str) -> None:
        """Say why this is the end, and wait a little for the client to say so, too."""
        until_s = self._clock.monotonic_s() + _CLOSED_WITHIN_S
        try:
            with self._lock:
                if self._frames.state is not ConnectionState.OPEN:
                    return
                short = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
                self._send(self._encoded(CloseConnection(code, short)))
            while (left_s := until_s - self._clock.monotonic_s()) > 0:
                self.next_text(left_s)
                self._texts.clear()
        except GoneError:
            return

    def _receive(self) -> None:
        with self._lock:
            data = self._connection.take_received()
            if not data:
                if self._part:
                    self._connection.stalled_since_s = self.heard_s
                return
            self._connection.stalled_since_s = None
            self.heard_s = self._clock.monotonic_s()
            self._frames.receive_data(data)
            for event in self._frames.events():
                self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, TextMessage):
            self._part.append(event.data)
            self._part_bytes += len(event.data.encode())
            if self._part_bytes > self._bytes_max:
                message = f"a message of more than {self._bytes_max:,} bytes"
                self._end(CloseReason.MESSAGE_TOO_BIG, message)
            if not self._has_room(self._part_bytes):
                self._end(CloseReason.TRY_AGAIN_LATER, no_room().message)
            if event.message_finished:
                self._texts.append("".join(self._part))
                self._part, self._part_bytes = [], 0
        elif isinstance(event, BytesMessage):
            self._end(CloseReason.UNSUPPORTED_DATA, "a command is a message of text")
        elif isinstance(event, Ping):
            self._send(self._encoded(event.response()))
        elif isinstance(event, CloseConnection):
            if self._frames.state is ConnectionState.OPEN:
                # NOTE: wsproto (1.3) tells so of frames that are none.
                self._send(self._encoded(event))
            elif self._frames.state is ConnectionState.REMOTE_CLOSING:
                self._send(self._encoded(event.response()))
            message = "the client has closed the WebSocket"
            raise ClosedByClientError(message)

    def _end(self, code: CloseReason, reason: str) -> None:
        """Close for what the client sent.

        Raises:
            ClosedByClientError: Always.
        """
        if self._frames.state is ConnectionState.OPEN:
            self._send(self._encoded(CloseConnection(code, reason)))
        raise ClosedByClientError(reason)

    def _send_fragment(self, pieces: list[bytes], *, is_last: bool) -> None:
        text = b"".join(pieces).decode()
        self._send(self._encoded(TextMessage(text, message_finished=is_last)))

    def _encoded(self, event: Event) -> bytes:
        try:
            return self._frames.send(event)
        except LocalProtocolError as error:
            message = "the WebSocket is closed"
            raise GoneError(message) from error

    def _send(self, data: bytes) -> None:
        if data:
            self._connection.begin_answer()
            self._connection.send([data])
