"""Arguments and options of `shardlog group reset`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import (
    BOOTSTRAP_DEFAULT,
    AsJson,
    Bootstrap,
    Execute,
    KafkaSettings,
    Root,
    StreamName,
)
from connectors.cli.parsing.work import done_in

Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        metavar="N",
        min=0,
        help="Only this partition; may be given several times. Without it, all that have a shard.",
    ),
]
GroupName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Set the offsets of this consumer group in Kafka too, where it has no members.",
    ),
]


@done_in("connectors.cli.commands.group.reset")
def reset(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Go to the log's start offset.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Go to the last stable offset.")
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Go to this offset.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Go to the first record at or after this time, as 2026-01-31T12:00:00Z, UTC "
            "without a zone, or in ms.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="Go so many offsets on, or back if negative.")
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Go to the records of so long ago, as PT2H30M."),
    ] = None,
    partition: Partitions = None,
    group: GroupName = None,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    kafka: KafkaSettings = None,
    as_json: AsJson = False,
) -> None:
    """Let partitions go on from another offset; without --execute only say what would happen.

    Forward, what lies between is skipped: a gap. Backward, the shard's log is archived and a new
    one begins; readers of the old one, and Spark's checkpoints, are told. Offsets that the topic
    does not have are clamped. Refused while a process holds a shard: pause the partition first.

    Example: shardlog group reset ./data telemetry --to-earliest
    """
