"""Arguments and options of `shardlog dlq`."""

from typing import Annotated, Final

import typer

from connectors.cli.parsing.group import Group
from connectors.cli.parsing.options import (
    BOOTSTRAP_DEFAULT,
    AsJson,
    Bootstrap,
    FormatOption,
    KafkaSettings,
    OneStream,
    Root,
    StreamName,
)
from connectors.cli.parsing.work import done_in

_REPLAY_GROUP: Final = "shardlog-replay"

app = typer.Typer(
    cls=Group,
    help="Show and replay dead letters: records that could not be parsed.\n\n"
    "Example: shardlog dlq list ./data",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Shard = Annotated[
    int | None, typer.Option(metavar="N", help="Only this shard; without it, one after the other.")
]
From = Annotated[int, typer.Option("--from", metavar="OFFSET", min=0, help="The first offset.")]

Limit = Annotated[
    int, typer.Option(metavar="N", min=0, help="Most dead letters of each shard; 0 for all.")
]


@app.command("list", short_help="List the shards that have dead letters.")
@done_in("connectors.cli.commands.dlq")
def list_(root: Root, stream: OneStream = None, as_json: AsJson = False) -> None:
    """List the shards that have dead letters: how many, and the reason of the first.

    Example: shardlog dlq list ./data telemetry
    """


@app.command("show", short_help="Show dead letters byte for byte, and their reasons.")
@done_in("connectors.cli.commands.dlq")
def show(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    shard: Shard = None,
    start: From = 0,
    limit: Limit = 100,
    form: FormatOption = "table",
) -> None:
    """Show dead letters: offset, reason, and the record byte for byte.

    Example: shardlog dlq show ./data telemetry --shard 0 --format json
    """


@app.command("replay", short_help="Send forwarded records back to their partitions.")
@done_in("connectors.cli.commands.dlq")
def replay(  # noqa: PLR0913 - one parameter an option
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    group: Annotated[
        str,
        typer.Option(metavar="NAME", help="Consumer group whose offsets say what was replayed."),
    ] = _REPLAY_GROUP,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Most records to send back; 0 for all.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent back.")
    ] = False,
    kafka: KafkaSettings = None,
) -> None:
    """Send forwarded records back to the partitions they came from, each once.

    A record that was replayed is not replayed again, even if a replay was killed. Fix the cause
    first, or the records come back as dead letters.

    Example: shardlog dlq replay orders.dlq --dry-run
    """
