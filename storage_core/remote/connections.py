"""Connections to one server, which are kept open between calls. Any thread may ask.

A connection is lent to one call at a time. It is kept once its answer was read to the end, and
closed otherwise, as by a caller who had enough of the rows. One that the server closed meanwhile
shows at the next question, which is asked again on a new one; more than once that never happens.
"""

import socket
import ssl
import threading
from contextlib import suppress
from http.client import (
    HTTP_PORT,
    HTTPS_PORT,
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from typing import Final
from weakref import WeakSet

import pyarrow as pa

from storage_core.errors import InvalidRequestError, ShardlogError, UnavailableError
from storage_core.remote.addresses import Address
from storage_core.remote.exchange import Question as Question  # noqa: PLC0414 - for who asks
from storage_core.remote.exchange import Response, host_of, send_question

_IDLE_MAX: Final = 16
# A shorter body is read at once.
_WHOLE_MAX: Final = 2**20
# What may go wrong between two ends of a connection.
TRANSPORT_ERRORS: Final = (OSError, HTTPException)
# What a message begins with: how far a call came before it failed.
_NO_CONNECTION: Final = "cannot connect to"
_NO_ANSWER: Final = "no answer from"
ANSWER_CUT: Final = "the answer was cut by"


class Answer:
    """The answer to a question, as its bytes come. Of one thread.

    Attributes:
        status: Its status.
        response: What has its bytes; whoever reads them has to translate errors.
    """

    def __init__(
        self, connections: "Connections", connection: HTTPConnection, response: Response
    ) -> None:
        """Take over a connection until the answer has ended."""
        self._connections = connections
        self._connection: HTTPConnection | None = connection
        self.status = response.status
        self.response = response

    @property
    def address(self) -> Address:
        """Who has answered."""
        return self._connections.address

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        return self.response.fields.get(name.lower())

    def body(self) -> bytes:
        """Return the whole body, and keep the connection.

        Raises:
            UnavailableError: The connection broke, or the server fell silent.
        """
        try:
            body = self.response.read()
        except TRANSPORT_ERRORS as error:
            self.close()
            raise translated(error, self.address, ANSWER_CUT) from error
        self.finish()
        return body

    def source(self) -> Response | pa.BufferReader:
        """Return what Arrow reads the body from.

        Of a short one all bytes are there: a response is asked for each message in several pieces,
        which of few rows takes more than the rows.
        """
        if self.response.length is None or self.response.length > _WHOLE_MAX:
            return self.response
        try:
            body = self.response.read()
        except IncompleteRead as error:
            # Who reads the messages says which are missing.
            body = error.partial
        return pa.BufferReader(body)

    def finish(self) -> None:
        """Keep the connection, if the body ends here."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            is_over = not self.response.read(1) and not self.response.will_close
        except TRANSPORT_ERRORS:
            is_over = False
        if is_over:
            self._connections.keep(connection)
        else:
            self._leave(connection)

    def close(self) -> None:
        """Close the connection, whatever may still come."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._leave(connection)

    def _leave(self, connection: HTTPConnection) -> None:
        connection.close()
        # The socket is open as long as either is.
        self.response.close()


class Connections:
    """Connections to one address."""

    def __init__(
        self,
        address: Address,
        connect_timeout_s: float,
        timeout_s: float,
        context: ssl.SSLContext | None,
    ) -> None:
        """Open none yet; with a context over TLS."""
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._context = context
        default_port = HTTP_PORT if context is None else HTTPS_PORT
        self._host = host_of(address.host, address.port, default_port)
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []
        # All that are open, those that calls wait for among them.
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._is_closed = False

    def ask(self, question: Question, headers: dict[str, str], patience_s: float = 0.0) -> Answer:
        """Send a question, and return the answer once it begins.

        Args:
            question: What is asked.
            headers: With which headers.
            patience_s: How long the server means to take before it answers, beside its silence.

        Raises:
            UnavailableError: The server cannot be reached, or is silent, or breaks off.
            InvalidRequestError: It does not speak TLS, or is not who its certificate says.
        """
        with self._lock:
            reused = self._idle.pop() if self._idle else None
        if reused is not None:
            try:
                return self._exchange(reused, question, headers, patience_s)
            except (ConnectionError, BadStatusLine, ssl.SSLEOFError):
                # The server has closed it, and the others that are as old probably too.
                reused.close()
                self._close_idle()
            except TRANSPORT_ERRORS as error:
                reused.close()
                raise translated(error, self.address, _NO_ANSWER) from error
        connection = self._connected()
        try:
            return self._exchange(connection, question, headers, patience_s)
        except TRANSPORT_ERRORS as error:
            connection.close()
            raise translated(error, self.address, _NO_ANSWER) from error

    def keep(self, connection: HTTPConnection) -> None:
        """Keep a connection for the next question."""
        with self._lock:
            is_kept = not self._is_closed and len(self._idle) < _IDLE_MAX
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def interrupt(self) -> None:
        """End all connections under the calls that use them, which fail; from any thread."""
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            with suppress(OSError):
                # NOTE: that of TLS (3.11) would take from its reader what it reads by.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close what is idle; what is lent is closed once it comes back."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connected(self) -> HTTPConnection:
        host, port = self.address.host, self.address.port
        connection = (
            HTTPConnection(host, port, timeout=self._connect_timeout_s)
            if self._context is None
            else HTTPSConnection(host, port, timeout=self._connect_timeout_s, context=self._context)
        )
        try:
            connection.connect()
        except TRANSPORT_ERRORS as error:
            connection.close()
            raise translated(error, self.address, _NO_CONNECTION) from error
        with self._lock:
            self._sockets.add(connection.sock)
        return connection

    def _exchange(
        self,
        connection: HTTPConnection,
        question: Question,
        headers: dict[str, str],
        patience_s: float,
    ) -> Answer:
        connection.sock.settimeout(self._timeout_s + patience_s)
        send_question(connection.sock, question, self._host, headers)
        response = Response(connection.sock, question.method)
        try:
            response.begin()
        except BaseException:
            response.close()
            raise
        return Answer(self, connection, response)


def translated(error: Exception, address: Address, what_failed: str) -> ShardlogError:
    """Return an error of the transport as one of ours."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or str(error)
        message = f"{address.text}: its certificate is not trusted: {reason}"
        return InvalidRequestError(message)
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        message = f"{address.text} does not use TLS: name it as shardlog://{address.text}"
        return InvalidRequestError(message)
    if isinstance(error, RemoteDisconnected | IncompleteRead | ConnectionError):
        reason = "connection closed"
        if isinstance(error, ConnectionRefusedError):
            reason = "connection refused"
    elif isinstance(error, ssl.SSLError) and not isinstance(error, TimeoutError):
        reason = f"TLS failed: {error.reason or error}"
    elif isinstance(error, BadStatusLine):
        reason = "what listens there does not speak HTTP; if it uses TLS, name it as shardlogs://"
    elif isinstance(error, TimeoutError):
        is_in_handshake = "handshake" in str(error)
        reason = "timed out"
        if is_in_handshake:
            reason += f" in the TLS handshake; without TLS name it as shardlog://{address.text}"
    else:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or repr(error)
    return UnavailableError(f"{what_failed} {address.text}: {reason}")
