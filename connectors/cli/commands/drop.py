"""`shardlog drop`: drop a stream, so that its name and its group can be used again.

Nothing is changed without `--execute`. The directory is moved to `ROOT/~dropped`; moving it back
undoes it. The drop is remembered, so that a worker reads the topic from its start again, whatever
the group's offsets.
"""

from pathlib import Path
from typing import Final

from connectors.cli.output.formatting import counted, format_bytes
from connectors.cli.output.printing import print_line, print_lines
from connectors.group.pauses import Pauses
from connectors.group.quarantine_notes import QuarantineNotes
from connectors.kafka import Partition
from storage_core import (
    ShardlogError,
    StreamReader,
    archived_shard_directory,
    archived_shards,
    describe_stream,
    drop_stream,
    remove_archived_shards,
)
from storage_core.platform.disk_usage import disk_bytes

_UNKNOWN: Final = "its records cannot be counted"


def drop(*, root: Path, stream: str, remove: bool, archived: bool, execute: bool) -> None:
    """Drop a stream: move its directory away, or remove it; or remove its archived logs."""
    if archived:
        _drop_archived(root, stream, execute=execute)
        return
    description = _described(root, stream)
    if not execute:
        action = "remove" if remove else "move away"
        print_line(f"would {action} {description}; nothing was changed, add --execute to do it")
        return
    place = drop_stream(root, stream, keep=not remove)
    # What is paused is paused of this stream, not of the one that begins anew under its name.
    pauses = Pauses(root)
    for pause in pauses.of_stream(stream).values():
        pauses.remove(pause.partition)
    # Its quarantined partitions are released; workers notice by themselves.
    notes = QuarantineNotes(root)
    for note in notes.read():
        if note.stream == stream:
            notes.remove(Partition(note.stream, note.shard))
    if place is None:
        print_line(f"removed {description}")
    else:
        print_line(f"dropped {description}: its files are in {place}")


def _drop_archived(root: Path, stream: str, *, execute: bool) -> None:
    logs = archived_shards(root, stream)
    lines = []
    for log in logs:
        place = archived_shard_directory(root, stream, log)
        size = format_bytes(0 if place is None else disk_bytes(place))
        # One whose marker was lost has no end that anybody could tell, and may have any rows.
        offsets = f"{log.born}-{log.end}" if log.end > log.born else f"from {log.born} on"
        lines.append(f"shard {log.shard}: offsets {offsets}, {size}: {log.lineage}")
    if execute:
        remove_archived_shards(root, stream)
        lines.append(f"removed {counted(len(logs), 'archived log')} of stream {stream!r}")
    else:
        lines.append(
            f"would remove {counted(len(logs), 'archived log')} of stream {stream!r}; nothing "
            "was changed, add --execute to do it"
        )
    print_lines(lines)


def _described(root: Path, stream: str) -> str:
    size = format_bytes(disk_bytes(root / stream))
    shards = len(describe_stream(root, stream).shards)
    try:
        with StreamReader.open(root, stream) as reader:
            records = counted(reader.stats().records, "record")
    except ShardlogError:
        records = _UNKNOWN
    return f"stream {stream!r} ({counted(shards, 'shard')}, {records}, {size})"
