"""How a client asks servers: token, certificates, and how long it waits and tries again.

What is not said comes from the environment:

    SHARDLOG_SERVER_TOKEN_FILE   a file with the token; read again when a server refuses the token
    SHARDLOG_SERVER_TOKEN        the token itself
    SHARDLOG_SERVER_CA_FILE      certificates (PEM) that vouch for servers; else the system's

A token is in no text that is printed or logged.
"""

import os
import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final, Literal

from storage_core.errors import InvalidRequestError

TOKEN_FILE_VARIABLE: Final = "SHARDLOG_SERVER_TOKEN_FILE"  # noqa: S105 - a name
TOKEN_VARIABLE: Final = "SHARDLOG_SERVER_TOKEN"  # noqa: S105 - as above
CA_FILE_VARIABLE: Final = "SHARDLOG_SERVER_CA_FILE"
_TOKEN_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How servers are asked.

    Attributes:
        token: What shows a server that the client may read.
        token_file: A file that holds it in its place; one that changes is read again.
        ca_file: Certificates that vouch for servers over TLS; None for the system's.
        connect_timeout: How long a connection may take, with TLS's handshake.
        timeout: How long a server may stay silent.
        retry_for: For how long a read that no server answers is tried again.
        compression: How servers compress rows on the way.
    """

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    ca_file: Path | None = None
    connect_timeout: timedelta = timedelta(seconds=5)
    timeout: timedelta = timedelta(seconds=60)
    retry_for: timedelta = timedelta(seconds=10)
    compression: Literal["none", "lz4", "zstd"] = "none"

    def current_token(self) -> str | None:
        """Return the token; None where none is named.

        Raises:
            InvalidRequestError: Its file cannot be read, or holds none.
        """
        if self.token is not None:
            return _checked(self.token, "the token of the server")
        named = self.token_file or _path_of(TOKEN_FILE_VARIABLE)
        if named is not None:
            return _read_token(named)
        said = os.environ.get(TOKEN_VARIABLE)
        return _checked(said, TOKEN_VARIABLE) if said else None

    def tls_context(self) -> ssl.SSLContext:
        """Return by what servers are verified.

        Raises:
            InvalidRequestError: The file of certificates cannot be read, or holds none.
        """
        path = self.ca_file or _path_of(CA_FILE_VARIABLE)
        try:
            return _context(None if path is None else str(path))
        except (OSError, ssl.SSLError) as error:
            is_odd = isinstance(error, ssl.SSLError)
            reason = "it has no certificate as PEM" if is_odd else error.strerror or error
            message = f"the certificates for servers cannot be read: {reason}"
            raise InvalidRequestError(message, path=path) from error


@cache
def _context(path: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


def _path_of(variable: str) -> Path | None:
    said = os.environ.get(variable)
    return Path(said) if said else None


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_TOKEN_BYTES_MAX + 1)
    except OSError as error:
        message = f"the file with the server's token cannot be read: {error.strerror}"
        raise InvalidRequestError(message, path=path) from error
    # As a server's file may have it: a token a line, and lines of comments.
    lines = (line.strip() for line in data.decode(errors="replace").splitlines())
    token = next((line for line in lines if line and not line.startswith("#")), "")
    return _checked(token, f"the token in {path}")


def _checked(token: str, whose: str) -> str:
    """Refuse what no header can carry; the text does not repeat it."""
    is_sent = token.isascii() and token.isprintable() and " " not in token
    if not token or not is_sent or len(token) > _TOKEN_BYTES_MAX:
        message = f"{whose} is empty, too long, or has other letters than visible ASCII"
        raise InvalidRequestError(message)
    return token
