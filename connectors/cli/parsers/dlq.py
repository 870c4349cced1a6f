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
    help="Look at dead letters: records that could not be stored, and why.\n\n"
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


@app.command("list", short_help="List the shards that keep dead letters.")
@done_in("connectors.cli.commands.dlq")
def list_(root: Root, stream: OneStream = None, as_json: AsJson = False) -> None:
    """List the shards that keep dead letters: how many, and why the first of them.

    Example: shardlog dlq list ./data telemetry
    """


@app.command("show", short_help="Show dead letters byte for byte, and why.")
@done_in("connectors.cli.commands.dlq")
def show(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    shard: Shard = None,
    start: From = 0,
    limit: Limit = 100,
    form: FormatOption = "table",
) -> None:
    """Show dead letters: the place, the reason, and the record byte for byte.

    Example: shardlog dlq show ./data telemetry --shard 0 --format json
    """


@app.command("replay", short_help="Send forwarded records back where they came from.")
@done_in("connectors.cli.commands.dlq")
def replay(  # noqa: PLR0913 - one parameter an option
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    group: Annotated[
        str, typer.Option(metavar="NAME", help="Whose offsets say what was replayed.")
    ] = _REPLAY_GROUP,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Most records to send back; 0 for all.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be sent back.")
    ] = False,
    kafka: KafkaSettings = None,
) -> None:
    """Send forwarded records back to the partitions they come from, each once.

    What was replayed is not replayed again, also where a replay was killed. Mend first what had the
    records refused, or they come back.

    Example: shardlog dlq replay orders.dlq --dry-run
    """
