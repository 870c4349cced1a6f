"""TLS of a server: its certificate, read again when the file changes."""

import os
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from storage_core import Clock, InvalidRequestError

_LOOK_EVERY_S: Final = 5.0
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for.
_ANY_TIME: Final = 0x200000
_STEPS_OF_A_HANDSHAKE: Final = 4
_NS_PER_S: Final = 1_000_000_000
# What TLS begins with; no method of HTTP does.
_HANDSHAKE: Final = b"\x16"


class Certificate:
    """What connections are encrypted with. Any thread."""

    def __init__(self, certificate: Path, key: Path, clock: Clock) -> None:
        """Read both files.

        Raises:
            InvalidRequestError: They cannot be read, or do not go together.
        """
        self._files = certificate, key
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = self._stamps()
        self._context, self._valid_s = self._read()
        self._checked_s = clock.monotonic_s()

    def expires_s(self) -> float | None:
        """When the certificate in use expires, in seconds since 1970; None if unknown."""
        valid_s = self._valid_s
        return None if valid_s is None else valid_s[1]

    def out_of_date(self) -> str | None:
        """Return what is wrong with the time of the certificate in use; clients refuse it then."""
        if self._valid_s is None:
            return None
        begins_s, ends_s = self._valid_s
        now_s = self._clock.now_ns() / _NS_PER_S
        if begins_s <= now_s <= ends_s:
            return None
        has_ended = now_s > ends_s
        moment = datetime.fromtimestamp(ends_s if has_ended else begins_s, UTC)
        verb = "expired at" if has_ended else "is not valid before"
        return (
            f"the TLS certificate {self._files[0]} {verb} {moment:%Y-%m-%dT%H:%M:%SZ}: "
            "clients refuse it"
        )

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if now_s - self._checked_s >= _LOOK_EVERY_S:
                self._checked_s = now_s
                self._look()
            return self._context

    def _look(self) -> None:
        stamp = self._stamps()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context, self._valid_s = self._read()
        except InvalidRequestError as error:
            # The other file may follow in a moment.
            typer.echo(f"shardlog: the certificate read last goes on: {error}", err=True)
            return
        wrong = self.out_of_date()
        if wrong is not None:
            typer.echo(f"shardlog: {wrong}", err=True)

    def _stamps(self) -> tuple[object, ...]:
        return tuple(_stamp_of(path) for path in self._files)

    def _read(self) -> tuple[ssl.SSLContext, tuple[float, float] | None]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # NOTE: a client that reads in one thread and writes in another, as many of WebSockets do,
        # may lose its request in OpenSSL (3.0) where a ticket comes just then. By tickets a client
        # that comes again would save a signature.
        context.num_tickets = 0
        certificate, key = self._files
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            reason = self._unreadable() or _why(error)
            message = f"the TLS certificate {certificate} and key {key} cannot be used: {reason}"
            raise InvalidRequestError(message) from error
        return context, _valid_s(context, certificate)

    def _unreadable(self) -> str | None:
        """Return which of the files cannot be read, and why; the error of both does not say."""
        for path in self._files:
            try:
                path.read_bytes()
            except OSError as error:
                return f"{path}: {(error.strerror or str(error)).lower()}"
        return None


def begins_tls(sock: socket.socket, within_s: float) -> bool:
    """Wait for a client's first byte, and tell whether it is that of a handshake.

    Raises:
        OSError: Nothing came in time.
    """
    sock.settimeout(within_s)
    return sock.recv(1, socket.MSG_PEEK) in (b"", _HANDSHAKE)


def _valid_s(context: ssl.SSLContext, certificate: Path) -> tuple[float, float] | None:
    """Return from when to when a certificate is valid, in seconds since 1970.

    Python decodes only the certificate of a peer, so a client in memory is shown it. None where
    that client would not take it, for whatever reason but its time.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = context.wrap_bio(received, sent, server_side=True)
    try:
        client.load_verify_locations(certificate)
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _ANY_TIME
        client_end = client.wrap_bio(sent, received)
        for _ in range(_STEPS_OF_A_HANDSHAKE):
            for end in (client_end, server_end):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        decoded = client_end.getpeercert() or {}
        begins, ends = (
            ssl.cert_time_to_seconds(str(decoded[name])) for name in ("notBefore", "notAfter")
        )
    except (OSError, ValueError, KeyError):
        return None
    return begins, ends


def _why(error: Exception) -> str:
    if not isinstance(error, ssl.SSLError):
        return str(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is that of another certificate"
    if not error.reason:
        # OpenSSL says no more than in which part of it this was.
        return "one has no PEM of its kind"
    return error.reason.replace("_", " ").lower()


def _no_password() -> str:
    message = "the key has a password; give it without one, readable by this user alone"
    raise ValueError(message)


def _stamp_of(path: Path) -> object:
    try:
        status = os.stat(path)  # noqa: PTH116 - as its neighbours; a path has no more to say
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
