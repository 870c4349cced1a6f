"""What is paused: a small file a partition, which all workers of a root obey.

    <root>/~paused/<topic>~<partition>.json      ~all for a whole stream

A pause is durable: it outlives the worker that obeys it, and whoever the group gives the partition
next obeys it too. A paused partition stays assigned and is not fetched; its shard is closed, so
that its lock is free for whoever changes it. A file that cannot be read is a pause all the same:
its name says of what, and nobody is to go on for want of its content.
"""

import errno
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from connectors.group.partition_files import DirectoryChanges, PartitionFiles, decoded_note, note_of
from connectors.kafka import Partition
from storage_core import InvalidRequestError, UnavailableError

_DIRECTORY: Final = "~paused"
# Pauses may become others while they are read: then they are read again, so often.
_LISTINGS_MAX: Final = 10
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

    @property
    def partition(self) -> Partition:
        """The partition; a negative number for the whole stream."""
        return Partition(self.stream, self.shard)

    def facts(self) -> dict[str, str | int]:
        """Return what is told of it to programs, beside the place."""
        return {"reason": self.reason, "since_ms": self.since_ms}

    @property
    def since(self) -> str:
        """When it was paused, for people."""
        return datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")

    def line(self) -> str:
        """Return it as one line for people."""
        where = self.stream if self.shard < 0 else f"{self.stream} shard {self.shard}"
        return f"paused since {self.since}: {where}" + (f": {self.reason}" if self.reason else "")


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
        """Return all pauses, by stream and shard.

        Raises:
            UnavailableError: The directory cannot be read.
        """
        pauses: list[Pause | None] = []
        for _ in range(_LISTINGS_MAX):
            try:
                places = self._files.places()
            except OSError as error:
                message = f"what is paused cannot be read: {error.strerror or error}"
                raise UnavailableError(message, path=self._files.directory) from error
            pauses = [_read(partition, place) for partition, place in places.items()]
            # One that went meanwhile may have left others in its place that were not listed.
            if None not in pauses:
                break
        return sorted(filter(None, pauses), key=lambda pause: (pause.stream, pause.shard))

    def of_stream(self, stream: str) -> dict[int, Pause]:
        """Return the pauses of a stream by shard; a negative one is of all of it."""
        return {pause.shard: pause for pause in self.read() if pause.stream == stream}

    def of(self, partition: Partition) -> Pause | None:
        """Return the pause that holds for a partition: its own, or its stream's."""
        return note_of({pause.partition: pause for pause in self.read()}, partition)

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
        if not self._changes.may_have_changed(now_ns):
            return
        try:
            pauses = {pause.partition: pause for pause in self._pauses.read()}
        except UnavailableError:
            # What was paused stays so.
            self._changes.forget()
            return
        self.version += pauses != self._by_partition
        self._by_partition = pauses

    def of(self, partition: Partition) -> Pause | None:
        """Return the pause that held for a partition at the last look."""
        return note_of(self._by_partition, partition)

    def among(self, partitions: Iterable[Partition]) -> dict[Partition, Pause]:
        """Return those of these partitions that were paused at the last look."""
        pauses = ((partition, self.of(partition)) for partition in partitions)
        return {partition: pause for partition, pause in pauses if pause is not None}


def _read(partition: Partition, place: Path) -> Pause | None:
    """Return the pause that a file is, None where it has gone."""
    try:
        since_ms = place.stat().st_mtime_ns // 10**6
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return Pause(*partition, 0, f"its file cannot be read: {error}")
    try:
        pause = decoded_note(text, Pause)
    except ValueError as error:
        return Pause(*partition, since_ms, f"its file cannot be read: {error}")
    return replace(pause, stream=partition.topic, shard=partition.number)
