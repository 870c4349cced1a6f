"""`shardlog serve`: the streams of a root over HTTP, until told to stop."""

import os
import signal
from pathlib import Path
from types import FrameType
from typing import Final

import typer

from connectors.cli.exit_codes import EXIT_AT_ONCE
from connectors.cli.output.printing import print_line
from connectors.cli.version import installed_version
from connectors.serve.server import ShardServer
from connectors.serve.server_process import prepare_process
from connectors.serve.settings import Bounds, ServeSettings, remembered
from connectors.settings.operations_settings import is_loopback
from storage_core.platform.durable_file import reading_errors
from storage_core.roots import make_root

_MIB: Final = 2**20


def serve(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    read_tokens: Path | None,
    write_tokens: Path | None,
    anonymous: bool,
    writable: bool,
    command_listen: str | None,
    command_socket: Path | None,
    remembered_rows_max: int,
    remembered_hours_max: float,
    no_page: bool,
    connections_max: int,
    answers_max: int,
    rows_max: int,
    seconds_max: float,
    read_mib_max: int,
    held_mib_max: int,
    stage_mib_max: int,
) -> None:
    """Serve the streams of a root until SIGTERM or Ctrl-C; a second one ends at once."""
    settings = ServeSettings(
        root=root,
        listen=listen,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        read_tokens=read_tokens,
        write_tokens=write_tokens,
        is_anonymous=anonymous,
        is_writable=writable,
        command_listen=command_listen,
        command_socket=command_socket,
        has_page=not no_page,
        remembered=remembered(remembered_rows_max, remembered_hours_max),
        bounds=Bounds(
            connections=connections_max,
            answers=answers_max,
            rows=rows_max,
            answer_s=seconds_max,
            read_bytes=read_mib_max * _MIB,
            held_bytes=held_mib_max * _MIB,
            staged_bytes=stage_mib_max * _MIB,
        ),
    )
    ending = {signal.SIGTERM, signal.SIGINT}
    # Threads that begin from here on leave both to this one, which waits for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        prepare_process()
        if settings.takes_writes:
            _make_new_root(root)
        with ShardServer(settings, installed_version()) as server:
            _tell(server, settings)
            signal.sigwait(ending)
            signal.signal(signal.SIGTERM, _end_at_once)
            signal.signal(signal.SIGINT, _end_at_once)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)


def _make_new_root(root: Path) -> None:
    """Make a root of a directory that is not there or is empty, for a server that takes writes."""
    with reading_errors(root, "making the root"):
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            # A root already, or no directory of shardlog's.
            return
    make_root(root)
    typer.echo(f"shardlog: {root} was no root yet: it is an empty one now", err=True)


def _end_at_once(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_AT_ONCE)


def _writing(settings: ServeSettings) -> str:
    if settings.is_writable:
        return "everybody on this machine may write"
    return "writing needs a token" if settings.takes_writes else "reading only"


def _tell(server: ShardServer, settings: ServeSettings) -> None:
    """Print the address, and what is open to whom."""
    place = f"listening on {server.url}, root {settings.root.absolute()} (id {server.root_id})"
    by_line = "".join(f", commands by line on {lines.name}" for lines in server.line_servers)
    print_line(f"{place}, {_writing(settings)}{by_line}")
    out_of_date = server.out_of_date()
    if out_of_date is not None:
        typer.echo(f"shardlog: {out_of_date}", err=True)
    if is_loopback(server.host):
        return
    if not settings.has_tokens:
        typer.echo(
            f"shardlog: anybody who reaches {server.address} reads all streams: no token is asked "
            "for",
            err=True,
        )
    if not settings.has_tls:
        typer.echo(
            f"shardlog: what {server.address} sends and is sent can be read on the way, tokens "
            "too: there is no TLS (--tls-cert, --tls-key)",
            err=True,
        )
