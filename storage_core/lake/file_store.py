"""The files of a table: uploaded whole, read, listed and deleted, by delta-rs' own client.

A file appears under its name once all of it is there. In a directory of this machine it is synced,
and so is its directory.

NOTE: delta-rs (1.6) keeps the interpreter for itself while it opens, lists or deletes files, but
not while it reads: upload and vacuum in a process that has nothing else to do meanwhile.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

# NOTE: what the public name of it writes comes to delta-rs (1.6) as buffers, which it refuses.
from deltalake._internal import DeltaFileSystemHandler, ObjectInputFile
from pyarrow.fs import FileType

from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.lake.delta_errors import store_errors
from storage_core.lake.target import LakeTarget
from storage_core.platform.durable_file import file_errors, sync_directory, taking_errors

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

_CHUNK_BYTES: Final = 4 * 2**20
_NS_A_MS: Final = 1_000_000
# Where the store does not answer a call ends within a minute. delta-rs would try for minutes.
_BOUNDS: Final[Mapping[str, str]] = {
    "timeout": "60s",
    "connect_timeout": "5s",
    "max_retries": "3",
    "retry_timeout": "20s",
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file or a directory that a store lists.

    Attributes:
        path: Its path below the table.
        size: Its bytes; 0 of a directory.
        written_ms: When it was written.
        is_directory: Whether it is a directory.
    """

    path: str
    size: int
    written_ms: int
    is_directory: bool


def store_options(target: LakeTarget) -> dict[str, str]:
    """Return the options of a store, with bounds for what the caller set none."""
    spelled = {name.lower() for name in target.options}
    bounds = {name: value for name, value in _BOUNDS.items() if name not in spelled}
    return {**bounds, **target.options}


class FileStore:
    """The files below the directory of one table. Any thread may call any method."""

    def __init__(self, target: LakeTarget) -> None:
        """Touch nothing yet.

        Args:
            target: Where the table is.
        """
        self._target = target
        self._options = store_options(target)
        self._handler: DeltaFileSystemHandler | None = None

    def make_directory(self) -> None:
        """Make the table's directory, where it is one of this machine.

        Raises:
            InvalidRequestError: This process may not; or a file lies in the way.
            UnavailableError: The disk is full or failing.
        """
        directory = self._target.directory
        if directory is None:
            return
        with taking_errors(directory, "making the directory of the lake"):
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                message = "what lies at the lake's place is no directory; name another place"
                raise InvalidRequestError(message, path=directory) from error
            sync_directory(directory.parent)

    def put(self, path: str, file: Path) -> None:
        """Upload a file whole, over whatever is there.

        Raises:
            UnavailableError: The store refuses, or has another number of bytes afterwards; or the
                file cannot be read.
        """
        size = self._upload(path, file)
        self.sync(path)
        stored = self.size(path)
        if stored != size:
            message = f"uploading {path}: the store has {stored} bytes of {size}"
            raise UnavailableError(message)

    def get(self, path: str, into: Path) -> None:
        """Download a file whole; it is not synced.

        Raises:
            LakeFileGoneError: There is none.
            UnavailableError: The store refuses, or the file cannot be written.
        """
        with self._errors(f"reading {path}"):
            source = self._client().open_input_file(path)
            left = source.size()
        with file_errors(into, "writing what the lake has"), into.open("wb") as target:
            while left > 0:
                with self._errors(f"reading {path}"):
                    data = source.read(min(left, _CHUNK_BYTES))
                if not data:
                    break
                target.write(data)
                left -= len(data)
        if left:
            message = f"reading {path}: the store gave {left} bytes less than it has"
            raise UnavailableError(message)

    def read(self, path: str) -> bytes:
        """Return what a small file has.

        Raises:
            LakeFileGoneError: There is none.
            UnavailableError: The store refuses.
        """
        with self._errors(f"reading {path}"):
            source = self._client().open_input_file(path)
            return source.read(source.size())

    def opened(self, path: str) -> "OpenedFile":
        """Open a file that is read several times: all reads go by one client.

        Raises:
            LakeFileGoneError: There is none.
            UnavailableError: The store refuses.
        """
        with self._errors(f"reading {path}"):
            source = self._client().open_input_file(path)
        return OpenedFile(source, self._target.uri, path, lambda: self.size(path))

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has; None if there is none."""
        # NOTE: what delta-rs (1.6) tells of a path costs a listing besides.
        with self._errors("looking for files"):
            try:
                return self._client().open_input_file(path).size()
            except FileNotFoundError:
                return None

    def written_ms(self, path: str) -> int | None:
        """Return when a file was written, as `listed` does; None if there is none."""
        place = self._target.directory
        if place is not None:
            with file_errors(place / path, "looking for a file of the lake"):
                try:
                    return (place / path).lstat().st_mtime_ns // _NS_A_MS
                except FileNotFoundError:
                    return None
        with self._errors("looking for files"):
            (info,) = self._client().get_file_info([path])
        return _stored(info).written_ms if info.type == FileType.File else None

    def listed(self, directory: str, *, recursive: bool = False) -> list[StoredFile]:
        """Return what lies in a directory below the table; nothing where there is none."""
        place = self._target.directory
        if place is not None:
            return _listed_here(place, directory, recursive=recursive)
        with self._errors("listing files"):
            infos = self._client().get_file_info_selector(
                directory, allow_not_found=True, recursive=recursive
            )
        return [_stored(info) for info in infos]

    def has_files(self, directory: str) -> bool:
        """Tell whether a directory has files, or any below it does."""
        return any(not file.is_directory for file in self.listed(directory, recursive=True))

    def delete(self, path: str) -> None:
        """Delete a file; one that is gone already is no error."""
        place = self._target.directory
        if place is not None:
            with file_errors(place / path, "deleting a file of the lake"):
                (place / path).unlink(missing_ok=True)
            return
        with self._errors(f"deleting {path}"):
            try:
                self._client().delete_file(path)
            except FileNotFoundError:
                return

    def remove_directory(self) -> None:
        """Remove the table's directory with all that is in it, where it is one of this machine."""
        directory = self._target.directory
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def sync(self, path: str) -> None:
        """Let a file of this machine, and its name, outlast a loss of power."""
        directory = self._target.directory
        if directory is None:
            return
        file = directory / path
        with file_errors(file, "syncing a file of the lake"):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_directory(file.parent)
            sync_directory(directory)

    def _upload(self, path: str, file: Path) -> int:
        size = 0
        with file_errors(file, "reading what is uploaded"), file.open("rb") as source:
            with self._errors(f"uploading {path}"):
                target = self._client().open_output_stream(path)
            while data := source.read(_CHUNK_BYTES):
                with self._errors(f"uploading {path}"):
                    target.write(data)
                size += len(data)
        # IMPORTANT: closing is what makes the file appear, so it is closed once all was written.
        with self._errors(f"uploading {path}"):
            target.close()  # type: ignore[attr-defined] # delta-rs does not declare it
        return size

    def _client(self) -> DeltaFileSystemHandler:
        if self._handler is None:
            self._handler = DeltaFileSystemHandler(self._target.uri, self._options)
        return self._handler

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return store_errors(self._target.uri, doing)


