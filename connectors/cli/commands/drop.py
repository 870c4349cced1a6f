"""`shardlog drop`: take a stream away, so that its name and its group can be used anew.

Nothing is changed without `--execute`. The stream is set aside under the root; moving it back
undoes it. What was dropped is remembered, so that a worker takes the topic again from its start
though the group stands further.
"""

from pathlib import Path
from typing import Final

from connectors.cli.output.printing import print_line
from connectors.cli.output.shown import bytes_below, counted, shown_bytes
from connectors.ingest.assignment.quarantine_notes import QuarantineNotes
from connectors.kafka import Partition
from storage_core import ShardlogError, StreamReader, describe_stream, drop_stream

_UNKNOWN: Final = "its records cannot be counted"


def drop(*, root: Path, stream: str, remove: bool, execute: bool) -> None:
    """Take a stream away: set it aside under the root, or remove it."""
    what = _described(root, stream)
    if not execute:
        done = "remove" if remove else "set aside"
        print_line(f"would {done} {what}; nothing was changed, add --execute to do it")
        return
    place = drop_stream(root, stream, keep=not remove)
    # What workers had set aside of it is over; they find out by themselves.
    notes = QuarantineNotes(root)
    for note in notes.read():
        if note.stream == stream:
            notes.remove(Partition(note.stream, note.shard))
    if place is None:
        print_line(f"removed {what}")
    else:
        print_line(f"set aside {what}: it lies in {place}")


def _described(root: Path, stream: str) -> str:
    size = shown_bytes(bytes_below(root / stream))
    shards = len(describe_stream(root, stream).shards)
    try:
        with StreamReader.open(root, stream) as reader:
            records = counted(reader.stats().records, "record")
    except ShardlogError:
        records = _UNKNOWN
    return f"stream {stream!r} ({counted(shards, 'shard')}, {records}, {size})"
