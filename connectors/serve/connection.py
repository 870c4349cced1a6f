"""One connection of a client: requests in, answers out, each within its time.

It belongs to one thread; `cut` and `cut_if_waiting` may come from any. A client that does not take
what is sent, or sends nothing, keeps its own thread waiting and no other.
"""

import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from ssl import SSLSocket, SSLWantReadError
from typing import Final

from connectors.serve.http_request import HEAD_END, HttpRequest, begun_request, parse_head
from connectors.serve.refusals import RefusedError, no_room
from connectors.serve.settings import Bounds
from storage_core import Clock, UnavailableError

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_RECEIVED_AT_ONCE: Final = 65_536
# Of a body that is too large so many times the bound are received, so that its sender is told.
_PASSED_BODIES_MAX: Final = 8
_SENT_AT_ONCE: Final = 2**20
# So much a client takes in `send_s`, or is too slow.
_TAKEN_MIN: Final = 65_536
# More follows at once, so that a few bytes are no packet of their own.
_MORE: Final = getattr(socket, "MSG_MORE", 0)
# What tells that the other side sends nothing more, where the system has it.
_ENDED: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class GoneError(UnavailableError):
    """The client went away, was too slow, or was cut; nobody is left to be told."""


def _gone(error: OSError) -> GoneError:
    return GoneError(f"the client went away: {error}")