class OpenedFile:
    """A file of a store that is open. Any thread; one reads at a time."""

    def __init__(
        self, source: ObjectInputFile, uri: str, path: str, size_now: Callable[[], int | None]
    ) -> None:
        """Take over what delta-rs has opened; `FileStore.opened` does."""
        self._size_now = size_now
        self._source = source
        self._uri = uri
        self._path = path
        self._lock = Lock()

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of it; fewer at its end.

        Raises:
            LakeFileGoneError: It is gone.
            UnavailableError: The store refuses.
        """
        try:
            with self._lock, store_errors(self._uri, f"reading {self._path}"):
                self._source.seek(offset)
                return self._source.read(size)
        except UnavailableError:
            # A store has an error of its own where a file that was cut ends before the bytes.
            size_now = self._size_now()
            if size_now is not None and size_now <= offset:
                return b""
            raise


def _stored(info: "FileInfo") -> StoredFile:
    is_directory = info.type == FileType.Directory
    written: datetime | None = info.mtime
    written_ms = 0 if written is None else int(written.astimezone(UTC).timestamp() * 1000)
    return StoredFile(info.path, 0 if is_directory else info.size, written_ms, is_directory)


def _listed_here(place: Path, directory: str, *, recursive: bool) -> list[StoredFile]:
    """List a directory of this machine.

    NOTE: delta-rs (1.6) does not list files that are being uploaded, or whose upload ended.
    """
    files: list[StoredFile] = []
    with file_errors(place / directory, "listing files of the lake"):
        for entry in _entries(place / directory):
            path = str(Path(entry.path).relative_to(place))
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                # It was deleted meanwhile.
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            size = 0 if is_directory else status.st_size
            files.append(StoredFile(path, size, status.st_mtime_ns // _NS_A_MS, is_directory))
            if is_directory and recursive:
                files += _listed_here(place, path, recursive=True)
    return files


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
