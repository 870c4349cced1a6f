"""Arguments and options of `shardlog expire`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import AsJson, Execute, Root, StreamName
from connectors.cli.parsing.work import done_in

Now = Annotated[
    int | None,
    typer.Option(
        metavar="TIME",
        help="Expire as of this time, in the stream's unit.",
        show_default="the clock's",
    ),
]


@done_in("connectors.cli.commands.expire")
def expire(
    root: Root,
    stream: StreamName,
    now: Now = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete rows by retention and caps; a worker does so by itself.

    Refused while a writer holds the stream. Without --execute it only says what would be deleted.

    Example: shardlog expire ./data telemetry --execute
    """
