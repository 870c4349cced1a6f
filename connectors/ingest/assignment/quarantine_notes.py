"""What workers have quarantined, for other processes: a small file a partition.

    <root>/~quarantine/<topic>~<partition>.json      ~all for a whole topic

No topic has a `~` in its name, so none meets these. A note is information: it is replaced as a
whole, not synced, and a disk that does not take it stops nobody. It stays when its worker ends,
however it ends, and goes when any worker has opened the shard again.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from connectors.kafka import Partition

# In place of a partition's number: all of a topic.
WHOLE_TOPIC: Final = -1
_DIRECTORY: Final = "~quarantine"
_ALL: Final = "all"


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

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the note a file holds.

        Raises:
            ValueError: It holds none.
        """
        content = json.loads(text)
        try:
            return cls(
                str(content["stream"]),
                int(content["shard"]),
                int(content["since_ms"]),
                str(content["kind"]),
                str(content["reason"]),
            )
        except (KeyError, TypeError) as error:
            message = f"no note: {error}"
            raise ValueError(message) from error

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
        self._directory = root / _DIRECTORY

    def write(self, note: QuarantineNote) -> None:
        """Leave a note, in place of one that is there; under a root only that is there."""
        place = self._place(Partition(note.stream, note.shard))
        scratch = place.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._directory.mkdir(exist_ok=True)
            scratch.write_text(note.encode(), encoding="utf-8")
            scratch.replace(place)

    def remove(self, partition: Partition) -> None:
        """Take a note away, if there is one."""
        with suppress(OSError):
            self._place(partition).unlink()

    def has(self, partition: Partition) -> bool:
        """Tell whether there is a note."""
        return self._place(partition).exists()

    def read(self) -> Iterator[QuarantineNote]:
        """Yield all notes by stream and shard; a file that holds none is passed over."""
        notes = []
        for place in self._directory.glob("*.json"):
            with suppress(OSError, ValueError):
                notes.append(QuarantineNote.decode(place.read_text(encoding="utf-8")))
        yield from sorted(notes, key=lambda note: (note.stream, note.shard))

    def _place(self, partition: Partition) -> Path:
        number = partition.number if partition.number >= 0 else _ALL
        return self._directory / f"{partition.topic}~{number}.json"
