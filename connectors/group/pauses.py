"""What is paused: a small file a partition, which all workers of a root obey.

    <root>/~paused/<topic>~<partition>.json      ~all for a whole stream

A pause is durable: it outlives the worker that obeys it, and whoever the group gives the partition
next obeys it too. A paused partition stays assigned and is not fetched; its shard is closed, so
that its lock is free for whoever changes it. A file that cannot be read is a pause all the same:
its name says of what, and nobody is to go on for want of its content.

A command may pause for as long as it runs: such a pause says so, and the command holds a lock on
its file, which the kernel frees however the command ends. One that is left is ended by whoever
sees it: a worker within a second, or the next command.
"""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from connectors.group.partition_files import (
    WHOLE_TOPIC,
    DirectoryChanges,
    PartitionFiles,
    decoded_note,
    note_of,
)
from connectors.kafka import Partition
from storage_core import InvalidRequestError, UnavailableError

_DIRECTORY: Final = "~paused"
# Pauses may become others while they are read: then they are read again, so often.
_LISTINGS_MAX: Final = 10
# How often a worker looks whether a command was killed over its pause.
_LEFT_EVERY_NS: Final = 10**9
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a partition, or of all partitions of a stream.

    Attributes:
        stream: The topic, and the stream's name.
        shard: The partition; negative for the whole stream.
        since_ms: When it was paused.
        reason: Why, as whoever paused it said; may be empty.
        ends_with_command: Whether it ends with the command that made it, which holds its file.
    """

    stream: str
    shard: int
    since_ms: int
    reason: str = ""
    ends_with_command: bool = False

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
        """Pause a partition, durably; a pause that is there stays, but for one of a command.

        Raises:
            InvalidRequestError: This process may not write under the root.
            UnavailableError: The disk does not take it.
        """
        if self._lasts(pause.partition):
            return
        try:
            with self._files.locked():
                if not self._lasts(pause.partition):
                    self._files.write(pause.partition, _encode(pause), is_durable=True)
        except OSError as error:
            raise self._refused(error) from error

    def hold(self, pause: Pause) -> "HeldPause | None":
        """Pause a partition for as long as this process lives, or until the pause is ended.

        Returns:
            The pause; None where it is paused already, as it then stays.

        Raises:
            InvalidRequestError: This process may not write under the root.
            UnavailableError: The disk does not take it.
        """
        pause = replace(pause, ends_with_command=True)
        try:
            with self._files.locked():
                earlier = self._files.has(pause.partition) and not self._is_left(pause.partition)
                whole = self._files.has(Partition(pause.stream, WHOLE_TOPIC))
                if earlier or whole:
                    return None
                descriptor = self._files.write_held(pause.partition, _encode(pause))
        except OSError as error:
            raise self._refused(error) from error
        return HeldPause(self._files, pause.partition, descriptor)

    def end_left(self, pause: Pause) -> bool:
        """End a pause whose command has ended without it; return whether it was such a one.

        Raises:
            OSError: It cannot be removed.
        """
        with self._files.locked():
            is_left = self._is_left(pause.partition)
            if is_left:
                self._files.remove(pause.partition)
                self._files.sync()
        return is_left

    def has_ended(self, pause: Pause) -> bool:
        """Tell whether a pause is one that its command has left behind."""
        return pause.ends_with_command and self._is_left(pause.partition)

    def _lasts(self, partition: Partition) -> bool:
        """Tell whether there is a pause that no command will end."""
        if not self._files.has(partition):
            return False
        pause = _read(partition, self._files.place(partition))
        return pause is not None and not pause.ends_with_command

    def _is_left(self, partition: Partition) -> bool:
        pause = _read(partition, self._files.place(partition))
        return pause is not None and pause.ends_with_command and not self._files.is_held(partition)

    def remove(self, partition: Partition) -> bool:
        """End a pause, durably; return whether there was one.

        Raises:
            InvalidRequestError: This process may not write under the root.
            UnavailableError: The disk does not take it.
        """
        if not self._files.has(partition):
            return False
        try:
            with self._files.locked():
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
            pauses = [self._annotated(_read(at, place)) for at, place in places.items()]
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

    def are_any_of(self, partition: Partition) -> bool:
        """Tell whether there is a file that pauses a partition, also one that was left behind."""
        # IMPORTANT: in this order. Who resumes some of a stream pauses the others one by one first.
        whole = Partition(partition.topic, WHOLE_TOPIC)
        return self._files.has(whole) or self._files.has(partition)

    def _annotated(self, pause: Pause | None) -> Pause | None:
        """Return a pause that says so where its command has left it behind."""
        if pause is None or not self.has_ended(pause):
            return pause
        reason = f"{pause.reason}; that command has ended, the next worker to see it resumes"
        return replace(pause, reason=reason)

    def _refused(self, error: OSError) -> InvalidRequestError | UnavailableError:
        message = f"what is paused cannot be written: {error.strerror or error}"
        if error.errno in _FORBIDDEN:
            message += "; give this process the right to write here, or run it as the owner"
            return InvalidRequestError(message, path=self._files.directory)
        return UnavailableError(message, path=self._files.directory)


class HeldPause:
    """A pause of this process, which ends with it. One thread."""

    def __init__(self, files: PartitionFiles, partition: Partition, descriptor: int) -> None:
        """Take over the descriptor that holds the pause's file."""
        self.partition = partition
        self._files = files
        self._descriptor: int | None = descriptor

    def end(self) -> None:
        """End the pause, but not one that an operator has put in its place; once."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            # Where it cannot be removed it is free, and whoever sees it next ends it.
            with suppress(OSError), self._files.locked():
                if self._files.is_of(self.partition, descriptor):
                    self._files.remove(self.partition)
                    self._files.sync()
        finally:
            os.close(descriptor)


class PauseWatch:
    """The pauses under a root, as a worker looks at them again and again. One thread."""

    def __init__(self, root: Path) -> None:
        self._pauses = Pauses(root)
        self._changes = DirectoryChanges(root / _DIRECTORY)
        self._by_partition: Mapping[Partition, Pause] = {}
        self._looked_for_left_ns = 0
        # Counts the changes, for whoever acts on them.
        self.version = 0

    def look(self, now_ns: int) -> None:
        """Read the pauses anew if they may have changed.

        Args:
            now_ns: The wall time.
        """
        self._end_left(now_ns)
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

    def _end_left(self, now_ns: int) -> None:
        """End pauses whose commands were killed; nothing of their directory tells of that."""
        if abs(now_ns - self._looked_for_left_ns) < _LEFT_EVERY_NS:
            return
        self._looked_for_left_ns = now_ns
        for pause in self._by_partition.values():
            if pause.ends_with_command:
                # It is looked for again.
                with suppress(OSError):
                    self._pauses.end_left(pause)

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


def _encode(pause: Pause) -> str:
    return json.dumps(asdict(pause), indent=1)
