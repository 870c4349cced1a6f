"""TLS of a server: its certificate, read again when the file changes."""

import os
import ssl
import threading
from pathlib import Path
from typing import Final

import typer

from storage_core import Clock, InvalidRequestError

_LOOK_EVERY_S: Final = 5.0


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
        self._context = self._read()
        self._looked_s = clock.monotonic_s()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if now_s - self._looked_s >= _LOOK_EVERY_S:
                self._looked_s = now_s
                self._look()
            return self._context

    def _look(self) -> None:
        stamp = self._stamps()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = self._read()
        except InvalidRequestError as error:
            # The other file may follow in a moment.
            typer.echo(f"shardlog: the certificate read last goes on: {error}", err=True)

    def _stamps(self) -> tuple[object, ...]:
        return tuple(_stamp_of(path) for path in self._files)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        certificate, key = self._files
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            reason = self._unreadable() or _why(error)
            message = f"the TLS certificate {certificate} and key {key} cannot be used: {reason}"
            raise InvalidRequestError(message) from error
        return context

    def _unreadable(self) -> str | None:
        """Return which of the files cannot be read, and why; the error of both does not say."""
        for path in self._files:
            try:
                path.read_bytes()
            except OSError as error:
                return f"{path}: {(error.strerror or str(error)).lower()}"
        return None


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
