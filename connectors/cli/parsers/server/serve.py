"""Arguments and options of `shardlog serve`."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.cli.parsing.options import Root
from connectors.cli.parsing.work import done_in

Listen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", help="Where to listen; port 0 takes any, and a line says which."
    ),
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert", metavar="FILE", help="Encrypt: the certificate, and those above it, as PEM."
    ),
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key, as PEM.")
]
ReadTokens = Annotated[
    Path | None,
    typer.Option(
        "--read-token-file",
        metavar="FILE",
        help="Ask for a token: those in this file may read, one a line.",
    ),
]
WriteTokens = Annotated[
    Path | None,
    typer.Option(
        "--write-token-file", metavar="FILE", help="Tokens that may write as well as read."
    ),
]
Anonymous = Annotated[
    bool,
    typer.Option("--anonymous", help="Let anybody read who reaches the address, without a token."),
]
Writable = Annotated[
    bool,
    typer.Option("--writable", help="Let everybody on this machine write, without a token."),
]
CommandListen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Take a command a line over TCP, from this machine alone; port 0 takes any.",
    ),
]
CommandSocket = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Take a command a line over a Unix socket at this path."),
]
RememberedRowsMax = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Most rows of a remembered query, the newest; 0 for all."
    ),
]
RememberedHoursMax = Annotated[
    float,
    typer.Option(
        metavar="H", min=0, max=876_000, help="Since when they were stored; 0 for all of them."
    ),
]
NoPage = Annotated[
    bool, typer.Option("--no-page", help="Leave out the page that a browser finds at /.")
]
ConnectionsMax = Annotated[
    int, typer.Option(metavar="N", min=1, max=10_000, help="Most connections at once.")
]
AnswersMax = Annotated[
    int, typer.Option(metavar="N", min=1, max=1000, help="Most answers with rows at once.")
]
RowsMax = Annotated[
    int, typer.Option(metavar="N", min=0, help="Most rows of an answer; 0 for no limit.")
]
SecondsMax = Annotated[
    float, typer.Option(metavar="S", min=1, help="Most seconds of an answer, to its last byte.")
]
ReadMibMax = Annotated[
    int,
    typer.Option(
        metavar="MIB", min=1, help="Most MiB of rows that one `read` gathers before it is sent."
    ),
]
HeldMibMax = Annotated[
    int,
    typer.Option(metavar="MIB", min=1, help="Most MiB of such rows that all answers hold at once."),
]
StageMibMax = Annotated[
    int,
    typer.Option(metavar="MIB", min=1, max=2048, help="Most MiB of rows that one request stages."),
]


@done_in("connectors.cli.commands.server.serve")
def serve(  # noqa: PLR0913 - one parameter an option
    root: Root,
    listen: Listen = "127.0.0.1:8085",
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    read_tokens: ReadTokens = None,
    write_tokens: WriteTokens = None,
    anonymous: Anonymous = False,
    writable: Writable = False,
    command_listen: CommandListen = None,
    command_socket: CommandSocket = None,
    remembered_rows_max: RememberedRowsMax = 0,
    remembered_hours_max: RememberedHoursMax = 0.0,
    no_page: NoPage = False,
    connections_max: ConnectionsMax = 256,
    answers_max: AnswersMax = 32,
    rows_max: RowsMax = 0,
    seconds_max: SecondsMax = 3600.0,
    read_mib_max: ReadMibMax = 256,
    held_mib_max: HeldMibMax = 512,
    stage_mib_max: StageMibMax = 64,
) -> None:
    """Serve the streams of a root over HTTP, until SIGTERM or Ctrl-C.

    Clients read them as by path: StreamReader.open("shardlog://host:port", "stream"). The same port
    has /health/live, /health/ready and /metrics. It reads beside workers and writers, and needs
    none of them. With --write-token-file, or --writable on this machine, it writes what Spark's
    sink stages, and what commands store (POST /command). A browser finds a page to try them at the
    address. docs/SERVER.md has the calls.

    Example: shardlog serve ./data --listen 127.0.0.1:8085
    """
