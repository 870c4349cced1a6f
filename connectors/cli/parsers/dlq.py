"""Arguments and options of `shardlog dlq`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from connectors.cli.parsing.dead_letter_filters import ALL, DeadLetterFilters, with_filters
from connectors.cli.parsing.group import Group
from connectors.cli.parsing.options import (
    BOOTSTRAP_DEFAULT,
    AsJson,
    Bootstrap,
    Execute,
    FormatOption,
    KafkaSettings,
    OneStream,
    Overwrite,
    Root,
    StreamName,
)
from connectors.cli.parsing.work import done_in

_REPLAY_GROUP: Final = "shardlog-replay"

app = typer.Typer(
    cls=Group,
    help="Show, retry, discard and replay dead letters: records that could not be parsed.\n\n"
    "Example: shardlog dlq list ./data",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only judge, and say what would come of it; nothing is changed."
    ),
]
PausesFirst = Annotated[
    bool,
    typer.Option(
        "--pause",
        help="Pause the partitions meanwhile, and let those go on that were not paused before.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="With --pause, how long to wait for workers."),
]
From = Annotated[int, typer.Option("--from", metavar="OFFSET", min=0, help="The first offset.")]

Limit = Annotated[
    int, typer.Option(metavar="N", min=0, help="Most dead letters of each shard; 0 for all.")
]


@app.command("list", short_help="List the shards that have dead letters.")
@with_filters
@done_in("connectors.cli.commands.dlq")
def list_(
    root: Root,
    stream: OneStream = None,
    filters: DeadLetterFilters = ALL,
    as_json: AsJson = False,
) -> None:
    """List the shards that have dead letters: how many, and the reason of the first.

    With filters it looks at each dead letter that is kept.

    Example: shardlog dlq list ./data telemetry
    """


@app.command("show", short_help="Show dead letters byte for byte, and their reasons.")
@with_filters
@done_in("connectors.cli.commands.dlq")
def show(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    filters: DeadLetterFilters = ALL,
    start: From = 0,
    limit: Limit = 100,
    form: FormatOption = "table",
) -> None:
    """Show dead letters: offset, reason, and the record byte for byte.

    Example: shardlog dlq show ./data telemetry --partition 0 --format json
    """


@app.command("export", short_help="Write dead letters to a file of JSON lines.")
@with_filters
@done_in("connectors.cli.commands.dlq_work")
def export(
    root: Root,
    stream: StreamName,
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FILE", help="Write to this file; - is standard output."),
    ],
    overwrite: Overwrite = False,
    filters: DeadLetterFilters = ALL,
) -> None:
    """Write dead letters to a file, one JSON object a line; they stay where they are.

    Key, value and the values of headers are base64. The file appears once all of it is written.

    Example: shardlog dlq export ./data telemetry --to dead-letters.jsonl
    """


@app.command("retry", short_help="Store dead letters as rows that are well by now.")
@with_filters
@done_in("connectors.cli.commands.dlq_work")
def retry(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The worker's TOML file: registry, null_key."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The schema registry, instead of that of --config."),
    ] = None,
    filters: DeadLetterFilters = ALL,
    pause: PausesFirst = False,
    wait: Wait = 60.0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Judge dead letters again, and store as rows those that are well by now, each once.

    Mend the cause first: register the schema, raise payload_bytes_max by `shardlog alter`. Rows go
    to the partition's retry shard, 1000000 + its number; readers and queries see them as new rows.
    Nothing is sent to Kafka. The partition must be paused (--pause, `shardlog group pause`) or its
    worker stopped; a dry run needs neither. What is still refused stays, with its reasons.

    Example: shardlog dlq retry ./data telemetry --config shardlog.toml
    """


@app.command("discard", short_help="Delete dead letters for good.")
@with_filters
@done_in("connectors.cli.commands.dlq_work")
def discard(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    filters: DeadLetterFilters = ALL,
    all_: Annotated[bool, typer.Option("--all", help="All dead letters of the stream.")] = False,
    pause: PausesFirst = False,
    wait: Wait = 60.0,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters for good, and count them as discarded.

    Without --execute a table says which it would be, and nothing is changed. Without a filter it
    needs --all. The partition must be paused (--pause, `shardlog group pause`) or its worker
    stopped.

    Example: shardlog dlq discard ./data telemetry --reason body --execute
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
