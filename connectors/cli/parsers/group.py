"""Arguments and options of `shardlog group`."""

from typing import Annotated

import typer

from connectors.cli.parsers.group_reset import reset
from connectors.cli.parsers.status import Brokers, BrokerWait
from connectors.cli.parsing.group import Group
from connectors.cli.parsing.options import AsJson, KafkaSettings, OneStream, Root, StreamName
from connectors.cli.parsing.work import done_in

app = typer.Typer(
    cls=Group,
    help="Show what workers do with each partition; pause, resume, retry, reset partitions.\n\n"
    "The root is the truth, Kafka's group offsets a copy of it.\n\n"
    "Example: shardlog group describe ./data --bootstrap 127.0.0.1:9092",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

app.command("reset", short_help="Let partitions go on from another offset.")(reset)

Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        metavar="N",
        min=0,
        help="Only this partition; may be given several times. Without it, all.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="How long to wait until the workers have done it."),
]


@app.command("describe", short_help="Show offsets, lag, state and owner of each partition.")
@done_in("connectors.cli.commands.group.describe")
def describe(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: OneStream = None,
    partition: Partitions = None,
    group: Annotated[
        str, typer.Option(metavar="NAME", help="The group.id of the workers.")
    ] = "shardlog",
    members: Annotated[
        bool, typer.Option("--members", help="Show the group's members and what each has.")
    ] = False,
    watch: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.1, help="Show it anew so often, until Ctrl-C."),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Brokers = None,
    kafka: KafkaSettings = None,
    broker_wait: BrokerWait = 5.0,
) -> None:
    """Show offsets, lag, state and owner of each partition.

    The current offset and the owner are the store's own, and need neither worker nor broker; log
    ends, lag and members are Kafka's. States: `ok`; `behind`, records wait and are being stored;
    `stalled`, nothing was committed for 30 s; `rewinding`, records are fetched again that the store
    lost; `stopped`, no process holds the shard; `paused`; `quarantined`. With brokers, partitions
    that have no shard yet are listed too, with all that their logs have as their lag.

    Ends with code 0 where all are ok, behind, rewinding or paused, with 3 where one is stalled, or
    is stopped and has a shard or a lag, and with the code of the oldest fault where one is
    quarantined.

    Example: shardlog group describe ./data --bootstrap 127.0.0.1:9092 --watch 2
    """


@app.command("pause", short_help="Stop storing partitions, until they are resumed.")
@done_in("connectors.cli.commands.group.pause")
def pause(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    partition: Partitions = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, for whoever sees it paused.")
    ] = "",
    wait: Wait = 10.0,
    as_json: AsJson = False,
) -> None:
    """Stop storing partitions, until they are resumed.

    Workers close the shards within a second and keep the partitions; others go on. A pause holds
    through restarts and rebalances. Without --partition the whole stream is paused, with partitions
    that are added later. Ends with code 3 where a shard is still open after the wait.

    Example: shardlog group pause ./data telemetry --partition 2 --reason mended
    """


@app.command("resume", short_help="Store paused partitions again.")
@done_in("connectors.cli.commands.group.pause")
def resume(
    root: Root,
    stream: StreamName,
    partition: Partitions = None,
    wait: Wait = 10.0,
    as_json: AsJson = False,
) -> None:
    """Store paused partitions again, from where their shards stand.

    Example: shardlog group resume ./data telemetry
    """


@app.command("retry", short_help="Try quarantined partitions again now.")
@done_in("connectors.cli.commands.group.pause")
def retry(
    root: Root,
    stream: StreamName,
    partition: Partitions = None,
    wait: Wait = 10.0,
    as_json: AsJson = False,
) -> None:
    """Try quarantined partitions again now, not when their turn comes.

    Ends with code 3 where one is still quarantined. `shardlog status` has the reasons.

    Example: shardlog group retry ./data telemetry --partition 2
    """
