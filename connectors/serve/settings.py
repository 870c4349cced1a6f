"""What a server over shards is told: where it listens, who may ask, and its bounds."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from connectors.settings.operations_settings import is_loopback, split_address
from connectors.settings.serve_settings import WorkerServeSettings
from storage_core import InvalidRequestError
from typed_events.remembered.options import KEEP_ALL, KeepOptions

LISTEN_DEFAULT: Final = "127.0.0.1:8085"
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a server takes and gives.

    Attributes:
        connections: Connections at once; beyond, the one that has been idle longest is closed.
        reserved: Connections beyond those, for health and metrics alone.
        answers: Answers with rows at once; others wait `queue_s` for a place.
        subscriptions: Subscriptions at once; others wait as long for a place.
        head_bytes: Bytes of a request's line and headers.
        body_bytes: Bytes of its body.
        bodies_bytes: Bytes of the bodies that all requests hold together, small ones left out.
        command_bytes: Bytes of a body of commands, and of a line of them.
        read_bytes: Bytes of rows that one `read` or `latest` gathers.
        small_bytes: Bytes of them that any read may gather at once; who gathers more waits until
            `read_bytes` are left of `held_bytes`.
        held_bytes: Bytes of such rows that all answers hold together until they are sent.
        rows: Rows of an answer; 0 for any number.
        answer_s: Seconds of an answer, from the request to its last byte.
        request_s: Seconds of a handshake, and of a request from its first byte to its last.
        send_s: Seconds in which a client takes 64 KiB of an answer.
        stalled_s: Seconds after which a client that takes nothing gives its place to who waits.
        slow_s: Seconds that a client was waited for, to take its answer or to send its rows, after
            which it, too, may be cut for who waits, where it moved fewer than `slow_bytes_s` in
            each of them.
        slow_bytes_s: Bytes a second, over the whole answer or all rows.
        queue_s: Seconds that a request waits for a place.
        idle_s: Seconds that a connection may be idle.
        fresh_s: Seconds that a connection has for its first request before it counts as idle.
        stop_s: Seconds that answers have to end once the server is to stop.
        streams: Streams that are kept open.
        stagings: Requests with rows to stage at once; others wait `queue_s` for a place.
        staged_bytes: Bytes of such a request.
        landings: Transactions that are made durable at once.
        landing_s: Seconds that a call waits for its transaction; who called asks again.
    """

    connections: int = 256
    reserved: int = 8
    answers: int = 32
    subscriptions: int = 200
    head_bytes: int = 16_384
    body_bytes: int = 8 * 2**20
    bodies_bytes: int = 128 * 2**20
    command_bytes: int = 2**20
    read_bytes: int = 256 * 2**20
    small_bytes: int = 8 * 2**20
    held_bytes: int = 512 * 2**20
    rows: int = 0
    answer_s: float = 3600.0
    request_s: float = 15.0
    send_s: float = 20.0
    stalled_s: float = 2.0
    slow_s: float = 10.0
    slow_bytes_s: int = 65_536
    queue_s: float = 10.0
    idle_s: float = 600.0
    fresh_s: float = 1.0
    stop_s: float = 10.0
    streams: int = 64
    stagings: int = 4
    staged_bytes: int = 64 * 2**20
    landings: int = 32
    landing_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What a server is told.

    Attributes:
        root: The directory that holds the streams.
        listen: Host and port; port 0 takes any.
        tls_certificate: PEM file of the certificate and those above it; None for no TLS.
        tls_key: PEM file of its key.
        read_tokens: File of tokens that may read, one a line; None for none.
        write_tokens: File of tokens that may write, and read.
        is_anonymous: Whether others than this machine may ask without a token.
        is_writable: Whether everybody on this machine may write, where no token is asked for.
        command_listen: Host and port for a command a line; None for none.
        command_socket: Path of a Unix socket for the same; None for none.
        has_page: Whether the page is at `/`.
        remembered: How much SHOW answers with.
        bounds: How much it takes and gives.
    """

    root: Path
    listen: str = LISTEN_DEFAULT
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    read_tokens: Path | None = None
    write_tokens: Path | None = None
    is_anonymous: bool = False
    is_writable: bool = False
    command_listen: str | None = None
    command_socket: Path | None = None
    has_page: bool = True
    remembered: KeepOptions = KEEP_ALL
    bounds: Bounds = Bounds()

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        try:
            host, _ = split_address(self.listen)
            if self.command_listen is not None:
                split_address(self.command_listen)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from error
        if (self.tls_certificate is None) != (self.tls_key is None):
            message = "TLS needs a certificate and its key: --tls-cert and --tls-key"
            raise InvalidRequestError(message)
        if not is_loopback(host) and not self.has_tokens and not self.is_anonymous:
            message = (
                f"{self.listen} can be reached from other machines: name a file of tokens with "
                "--read-token-file, or let anybody read with --anonymous"
            )
            raise InvalidRequestError(message)
        if self.is_writable and (self.has_tokens or not is_loopback(host)):
            message = (
                "--writable lets everybody on this machine write, where no token is asked for; "
                "name a file of tokens that may write with --write-token-file"
            )
            raise InvalidRequestError(message)

    @property
    def has_tokens(self) -> bool:
        """Whether a token is asked for."""
        return self.read_tokens is not None or self.write_tokens is not None

    @property
    def takes_writes(self) -> bool:
        """Whether anybody may write."""
        return self.is_writable or self.write_tokens is not None

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls_certificate is not None


def remembered(rows_max: int, hours_max: float) -> KeepOptions:
    """Return how much of an answer is kept; 0 is all of it."""
    age = timedelta(hours=hours_max) if hours_max else None
    return KeepOptions(rows_max or None, age)


def settings_beside_worker(
    root: Path, section: WorkerServeSettings, *, has_page: bool = True
) -> ServeSettings:
    """Return what the server of a worker over its root is told."""
    return ServeSettings(
        root=root,
        listen=section.listen,
        tls_certificate=section.tls_cert,
        tls_key=section.tls_key,
        read_tokens=section.read_token_file,
        write_tokens=section.write_token_file,
        is_anonymous=section.anonymous,
        command_listen=section.command_listen or None,
        command_socket=section.command_socket,
        has_page=has_page,
        remembered=remembered(section.remembered_rows_max, section.remembered_hours_max),
        bounds=Bounds(
            connections=section.connections_max,
            answers=section.answers_max,
            rows=section.rows_max,
            answer_s=section.seconds_max,
            read_bytes=section.read_mib_max * _MIB,
            held_bytes=section.held_mib_max * _MIB,
        ),
    )
