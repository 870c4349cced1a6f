"""Arguments and options of `shardlog drop`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import Execute, Root, StreamName
from connectors.cli.parsing.work import done_in

Remove = Annotated[
    bool, typer.Option("--remove", help="Remove its files; without it they are moved away.")
]


Archived = Annotated[
    bool,
    typer.Option(
        "--archived",
        help="Remove only the logs that `shardlog group reset` has archived; the stream stays.",
    ),
]


@done_in("connectors.cli.commands.drop")
def drop(
    root: Root,
    stream: StreamName,
    remove: Remove = False,
    archived: Archived = False,
    execute: Execute = False,
) -> None:
    """Drop a stream: move its directory to ROOT/~dropped, or remove it.

    Refused while a writer holds the stream. Without --execute it only says what would happen.
    A worker of the same group then reads the topic again, from where `start` says.

    Example: shardlog drop ./data telemetry --execute
    """
