"""What workers have quarantined, for other processes: a small file a partition.

    <root>/~quarantine/<topic>~<partition>.json      ~all for a whole topic

A note is information: it is not synced, and a disk that does not take it stops nobody. It stays
when its worker ends, however it ends, and goes when any worker has opened the shard again. Where
the disk is full an empty file stands for it, as that takes no room.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from connectors.group.partition_files import WHOLE_TOPIC, PartitionFiles, decoded_note
from connectors.kafka import Partition

__all__ = ["WHOLE_TOPIC", "QuarantineNote", "QuarantineNotes"]

_DIRECTORY: Final = "~quarantine"
# What an empty file says: the note itself is a write that failed.
_UNWRITTEN_KIND: Final = "write_failed"
_UNWRITTEN: Final = "the disk has no room for the note that says why; the worker's log has it"


@dataclass(frozen=True, slots=True)
class QuarantineNote:
    """Why a partition is quarantined.

    Attributes:
        stream: The topic, and the stream's name.
        shard: The partition; negative for all of the topic.
        since_ms: When it was quarantined.
        kind: The kind of fault, as `on_fault` names it.
        reason: What the error said.
    """

    stream: str
    shard: int
    since_ms: int
    kind: str
    reason: str

    @property
    def partition(self) -> Partition:
        """The partition; a negative number for all of the topic."""
        return Partition(self.stream, self.shard)

    def facts(self) -> dict[str, str | int]:
        """Return what is told of it to programs, beside the place."""
        return {"kind": self.kind, "reason": self.reason, "since_ms": self.since_ms}

    def line(self) -> str:
        """Return it as one line for people."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")
        where = self.stream if self.shard < 0 else f"{self.stream} shard {self.shard}"
        return f"quarantined since {since}: {where}, {self.kind}: {self.reason}"

    def encode(self) -> str:
        """Return what its file holds."""
        return json.dumps(asdict(self), indent=1)


class QuarantineNotes:
    """The notes under a root."""

    def __init__(self, root: Path) -> None:
        self._files = PartitionFiles(root, _DIRECTORY)

    def prepare(self) -> None:
        """Make room for empty files, while there is some."""
        self._files.prepare()

    def write(self, note: QuarantineNote, tried_ns: int | None = None) -> OSError | None:
        """Leave a note, in place of one that is there; under a root only that is there.

        Args:
            note: The note.
            tried_ns: When the partition was tried last; the time of the file. None for now.

        Returns:
            Why the disk did not take it; then an empty one is there, if it takes that.
        """
        try:
            self._files.write(note.partition, note.encode(), is_durable=False, time_ns=tried_ns)
        except OSError as error:
            with suppress(OSError):
                self._files.touch(note.partition, tried_ns)
            return error
        return None

    def remove(self, partition: Partition) -> None:
        """Take a note away, if there is one."""
        with suppress(OSError):
            self._files.remove(partition)

    def has(self, partition: Partition) -> bool:
        """Tell whether there is a note."""
        return self._files.has(partition)

    def partitions(self) -> set[Partition]:
        """Return of what there are notes, whatever they say."""
        with suppress(OSError):
            return set(self._files.places())
        return set()

    def tried_ns(self, partition: Partition) -> int:
        """Return when the partition was tried last, in vain; 0 if there is no note."""
        with suppress(OSError):
            return self._files.place(partition).stat().st_mtime_ns
        return 0

    def of_stream(self, stream: str) -> dict[Partition, QuarantineNote]:
        """Return the notes on a stream's partitions, and on all of it."""
        return {note.partition: note for note in self.read() if note.stream == stream}

    def read(self) -> Iterator[QuarantineNote]:
        """Yield all notes by stream and shard; a file that holds none is skipped."""
        notes = []
        with suppress(OSError):
            for partition, place in self._files.places().items():
                with suppress(OSError, ValueError):
                    notes.append(_note_in(partition, place))
        yield from sorted(notes, key=lambda note: (note.stream, note.shard))


def _note_in(partition: Partition, place: Path) -> QuarantineNote:
    text = place.read_text(encoding="utf-8")
    if text:
        return decoded_note(text, QuarantineNote)
    since_ms = place.stat().st_mtime_ns // 10**6
    return QuarantineNote(*partition, since_ms, _UNWRITTEN_KIND, _UNWRITTEN)
