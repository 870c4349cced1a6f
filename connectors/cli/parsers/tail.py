"""Arguments and options of `shardlog tail`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import (
    Columns,
    Ids,
    KeyHexes,
    KeyTexts,
    Limit,
    OutputOption,
    Overwrite,
    Raw,
    RootOrServers,
    SchemaFile,
    StreamName,
    To,
)
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in

Shard = Annotated[
    int | None, typer.Option(metavar="N", help="Only this shard; without it, all in turn.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="First address; `end` for what is yet to come. Without it, the start of the log.",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what is committed, until Ctrl-C.")
]

Archived = Annotated[
    str | None,
    typer.Option(
        metavar="LINEAGE",
        help="Show a log that `shardlog group reset` has archived; `shardlog drop --archived` "
        "lists them.",
    ),
]

RetryFor = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        min=0,
        max=31_536_000,
        help="With --server: for how many seconds to try again where no server answers; 10 "
        "without it.",
    ),
]


@by_server
@done_in("connectors.cli.commands.tail")
def tail(  # noqa: PLR0913 - one parameter an option
    root: RootOrServers,
    stream: StreamName,
    shard: Shard = None,
    start: From = None,
    follow: Follow = False,
    ids: Ids = None,
    columns: Columns = None,
    form: OutputOption = None,
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    to: To = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    schema: SchemaFile = None,
    archived: Archived = None,
    limit: Limit = 0,
    retry_for: RetryFor = None,
) -> None:
    """Show rows by address with their state: 0 normal, 1 late, 2 ahead, 3 expired.

    Example: shardlog tail ./data telemetry --shard 0 --from 1000 --follow
    """
