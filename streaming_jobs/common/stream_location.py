"""A stream by its path and ids: recorded on the driver, checked where tasks and commits run.

In the place of a path there may be servers over the root. They are the same everywhere, and say who
they are with each call, so a task may run on any machine.

Root and stream have random ids. Who finds something else at the path, or a copy of it, says so, and
neither reads nor writes there.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    ServerOptions,
    StagingArea,
    Stream,
    StreamOptions,
    StreamReader,
)
from storage_core.owners_reader import root_of
from storage_core.remote.addresses import names_servers
from storage_core.remote.staging_client import StagingClient, create_by_server
from streaming_jobs.common.same_directory import DirectoryIdentity

# Made once with a stream and never written again.
_STREAM_FILE: Final = "stream.json"
_OPTIONS_FILE: Final = "options.json"
_ROOT_FILE: Final = "root.json"
_HERE: Final = "tasks must run on the machine that has the root"
_A_COPY: Final = (
    "a copy of {} at {}, not what the driver saw: it may lack rows, or have others (where the root "
    "was moved, load the frame again)"
)

Stamp = tuple[int, ...] | None
# Where rows are staged: in the stream's directory, or at a server.
AnyStaging = StagingArea | StagingClient
# A server that is started again is waited for; a query that fails starts anew, and takes longer.
_PATIENT: Final = ServerOptions(retry_for=timedelta(seconds=30))


def open_staging(path: str, stream: str, options: ServerOptions | None = None) -> AnyStaging:
    """Open the staging area of a stream, by the path of its root or by servers over it.

    Args:
        path: The root.
        stream: The stream.
        options: How servers are asked.

    Raises:
        InvalidRequestError: There is no such root or stream, or the servers do not let us write.
        UnavailableError: No server answers.
    """
    if names_servers(path):
        return StagingClient.open(path, stream, options=options)
    return StagingArea.open(path, stream)


def create_stream(path: str, stream: str, options: StreamOptions) -> None:
    """Make a stream, by the path of its root or by servers over it.

    Raises:
        InvalidRequestError: The name is bad or taken, or the servers do not let us write.
    """
    if names_servers(path):
        create_by_server(path, stream, options)
    else:
        Stream.create(path, stream, options).close()


@dataclass(frozen=True, slots=True)
class StreamLocation:
    """Where a stream is, and which one it is.

    Attributes:
        path: The root, or the addresses of servers over it.
        stream: The stream's name.
        root: The root's id.
        incarnation: The stream's.
        directory: Which directory the stream lies in; None where it was not checked.
    """

    path: str
    stream: str
    root: str
    incarnation: str
    directory: DirectoryIdentity | None = None

    @classmethod
    def here(cls, path: str, stream: str, root: str, incarnation: str) -> Self:
        """Return the place of a stream that is on this machine, or at a server.

        Raises:
            InvalidRequestError: It was dropped meanwhile.
        """
        if names_servers(path):
            return cls(path, stream, root, incarnation)
        try:
            directory = DirectoryIdentity.of(Path(path) / stream, _STREAM_FILE)
        except OSError as error:
            message = "there is no such stream: it was dropped"
            raise InvalidRequestError(message, stream=stream) from error
        return cls(path, stream, root, incarnation, directory)

    def reader(self) -> StreamReader:
        """Open the stream for reading.

        Raises:
            ForeignDataError: It is not there, or another one is.
        """
        with self._opening():
            reader = StreamReader.open(self.path, self.stream)
        try:
            self._check(root_of(reader, self.path), reader.position().incarnation)
        except BaseException:
            reader.close()
            raise
        return reader

    def area(self) -> AnyStaging:
        """Open the stream's staging area; close it.

        Raises:
            ForeignDataError: It is not there, or another one is.
        """
        with self._opening():
            area = open_staging(self.path, self.stream, _PATIENT)
        try:
            self._check(area.root_id, area.incarnation)
        except BaseException:
            area.close()
            raise
        return area

    def stamp(self) -> Stamp:
        """Return what identifies the file with the stream's ids, None without one."""
        directory = Path(self.path) / self.stream
        try:
            file, folder = (directory / _STREAM_FILE).stat(), directory.stat()
        except OSError:
            return None
        return file.st_dev, file.st_ino, file.st_mtime_ns, folder.st_dev, folder.st_ino

    def options_stamp(self) -> tuple[int, int] | None:
        """Return what identifies the file with the stream's shards, None without one."""
        try:
            file = (Path(self.path) / self.stream / _OPTIONS_FILE).stat()
        except OSError:
            return None
        return file.st_ino, file.st_mtime_ns

    @property
    def is_on_this_machine(self) -> bool:
        """Tell whether the driver saw it here, so that nothing is seen later than there."""
        if self.directory is None:
            return False
        return self.directory.is_on_one_machine(self._directory_here())

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except InvalidRequestError as error:
            if self.stamp() is not None or names_servers(self.path):
                # It is there, or a server says what it is; something else is asked of this process.
                raise
            fault = f"no stream {self.stream!r} at {self.path} ({error.message})"
            raise _not_of_driver(fault) from error

    def _check(self, root: str, incarnation: str) -> None:
        if root != self.root:
            fault = f"another root of stream {self.stream!r} at {self.path} than the driver saw"
            if names_servers(self.path):
                raise ForeignDataError(fault)
            raise _not_of_driver(fault)
        if incarnation != self.incarnation:
            message = (
                "the stream was re-created since the driver saw it: load or write the frame again; "
                "a streaming query needs a new checkpoint"
            )
            raise ForeignDataError(message, stream=self.stream)
        if self.directory is not None and not self.directory.is_same(self._directory_here()):
            raise _not_of_driver(_A_COPY.format(f"stream {self.stream!r}", self.path))

    def _directory_here(self) -> DirectoryIdentity:
        try:
            return DirectoryIdentity.of(Path(self.path) / self.stream, _STREAM_FILE)
        except OSError as error:
            fault = f"no stream {self.stream!r} at {self.path} any more"
            raise _not_of_driver(fault) from error


@dataclass(frozen=True, slots=True)
class RootLocation:
    """Where a root is, and which directory it lies in; None of one that servers are over."""

    path: str
    directory: DirectoryIdentity | None

    @classmethod
    def here(cls, path: str) -> Self:
        """Return the place of a root that is on this machine, or of its servers."""
        if names_servers(path):
            return cls(path, None)
        return cls(path, DirectoryIdentity.of(Path(path), _ROOT_FILE))

    def require_same(self) -> None:
        """Refuse a copy.

        Raises:
            ForeignDataError: The root is not there, or a copy of it is.
        """
        if self.directory is None:
            # Each stream's own check asks the servers who they are.
            return
        try:
            is_same = self.directory.is_same(DirectoryIdentity.of(Path(self.path), _ROOT_FILE))
        except OSError as error:
            fault = f"no root at {self.path}"
            raise _not_of_driver(fault) from error
        if not is_same:
            raise _not_of_driver(_A_COPY.format("the root", self.path))


def _not_of_driver(fault: str) -> ForeignDataError:
    message = f"host {socket.gethostname()} has {fault}; {_HERE}"
    return ForeignDataError(message)