class Connection:
    """A socket with a client behind it.

    Attributes:
        waiting_since_s: Since when it has waited for a request; None while one is answered.
        stalled_since_s: Since when the client has taken nothing of what it is sent, or sent nothing
            of what it began; None while neither is waited for.
        is_reserved: Whether it is for health and metrics alone.
        ends_by_itself: Whether its thread sees that the server stops, and says so to the client.
    """

    def __init__(
        self, sock: socket.socket, bounds: Bounds, clock: Clock, *, is_reserved: bool = False
    ) -> None:
        """Take over a socket."""
        self._socket = sock
        self._bounds = bounds
        self._clock = clock
        self._received = bytearray()
        self._more, self._sent_at_once = _MORE, _SENT_AT_ONCE
        # Between whoever ends a connection that waits, and its thread that ends its wait.
        self._waiting = threading.Lock()
        self.waiting_since_s: float | None = clock.monotonic_s()
        self.stalled_since_s: float | None = None
        self.is_reserved = is_reserved
        self.is_cut = False
        self.ends_by_itself = False
        self._was_asked = False
        self._ends_with_client = False
        self._rows_left = 0
        self._awaits_continue = False
        # What the client has taken of the answer, or sent of its rows, and for how long it was
        # waited for.
        self._moved_bytes = 0
        self._waited_s = 0.0
        # A batch that is sent when the answer's time is over, and the error behind it, have a
        # little more.
        self._answer_max_s = bounds.answer_s + bounds.send_s
        self._answered_until_s = clock.monotonic_s() + self._answer_max_s

    def take_over(self, sock: socket.socket) -> None:
        """Go on over another socket: the encrypted one."""
        self._socket = sock
        # An encrypted socket takes no flags, and tells what was taken once all of it was.
        self._more, self._sent_at_once = 0, _TAKEN_MIN

    @property
    def is_encrypted(self) -> bool:
        """Whether it goes on over TLS, which may have to wait for the other direction."""
        return isinstance(self._socket, SSLSocket)

    def next_request(self, takes_body: Callable[[HttpRequest], bool]) -> HttpRequest | None:
        """Return the next request; None where the client has ended the connection.

        Args:
            takes_body: Tells whether the body of a request is wanted. One that is not is left to
                `leave_rows`, and takes no memory.

        Raises:
            RefusedError: It is too large, or not HTTP.
            GoneError: It did not come in time.
        """
        self.waiting_since_s = self._clock.monotonic_s()
        idle_s = self._bounds.request_s if self.is_reserved else self._bounds.idle_s
        idle_until_s = self.waiting_since_s + idle_s
        if not self._received and not self._receive(idle_until_s):
            return None
        until_s = self._begin_request() + self._bounds.request_s
        bytes_max = self._bounds.head_bytes
        while (end := self._received.find(HEAD_END)) < 0 and len(self._received) <= bytes_max:
            if not self._receive(until_s):
                return None
        if not 0 <= end <= bytes_max:
            raise RefusedError(431, "the headers are too large", closes=True)
        head = bytes(self._received[:end])
        del self._received[: end + len(HEAD_END)]
        request = parse_head(head)
        if request.brings_rows or (request.body_bytes and not takes_body(request)):
            # Rows are read as they come, once it is known what they are for.
            self._rows_left = request.body_bytes
            self._awaits_continue = request.expects_continue
            self.end_wait()
            return request
        body = self._body_of(request, until_s)
        self.end_wait()
        return request.with_body(body) if body else request

    def next_line(self, bytes_max: int, has_room: Callable[[int], bool]) -> bytes | None:
        """Return the next line, without its end; None where the client has ended the connection.

        Args:
            bytes_max: The longest.
            has_room: Tells whether there is room for one of so many bytes.

        Raises:
            BusyError: There is no room for it; it is passed over.
            RefusedError: It is longer than so many bytes, or the connection ended within it.
            GoneError: It did not come in time.
        """
        self.waiting_since_s = self._clock.monotonic_s()
        if not self._received and not self._receive(self.waiting_since_s + self._bounds.idle_s):
            return None
        until_s = self._begin_request() + self._bounds.request_s
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if not has_room(min(searched, bytes_max)):
                self._pass_line(until_s)
                raise no_room()
            if searched > bytes_max or not self._receive(until_s):
                end = bytes_max + 1
                break
        if end > bytes_max:
            if len(self._received) <= bytes_max:
                message = "the last line has no end: it was not done"
                raise RefusedError(400, message, closes=True)
            message = f"a line of more than {bytes_max:,} bytes"
            raise RefusedError(413, message, closes=True)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self.end_wait()
        return line.removesuffix(b"\r")

    def _pass_line(self, until_s: float) -> None:
        while (end := self._received.find(b"\n")) < 0:
            self._received.clear()
            if not self._receive(until_s):
                return
        del self._received[: end + 1]

    def _begin_request(self) -> float:
        """Count what is moved, and the time of the answer, from now; return what time it is."""
        now_s = self._clock.monotonic_s()
        self._was_asked, self._ends_with_client = True, False
        self._moved_bytes, self._waited_s = 0, 0.0
        self._answered_until_s = now_s + self._answer_max_s
        return now_s

    def _body_of(self, request: HttpRequest, until_s: float) -> bytes:
        size = request.body_bytes
        if size > self._bounds.body_bytes:
            if size <= _PASSED_BODIES_MAX * self._bounds.body_bytes:
                self._rows_left, self._awaits_continue = size, request.expects_continue
                self.leave_rows()
            message = f"a body of {size} bytes; {self._bounds.body_bytes} is the most"
            raise RefusedError(413, message, closes=True)
        if request.expects_continue:
            self.send([_CONTINUE])
        while len(self._received) < size:
            if not self._receive(until_s):
                raise RefusedError(400, "the body ended early", closes=True)
        body = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return body

    @property
    def rows_left(self) -> int:
        """How many bytes of the request's rows are still to be received."""
        return self._rows_left

    def receive_rows(self, view: memoryview, until_s: float) -> None:
        """Fill a view with the next bytes of the request's rows, of which so many are left.

        Raises:
            GoneError: They did not come in time.
        """
        if self._awaits_continue:
            self._awaits_continue = False
            self.send([_CONTINUE])
        size = len(view)
        came = min(size, len(self._received))
        view[:came] = self._received[:came]
        del self._received[:came]
        if came < size:
            self._receive_into(view[came:], until_s)
        self._rows_left -= size

    def leave_rows(self) -> bool:
        """Let rows, or a body, pass that nobody has taken; return whether requests can follow.

        Who is sending them has no ear for the answer.
        """
        until_s = self._clock.monotonic_s() + self._bounds.send_s
        if self._rows_left and self.waiting_since_s is None:
            # Whoever sends what nobody wants makes room for others first.
            self.waiting_since_s = until_s - self._bounds.send_s
        passing = memoryview(bytearray(min(self._rows_left, _RECEIVED_AT_ONCE)))
        try:
            while self._rows_left and not self._awaits_continue:
                self.receive_rows(passing[: self._rows_left], until_s)
        except GoneError:
            return False
        return not self._rows_left

    def send(self, pieces: Iterable[bytes | memoryview]) -> int:
        """Send all of some pieces; return how many bytes they were.

        Raises:
            GoneError: The client did not take them.
        """
        sent = 0
        *others, last = pieces
        for piece in others:
            sent += self._send_all(memoryview(piece), self._more)
        return sent + self._send_all(memoryview(last), 0)

    # --- without waiting: of a thread that has many connections ------------------------------

    def fileno(self) -> int:
        """Return the number that the system has for it."""
        return self._socket.fileno()

    def never_wait(self) -> None:
        """Wait for nothing in `receive_now` and `send_now`, up to the next call of another kind."""
        # NOTE: a flag of one call is not enough: the interpreter waits by itself, and tries again.
        self._socket.settimeout(0)

    @property
    def received_bytes(self) -> int:
        """How many bytes were received and belong to no request yet."""
        return len(self._received)

    def receive_now(self) -> bool:
        """Receive what has come; return whether the client may send more.

        Raises:
            GoneError: The client went away.
        """
        try:
            received = self._socket.recv(_RECEIVED_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return not self.is_cut
        except OSError as error:
            raise _gone(error) from error
        self._received += received
        return bool(received)

    def begun_request(
        self, parse: Callable[[bytes], HttpRequest]
    ) -> tuple[HttpRequest, int] | None:
        """Return the next request, as far as it has come, and its bytes; None before its head has.

        It is the next one still, until it is taken (`take_request`); raises as `begun_request`.
        """
        return begun_request(self._received, self._bounds.head_bytes, parse)

    def take_request(self, size: int) -> None:
        """Take a request of so many bytes: it is answered from now on.

        Raises:
            GoneError: The connection was ended before.
        """
        self._begin_request()
        self.end_wait()
        del self._received[:size]

    def send_now(self, piece: bytes) -> bytes:
        """Send what the system takes at once; return the rest.

        Raises:
            GoneError: The client went away.
        """
        try:
            return piece[self._socket.send(piece) :]
        except (BlockingIOError, InterruptedError):
            return piece
        except OSError as error:
            raise _gone(error) from error

    def is_gone(self) -> bool:
        """Tell whether the client has ended the connection while it is answered."""
        self._ends_with_client = True
        if self.is_cut:
            return True
        if len(self._received) >= _RECEIVED_AT_ONCE:
            # Whoever sends more requests meanwhile is there, and is not to fill the memory.
            return False
        try:
            self._socket.settimeout(0)
            received = self._socket.recv(_RECEIVED_AT_ONCE)
        except (BlockingIOError, InterruptedError, SSLWantReadError):
            return False
        except OSError:
            return True
        self._received += received
        return not received

    def take_received(self) -> bytes:
        """Return what the client has sent by now, whatever it is; nothing where nothing came.

        Raises:
            GoneError: It has ended the connection.
        """
        is_gone = self.is_gone()
        received = bytes(self._received)
        self._received.clear()
        if is_gone and not received:
            message = "the client went away"
            raise GoneError(message)
        return received

    def await_received(self, wait_s: float) -> None:
        """Wait until the client may have sent something, or for some seconds."""
        pending = getattr(self._socket, "pending", None)
        number = self._socket.fileno()
        if number < 0 or (pending is not None and pending()):
            return
        looking = select.poll()
        looking.register(number, select.POLLIN)
        looking.poll(1000 * wait_s)

    def begin_answer(self) -> None:
        """Count the time of an answer from here on, where no request begins it."""
        self._moved_bytes, self._waited_s = 0, 0.0
        self._answered_until_s = self._clock.monotonic_s() + self._answer_max_s

    def is_slow(self) -> bool:
        """Tell whether the client takes its answer, or sends its rows, too slowly as a whole.

        Any thread.
        """
        waited_s = self._waited_s
        is_judged = self.stalled_since_s is not None and waited_s > self._bounds.slow_s
        return is_judged and self._moved_bytes < waited_s * self._bounds.slow_bytes_s

    def idle_since_s(self) -> float | None:
        """Return since when nothing of a request has come; None while one is answered. Any thread.

        A connection that has just come is not idle: its first request may be on its way.
        """
        since_s = self.waiting_since_s
        if since_s is None or self.is_cut or self._received:
            return None
        fresh_until_s = since_s + self._bounds.fresh_s
        if not self._was_asked and self._clock.monotonic_s() < fresh_until_s:
            return None
        return None if self._seen(select.POLLIN) else since_s

    def is_left(self) -> bool:
        """Tell whether its client has gone, and its answer ends with that. Any thread.

        Who sends nothing more may still take an answer, unless that looks for the client by itself.
        """
        return self._ends_with_client and not self.is_cut and self._seen(_ENDED)

    def _seen(self, events: int) -> bool:
        """Tell whether the system tells one of some events of its socket now."""
        try:
            looking = select.poll()
            looking.register(self._socket.fileno(), events)
            return bool(looking.poll(0))
        except (OSError, ValueError):
            # Its thread has closed it.
            return False

    def end_wait(self) -> None:
        """Answer from now on; of the connection's own thread.

        Raises:
            GoneError: It was ended while it waited: nothing is to be done whose answer nobody gets.
        """
        with self._waiting:
            self.waiting_since_s = None
            if self.is_cut:
                message = "the connection was ended before its request had come"
                raise GoneError(message)

    def cut_if_waiting(self) -> bool:
        """End the connection unless a request is answered; tell whether it waited. Any thread."""
        with self._waiting:
            if self.waiting_since_s is None:
                return False
            self.is_cut = True
        self.cut()
        return True

    def cut(self) -> None:
        """End the connection, whatever its thread does. Any thread."""
        self.is_cut = True
        with suppress(OSError):
            # NOTE: an SSLSocket's own `shutdown` takes its encryption away under its thread.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; of the connection's own thread."""
        with suppress(OSError):
            self._socket.close()

    def _send_all(self, view: memoryview, flags: int) -> int:
        now_s = self.stalled_since_s = self._clock.monotonic_s()
        until_s = now_s + self._bounds.send_s
        size, sent, counted = len(view), 0, 0
        try:
            while sent < size:
                remaining_s = min(until_s, self._answered_until_s) - now_s
                if remaining_s <= 0 or self.is_cut:
                    message = "the client takes too little of its answer"
                    raise GoneError(message)
                self._socket.settimeout(remaining_s)
                taken = self._socket.send(view[sent : sent + self._sent_at_once], flags)
                now_s = self._count_moved(taken, now_s)
                sent += taken
                if sent - counted >= _TAKEN_MIN:
                    counted, until_s = sent, now_s + self._bounds.send_s
        except OSError as error:
            raise _gone(error) from error
        finally:
            self.stalled_since_s = None
        return size

    def _receive_into(self, view: memoryview, until_s: float) -> None:
        """Fill a view with what comes until a time, each 64 KiB of it within `send_s`."""
        now_s = self.stalled_since_s = self._clock.monotonic_s()
        came, counted, next_s = 0, 0, now_s + self._bounds.send_s
        try:
            while came < len(view):
                remaining_s = min(until_s, next_s) - now_s
                if remaining_s <= 0 or self.is_cut:
                    message = "the client takes too long to send its rows"
                    raise GoneError(message)
                self._socket.settimeout(remaining_s)
                count = self._socket.recv_into(view[came:])
                if not count:
                    message = "the client went away while it sent its rows"
                    raise GoneError(message)
                came += count
                now_s = self._count_moved(count, now_s)
                if came - counted >= _TAKEN_MIN:
                    counted, next_s = came, now_s + self._bounds.send_s
        except OSError as error:
            raise _gone(error) from error
        finally:
            self.stalled_since_s = None

    def _count_moved(self, count: int, since_s: float) -> float:
        """Count bytes that the client took or sent since a time; return what time it is."""
        now_s = self.stalled_since_s = self._clock.monotonic_s()
        self._waited_s += now_s - since_s
        self._moved_bytes += count
        return now_s

    def _receive(self, until_s: float) -> bool:
        """Receive something until a time; return whether the client may send more."""
        now_s = self._clock.monotonic_s()
        remaining_s = until_s - now_s
        if remaining_s <= 0 or self.is_cut:
            message = "the client takes too long to ask"
            raise GoneError(message)
        self.stalled_since_s = now_s
        try:
            self._socket.settimeout(remaining_s)
            received = self._socket.recv(_RECEIVED_AT_ONCE)
        except OSError as error:
            raise _gone(error) from error
        finally:
            self.stalled_since_s = None
        self._received += received
        return bool(received)
