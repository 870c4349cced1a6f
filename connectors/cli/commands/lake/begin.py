"""`shardlog lake begin`: shards get new logs that begin with what their table has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.lake.target import stream_target
from connectors.cli.exit_codes import EXIT_DAMAGE
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.output.formatting import counted
from connectors.cli.output.printing import print_json, print_line
from connectors.cli.output.progress_bar import progress_bar
from connectors.group.reset import check_same_topic
from connectors.group.retry_shards import partition_of
from connectors.kafka import Admin, OffsetAdmin, Partition
from storage_core import InvalidRequestError, UnavailableError, describe_stream
from storage_core.lake import (
    BeginProspect,
    BegunShard,
    LakeTarget,
    begin_from_lake,
    begin_prospects,
)

_BROKER_WAIT_S: Final = 10.0


def begin(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    shard: list[int],
    accept_loss: bool,
    execute: bool,
    bootstrap: str | None,
    kafka: list[str] | None,
    lake_options: Path | None,
    as_json: bool,
) -> None:
    """Let shards begin from the lake, or say what it would do."""
    target = stream_target(root, stream, lake_options)
    prospects = begin_prospects(root, stream, shard, target)
    # Kafka is asked about shards that can begin alone: of others it may have no partition.
    for prospect in prospects:
        _refuse_unpublished(stream, prospect)
    lows: Mapping[int, int] = {}
    if bootstrap is not None:
        settings: dict[str, object] = {**kafka_settings(kafka), "bootstrap.servers": bootstrap}
        lows = _lows(root, stream, shard, settings)
    if not accept_loss:
        for prospect in prospects:
            _refuse_loss(stream, prospect, lows.get(prospect.shard))
    if not execute:
        _print_prospects(prospects, as_json=as_json)
        return
    begun: list[BegunShard] = []
    try:
        with progress_bar(None, "file") as progress:
            for prospect in prospects:
                begun.append(_begin(root, stream, prospect, target, progress))
                if not as_json:
                    _print_begun(begun[-1])
    finally:
        # Shards that began before another was refused have begun all the same.
        if as_json:
            print_json([{**asdict(one), "is_executed": True} for one in begun])
    if any(one.damaged_runs or one.without_run for one in begun):
        raise typer.Exit(EXIT_DAMAGE)


def _begin(
    root: Path,
    stream: str,
    prospect: BeginProspect,
    target: LakeTarget,
    progress: Callable[[int], None],
) -> BegunShard:
    """Let one shard begin.

    Raises:
        ShardlogError: As `begin_from_lake` does.
        UnavailableError: The table was made anew meanwhile.
    """
    number = prospect.shard
    begun = begin_from_lake(
        root, stream, [number], target, on_progress=lambda done, _: progress(done)
    )
    if number not in begun:
        message = "the table was made anew meanwhile; try again"
        raise UnavailableError(message, stream=stream, shard=number)
    return begun[number]


def _lows(
    root: Path, stream: str, shards: Sequence[int], settings: dict[str, object]
) -> Mapping[int, int]:
    """Return where Kafka's log begins, of each shard that is a partition."""
    origin = describe_stream(root, stream).origin
    if origin is None:
        return {}
    admin = Admin(settings)
    admin.await_broker(_BROKER_WAIT_S)
    topic_ids = admin.ask_topic_ids([origin.topic])(_BROKER_WAIT_S)
    check_same_topic(stream, origin.topic_id, topic_ids, origin.topic)
    partitions = [Partition(origin.topic, one) for one in shards if partition_of(one) is None]
    edges = OffsetAdmin(settings).edges(partitions, "earliest")
    return {partition.number: low for partition, low in edges.items()}


def _refuse_unpublished(stream: str, prospect: BeginProspect) -> None:
    """Refuse a shard of which the table has nothing.

    Raises:
        InvalidRequestError: It has nothing of it.
    """
    if prospect.published is None:
        message = "the table has nothing of this shard, so that it cannot begin from there"
        raise InvalidRequestError(message, stream=stream, shard=prospect.shard)


def _refuse_loss(stream: str, prospect: BeginProspect, low: int | None) -> None:
    """Refuse to put a log aside that may have rows which neither the table nor Kafka has.

    Raises:
        InvalidRequestError: It may.
    """
    beyond = prospect.beyond
    if beyond is None or (low is not None and low <= beyond.start):
        return
    is_known = beyond.start < beyond.end
    has = "this log alone has these rows" if is_known else "nobody knows how far this log goes"
    if low is None:
        why = "if Kafka has no more what comes behind the table: --bootstrap lets this ask it"
    else:
        why = f"since the table ends at {beyond.start} and Kafka begins at {low}"
    message = (
        f"{has}, {why}; `shardlog lake publish` publishes what can be read of it, --accept-loss "
        "goes on without it"
    )
    start, end = (beyond.start, beyond.end) if is_known else (None, None)
    raise InvalidRequestError(message, stream=stream, shard=prospect.shard, start=start, end=end)


def _print_prospects(prospects: Sequence[BeginProspect], *, as_json: bool) -> None:
    if as_json:
        print_json([{**asdict(one), "is_executed": False} for one in prospects])
        return
    for prospect in prospects:
        print_line(_prospect_line(prospect))
    print_line("nothing was changed; add --execute to do it")


def _prospect_line(prospect: BeginProspect) -> str:
    archived = ""
    if prospect.has_log:
        goes = "has no marker that can be read"
        if prospect.committed is not None:
            goes = f"goes up to {prospect.committed}"
        archived = f"; its log, which {goes}, would be archived"
    return (
        f"shard {prospect.shard} would begin from the lake, up to {prospect.published}, where "
        f"Kafka goes on{archived}"
    )


def _print_begun(begun: BegunShard) -> None:
    rows, files = counted(begun.rows, "row"), counted(begun.files, "file")
    archived = "; the log before is archived" if begun.archived else ""
    print_line(
        f"shard {begun.shard} began from the lake: {rows} in {files}, up to {begun.end}, where "
        f"Kafka goes on{archived}"
    )
    for run in begun.damaged_runs:
        print_line(f"  damaged: {run}")
    for gap in begun.without_run:
        addresses = f"addresses [{gap.start}, {gap.end})"
        print_line(f"  no heads run covers {addresses}: dead letters that lie there are not known")
