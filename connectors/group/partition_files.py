"""A small JSON file a partition, in a directory of the root that is no stream's.

    <root>/<directory>/<topic>~<partition>.json      ~all for a whole topic

No topic has a `~` in its name, so none meets these. A file is replaced as a whole. Whether the
directory has changed since it was read costs one call to find out.
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

from connectors.kafka import Partition

_T = TypeVar("_T")

# In place of a partition's number: all of a topic.
WHOLE_TOPIC: Final = -1
_ALL: Final = "all"
# The times of a directory are this coarse: a change so soon after a read may not move them.
_COARSE_NS: Final = 50 * 10**6


def note_of(notes: Mapping[Partition, _T], partition: Partition) -> _T | None:
    """Return the note that holds for a partition: its own, or that of its whole topic."""
    return notes.get(partition) or notes.get(Partition(partition.topic, WHOLE_TOPIC))


def decoded_note(text: str, kind: type[_T]) -> _T:
    """Return the note that a file holds: a value of a dataclass, by the names of its fields.

    Raises:
        ValueError: It holds none.
    """
    content = json.loads(text)
    values: dict[str, Any] = {}
    try:
        for name, of_type in get_type_hints(kind).items():
            values[name] = of_type(content[name])
    except (KeyError, TypeError) as error:
        message = f"no {kind.__name__}: {error}"
        raise ValueError(message) from error
    return kind(**values)


class PartitionFiles:
    """The files of one directory."""

    def __init__(self, root: Path, directory: str) -> None:
        self.directory = root / directory

    def write(
        self, partition: Partition, text: str, *, is_durable: bool, time_ns: int | None = None
    ) -> None:
        """Put a file in place of one that is there; under a root only that is there.

        Args:
            partition: Whose file it is.
            text: What it holds.
            is_durable: Whether it is synced.
            time_ns: The time that the file gets, if not that of now.

        Raises:
            OSError: The disk does not take it.
        """
        self.directory.mkdir(exist_ok=True)
        draft = self.directory / f"{os.getpid()}-{secrets.token_hex(4)}.draft"
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                if time_ns is not None:
                    os.utime(file.fileno(), ns=(time_ns, time_ns))
                if is_durable:
                    os.fsync(file.fileno())
            draft.replace(self.place(partition))
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        if is_durable:
            self.sync()

    def prepare(self) -> None:
        """Make the directory while there is room for it, if the disk takes it."""
        with suppress(OSError):
            self.directory.mkdir(exist_ok=True)

    def touch(self, partition: Partition, time_ns: int | None) -> None:
        """Make an empty file, which takes no room, or give one that is there another time.

        None for the time of now.

        Raises:
            OSError: The disk does not even take that.
        """
        try:
            if time_ns is None:
                os.utime(self.place(partition))
            else:
                os.utime(self.place(partition), ns=(time_ns, time_ns))
        except FileNotFoundError:
            self.write(partition, "", is_durable=False, time_ns=time_ns)

    def sync(self) -> None:
        """Make names that came and went durable."""
        for path in (self.directory, self.directory.parent):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, partition: Partition) -> bool:
        """Remove a file; return whether there was one.

        Raises:
            OSError: It cannot be removed.
        """
        try:
            self.place(partition).unlink()
        except FileNotFoundError:
            return False
        return True

    def has(self, partition: Partition) -> bool:
        """Tell whether there is a file."""
        return self.place(partition).exists()

    def texts(self) -> Iterator[str]:
        """Yield what the files hold; one that goes meanwhile, or cannot be read, is left out."""
        with suppress(OSError):
            for place in self.places().values():
                with suppress(OSError, ValueError):
                    yield place.read_text(encoding="utf-8")

    def places(self) -> dict[Partition, Path]:
        """Return all files by the partitions that their names say; none without the directory.

        Raises:
            OSError: The directory cannot be read.
        """
        try:
            names = sorted(place.name for place in self.directory.iterdir())
        except FileNotFoundError:
            return {}
        partitions = {name: _partition_of(name) for name in names}
        return {at: self.directory / name for name, at in partitions.items() if at is not None}

    def place(self, partition: Partition) -> Path:
        """Return where the file of a partition is."""
        number = partition.number if partition.number >= 0 else _ALL
        return self.directory / f"{partition.topic}~{number}.json"


class DirectoryChanges:
    """Tells whether a directory may have other entries than at the last look. One thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: tuple[int, int] | None = None

    def may_have_changed(self, now_ns: int) -> bool:
        """Look at the directory's times, not at its entries.

        Args:
            now_ns: The wall time.
        """
        try:
            entry = self._directory.stat()
        except FileNotFoundError:
            changed, self._seen = self._seen is not None, None
            return changed
        except OSError:
            # A directory that cannot be read has not lost its entries.
            return False
        seen = entry.st_ino, entry.st_mtime_ns
        is_settled = abs(now_ns - entry.st_mtime_ns) > _COARSE_NS
        changed = seen != self._seen
        # What changed this moment may change again without another time.
        self._seen = seen if is_settled else (entry.st_ino, -1)
        return changed

    def forget(self) -> None:
        """Take what was seen last for changed: it could not be read."""
        self._seen = (-1, -1)


def _partition_of(name: str) -> Partition | None:
    """Return whose file has a name, None where it is nobody's."""
    stem, _, suffix = name.rpartition(".")
    topic, _, number = stem.rpartition("~")
    if suffix != "json" or not topic:
        return None
    if number == _ALL:
        return Partition(topic, WHOLE_TOPIC)
    return Partition(topic, int(number)) if number.isascii() and number.isdecimal() else None
