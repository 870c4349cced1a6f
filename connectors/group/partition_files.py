"""A small JSON file a partition, in a directory of the root that is no stream's.

    <root>/<directory>/<topic>~<partition>.json      ~all for a whole topic

No topic has a `~` in its name, so none meets these. Where the longest names leave no room for it,
`.json` is left out. A file is replaced as a whole. Whether the directory has changed since it was
read costs one call to find out. Commands may run as root and workers as somebody else: what one
makes is for all whom the root is for.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_type_hints

from connectors.kafka import Partition
from storage_core import SystemClock, share_with_root

_T = TypeVar("_T")

# In place of a partition's number: all of a topic.
WHOLE_TOPIC: Final = -1
_ALL: Final = "all"
_SUFFIX: Final = ".json"
# What file systems take, in bytes; Kafka's names have one each character.
_NAME_MAX: Final = 255
# The last moment that has a date.
_TIME_MS_MAX: Final = 253_402_300_799_999
# The times of a directory are this coarse: a change so soon after a read may not move them.
_COARSE_NS: Final = 50 * 10**6
# So long after the time was taken a look may come; further ahead is a clock that was set back.
_LATE_MAX_NS: Final = 60 * 10**9
# Who holds the lock of a directory does so for a few calls.
_LOCK_WAIT_MAX_S: Final = 10.0
_LOCK_LOOK_S: Final = 0.005


def note_of(notes: Mapping[Partition, _T], partition: Partition) -> _T | None:
    """Return the note that holds for a partition: its own, or that of its whole topic."""
    return notes.get(partition) or notes.get(Partition(partition.topic, WHOLE_TOPIC))


def decoded_note(text: str, kind: type[_T]) -> _T:
    """Return the note that a file holds: a value of a dataclass, by the names of its fields.

    A field that has a default may be missing, as in files of before it was there.

    Raises:
        ValueError: It holds none.
    """
    values: dict[str, Any] = {}
    optional = {each.name for each in fields(cast("Any", kind)) if each.default is not MISSING}
    try:
        content = json.loads(text)
        for name, of_type in get_type_hints(kind).items():
            if name not in content and name in optional:
                continue
            value = content[name]
            values[name] = value is True if of_type is bool else of_type(value)
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        message = f"no {kind.__name__}: {error}"
        raise ValueError(message) from error
    if not 0 <= values["since_ms"] <= _TIME_MS_MAX:
        message = f"no {kind.__name__}: since_ms {values['since_ms']} is no time"
        raise ValueError(message)
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
        os.close(
            self._write(partition, text, is_durable=is_durable, is_held=False, time_ns=time_ns)
        )

    def write_held(self, partition: Partition, text: str) -> int:
        """Do as `write`, durably, and return a descriptor of the file that holds its lock.

        Nobody ever sees the file without the lock, but once the descriptor is closed, or the
        process has ended in whatever way.

        Raises:
            OSError: The disk does not take it.
        """
        return self._write(partition, text, is_durable=True, is_held=True)

    def is_held(self, partition: Partition) -> bool:
        """Tell whether a process holds the lock of a partition's file, which may be gone."""
        try:
            descriptor = os.open(self.place(partition), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # IMPORTANT: shared, or each of two who look would take the other for the holder.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def is_of(self, partition: Partition, descriptor: int) -> bool:
        """Tell whether a partition's file is the one that a descriptor is of."""
        try:
            return os.path.samestat(self.place(partition).stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from deciding what to put, or remove, while this process does.

        Raises:
            OSError: The directory cannot be made or locked; another process held it for too long.
        """
        self._make_directory()
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        clock = SystemClock()
        until_s = clock.monotonic_s() + _LOCK_WAIT_MAX_S
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if clock.monotonic_s() >= until_s:
                        raise
                    clock.sleep(_LOCK_LOOK_S)
                else:
                    break
            yield
        finally:
            os.close(descriptor)

    def _write(
        self,
        partition: Partition,
        text: str,
        *,
        is_durable: bool,
        is_held: bool,
        time_ns: int | None = None,
    ) -> int:
        """Put a file in place and return a descriptor of it."""
        self._make_directory()
        draft = self.directory / f"{os.getpid()}-{secrets.token_hex(4)}.draft"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o644)
        try:
            share_with_root(draft, self.directory.parent, 0o666)
            with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)
            if time_ns is not None:
                os.utime(descriptor, ns=(time_ns, time_ns))
            if is_durable:
                os.fsync(descriptor)
            if is_held:
                # IMPORTANT: before it has its name.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.replace(self.place(partition))
            if is_durable:
                self.sync()
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        return descriptor

    def prepare(self) -> None:
        """Make the directory while there is room for it, if the disk takes it."""
        with suppress(OSError):
            self._make_directory()

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

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir()
        except FileExistsError:
            return
        share_with_root(self.directory, self.directory.parent, 0o7777)

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
        """Tell whether there is a file; none is there that may not be looked for."""
        with suppress(OSError):
            return self.place(partition).exists()
        return False

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
        name = f"{partition.topic}~{partition.number if partition.number >= 0 else _ALL}"
        is_long = len(name) + len(_SUFFIX) > _NAME_MAX
        return self.directory / (name if is_long else name + _SUFFIX)


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
        # The time may be that of before: whoever took it had to wait for the processor.
        is_settled = not -_LATE_MAX_NS < now_ns - entry.st_mtime_ns <= _COARSE_NS
        changed = seen != self._seen
        # What changed this moment may change again without another time.
        self._seen = seen if is_settled else (entry.st_ino, -1)
        return changed

    def forget(self) -> None:
        """Take what was seen last for changed: it could not be read."""
        self._seen = (-1, -1)


def _partition_of(name: str) -> Partition | None:
    """Return whose file has a name, None where it is nobody's."""
    topic, _, number = name.removesuffix(_SUFFIX).rpartition("~")
    if not topic:
        return None
    if number == _ALL:
        return Partition(topic, WHOLE_TOPIC)
    return Partition(topic, int(number)) if number.isascii() and number.isdecimal() else None
