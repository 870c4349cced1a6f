"""What is paused: a small file a partition, which all workers of a root obey.

    <root>/~paused/<topic>~<partition>.json      ~all for a whole stream

A pause is durable: it outlives the worker that obeys it, and whoever the group gives the partition
next obeys it too. A paused partition stays assigned and is not fetched; its shard is closed, so
that its lock is free for whoever changes it.
"""

import errno
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from connectors.group.partition_files import WHOLE_TOPIC, DirectoryChanges, PartitionFiles
from connectors.kafka import Partition
from storage_core import InvalidRequestError, UnavailableError

_DIRECTORY: Final = "~paused"
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a partition, or of all partitions of a stream.

    Attributes:
        stream: The topic, and the stream's name.
        shard: The partition; negative for the whole stream.
        since_ms: When it was paused.
        reason: Why, as whoever paused it said; may be empty.
    """

    stream: str
    shard: int
    since_ms: int
    reason: str = ""

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the pause a file holds.

        Raises:
            ValueError: It holds none.
        """
        content = json.loads(text)
        try:
            return cls(
                str(content["stream"]),
                int(content["shard"]),
                int(content["since_ms"]),
                str(content["reason"]),
            )
        except (KeyError, TypeError) as error:
            message = f"no pause: {error}"
            raise ValueError(message) from error

    @property
    def partition(self) -> Partition:
        """The partition; a negative number for the whole stream."""
        return Partition(self.stream, self.shard)

    def facts(self) -> dict[str, str | int]:
        """Return what is told of it to programs, beside the place."""
        return {"reason": self.reason, "since_ms": self.since_ms}

    def line(self) -> str:
        """Return it as one line for people."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")
        where = self.stream if self.shard < 0 else f"{self.stream} shard {self.shard}"
        return f"paused since {since}: {where}" + (f": {self.reason}" if self.reason else "")


class Pauses:
    """The pauses under a root, as commands write and read them."""

    def __init__(self, root: Path) -> None:
        self._files = PartitionFiles(root, _DIRECTORY)

    def write(self, pause: Pause) -> None:
        """Pause a partition, durably; a pause that is there stays as it is.

        Raises:
            InvalidRequestError: This process may not write under the root.
            UnavailableError: The disk does not take it.
        """
        if self._files.has(pause.partition):
            return
        try:
            self._files.write(pause.partition, json.dumps(asdict(pause), indent=1), is_durable=True)
        except OSError as error:
            raise self._refused(error) from error

    def remove(self, partition: Partition) -> bool:
        """End a pause, durably; return whether there was one.

        Raises:
            InvalidRequestError: This process may not write under the root.
            UnavailableError: The disk does not take it.
        """
        try:
            was_paused = self._files.remove(partition)
            if was_paused:
                self._files.sync()
        except OSError as error:
            raise self._refused(error) from error
        return was_paused

    def read(self) -> list[Pause]:
        """Return all pauses, by stream and shard."""
        pauses = []
        for text in self._files.texts():
            with suppress(ValueError):
                pauses.append(Pause.decode(text))
        return sorted(pauses, key=lambda pause: (pause.stream, pause.shard))

    def of(self, partition: Partition) -> Pause | None:
        """Return the pause that holds for a partition: its own, or its stream's."""
        return pause_of({pause.partition: pause for pause in self.read()}, partition)

    def _refused(self, error: OSError) -> InvalidRequestError | UnavailableError:
        message = f"what is paused cannot be written: {error.strerror or error}"
        if error.errno in _FORBIDDEN:
            message += "; give this process the right to write here, or run it as the owner"
            return InvalidRequestError(message, path=self._files.directory)
        return UnavailableError(message, path=self._files.directory)


class PauseWatch:
    """The pauses under a root, as a worker looks at them again and again. One thread."""

    def __init__(self, root: Path) -> None:
        self._pauses = Pauses(root)
        self._changes = DirectoryChanges(root / _DIRECTORY)
        self._by_partition: Mapping[Partition, Pause] = {}
        # Counts the changes, for whoever acts on them.
        self.version = 0

    def look(self, now_ns: int) -> None:
        """Read the pauses anew if they may have changed.

        Args:
            now_ns: The wall time.
        """
        if self._changes.may_have_changed(now_ns):
            pauses = {pause.partition: pause for pause in self._pauses.read()}
            self.version += pauses != self._by_partition
            self._by_partition = pauses

    def of(self, partition: Partition) -> Pause | None:
        """Return the pause that held for a partition at the last look."""
        return pause_of(self._by_partition, partition)

    def among(self, partitions: Iterable[Partition]) -> dict[Partition, Pause]:
        """Return those of these partitions that were paused at the last look."""
        pauses = ((partition, self.of(partition)) for partition in partitions)
        return {partition: pause for partition, pause in pauses if pause is not None}


def pause_of(pauses: Mapping[Partition, Pause], partition: Partition) -> Pause | None:
    """Return the pause that holds for a partition: its own, or its stream's."""
    return pauses.get(partition) or pauses.get(Partition(partition.topic, WHOLE_TOPIC))
