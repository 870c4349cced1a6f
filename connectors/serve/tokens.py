"""Bearer tokens: who may read, and who may write.

A file has a token a line; empty lines and those that begin with # are left out. It is read again
when it changes, so a token is added or withdrawn without a restart; a token that is not in it
any more is withdrawn, whatever else is wrong with the file. Where it cannot be read any more, the
tokens that were read last go on. Standard error says so once. Any thread may ask.
"""

import hmac
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import Final

import typer

from connectors.serve.refusals import RefusedError
from storage_core import Clock, InvalidRequestError
from storage_core.protocol import Right, bearer

_LOOK_EVERY_S: Final = 1.0
_BYTES_MIN: Final = 16
_FILE_BYTES_MAX: Final = 2**20
_READS_ONLY: Final = (
    "this server only reads; start it with --write-token-file FILE, or --writable on this machine"
)


class TokenFile:
    """The tokens of a file. Any thread."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file.

        Raises:
            InvalidRequestError: It cannot be read, has no token, or one that is easily guessed.
        """
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp, self._digests, wrong = self._read()
        if wrong is not None:
            raise InvalidRequestError(wrong, path=path)
        self._checked_s = clock.monotonic_s()
        self._has_failed = False

    def has(self, digest: bytes) -> bool:
        """Tell whether a token with this digest is in the file; each is compared."""
        with self._lock:
            self._look()
            digests = self._digests
        matches = [hmac.compare_digest(digest, each_digest) for each_digest in digests]
        return any(matches)

    def _look(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s < _LOOK_EVERY_S:
            return
        self._checked_s = now_s
        try:
            if _stamp_of(self._path) != self._stamp:
                self._stamp, self._digests, wrong = self._read()
                if wrong is not None:
                    typer.echo(f"shardlog: {self._path}: {wrong}; its other tokens go on", err=True)
            self._has_failed = False
        except (OSError, InvalidRequestError) as error:
            if not self._has_failed:
                self._has_failed = True
                typer.echo(f"shardlog: the tokens read last go on: {error}", err=True)

    def _read(self) -> tuple[tuple[int, ...], tuple[bytes, ...], str | None]:
        """Return when it was written, the tokens, and what is wrong with it, if anything is."""
        try:
            stamp = _stamp_of(self._path)
            with self._path.open("rb") as file:
                content = file.read(_FILE_BYTES_MAX)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"the file of tokens cannot be read: {reason}"
            raise InvalidRequestError(message, path=self._path) from error
        lines = [line.strip() for line in content.splitlines()]
        tokens = [line for line in lines if line and not line.startswith(b"#")]
        good = [token for token in tokens if len(token) >= _BYTES_MIN and token.isascii()]
        wrong = None
        if not tokens:
            wrong = "the file of tokens has none: write one a line"
        elif len(good) < len(tokens):
            wrong = f"a token has at least {_BYTES_MIN} characters of ASCII"
        return stamp, tuple(_digest(token) for token in good), wrong


class Tokens:
    """Decides what a request may do."""

    def __init__(
        self, read: Path | None, write: Path | None, clock: Clock, *, is_writable: bool = False
    ) -> None:
        """Read the files; without any, everybody may read, and write if it `is_writable`."""
        self._is_writable = is_writable
        self._write = None if write is None else TokenFile(write, clock)
        self._read = None if read is None else TokenFile(read, clock)

    @property
    def is_open(self) -> bool:
        """Whether no token is asked for."""
        return self._read is None and self._write is None

    def check(self, authorization: str | None, right: Right) -> None:
        """Refuse a request whose header does not allow something.

        Raises:
            RefusedError: The token is missing, wrong, or may not do that.
        """
        if self.is_open:
            if right == "write" and not self._is_writable:
                raise RefusedError(403, _READS_ONLY)
            return
        scheme = bearer("")
        if authorization is None or authorization[: len(scheme)].lower() != scheme.lower():
            message = "this server asks for a token: Authorization: Bearer <token>"
            raise RefusedError(401, message)
        digest = _digest(authorization[len(scheme) :].strip().encode("latin-1", "replace"))
        may_write = self._write is not None and self._write.has(digest)
        may_read = may_write or (self._read is not None and self._read.has(digest))
        if not may_read:
            message = "this server does not know the token"
            raise RefusedError(401, message)
        if right == "write" and not may_write:
            message = _READS_ONLY if self._write is None else "the token may read, and not write"
            raise RefusedError(403, message)


def _digest(token: bytes) -> bytes:
    return sha256(token).digest()


def _stamp_of(path: Path) -> tuple[int, ...]:
    status = os.stat(path)  # noqa: PTH116 - as its neighbours; a path has no more to say
    return status.st_ino, status.st_mtime_ns, status.st_size
