"""Arguments and options of `shardlog verify` and `shardlog accept-loss`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import AsJson, Execute, OneStream, Root, StreamName
from connectors.cli.parsing.work import done_in

Shard = Annotated[int, typer.Option(metavar="N", help="The shard.", show_default=False)]

LossStart = Annotated[
    int, typer.Option("--start", metavar="ADDRESS", help="First address.", show_default=False)
]
LossEnd = Annotated[
    int, typer.Option("--end", metavar="ADDRESS", help="Exclusive end.", show_default=False)
]


ReadsLake = Annotated[bool, typer.Option("--lake", help="Read what only the lake has, too.")]


@done_in("connectors.cli.commands.repair")
def verify(
    root: Root, stream: OneStream = None, lake: ReadsLake = False, as_json: AsJson = False
) -> None:
    """Read all that is stored, and report damage.

    Every block, zone, late row and part is read. A line for each stream says what was checked and,
    below it, what was not; the exit code is 5 where there is a problem. Like a worker's start it
    recovers what a crash left. Of parts that only the lake has it is asked whether they are there;
    --lake reads them. Refused while a writer holds the stream: stop the worker first.

    Example: shardlog verify ./data telemetry
    """


@done_in("connectors.cli.commands.repair")
def accept_loss(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    shard: Shard,
    start: LossStart,
    end: LossEnd,
    execute: Execute = False,
) -> None:
    """Accept the loss of a range of addresses, so that reads skip it; `status` lists lost ranges.

    Refused while a writer holds the shard. Without --execute it only says what would happen.

    Example: shardlog accept-loss ./data orders --shard 0 --start 10 --end 20
    """
