"""Arguments and options of `shardlog alter`."""

from typing import Annotated

import typer

from connectors.cli.input.stream_settings import INDEX, SETTINGS
from connectors.cli.parsing.options import Root, StreamName
from connectors.cli.parsing.work import done_in

Settings = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME=VALUE",
        help=f"What to change, as retention_hours=48; `none` for no bound. There are "
        f"{', '.join([*SETTINGS, *INDEX])}.",
        show_default=False,
    ),
]


@done_in("connectors.cli.commands.alter")
def alter(root: Root, stream: StreamName, settings: Settings) -> None:
    """Change settings of a stream: how long it keeps records, what it takes, how it is read.

    Refused while a writer holds the stream: stop the worker first. Prints the old and the new value
    of each; rows that were stored under the old ones do not change.

    Example: shardlog alter ./data telemetry retention_hours=48
    """
