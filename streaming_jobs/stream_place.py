"""A stream by its place and its ids: told by the driver, known again where tasks and commits run.

Root and stream have random ids. Who finds something else at the path says so, and neither reads
nor writes there.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage_core import ForeignDataError, InvalidRequestError, StagingArea, StreamReader, root_id

# Made once with a stream and never written again.
_STREAM_FILE: Final = "stream.json"
_HERE: Final = "tasks must run on the machine that has the root"

Stamp = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Where a stream is, and which one it is.

    Attributes:
        path: The root.
        stream: The stream's name.
        root: The root's id.
        incarnation: The stream's.
    """

    path: str
    stream: str
    root: str
    incarnation: str

    def reader(self) -> StreamReader:
        """Open the stream for reading.

        Raises:
            ForeignDataError: It is not there, or another one is.
        """
        with self._looked_for():
            root = root_id(self.path)
            reader = StreamReader.open(self.path, self.stream)
        try:
            self._check(root, reader.position().incarnation)
        except BaseException:
            reader.close()
            raise
        return reader

    def area(self) -> StagingArea:
        """Open the stream's staging area.

        Raises:
            ForeignDataError: It is not there, or another one is.
        """
        with self._looked_for():
            area = StagingArea.open(self.path, self.stream)
        self._check(area.root_id, area.incarnation)
        return area

    def stamp(self) -> Stamp:
        """Return what tells the file with the stream's ids from any other, None without one."""
        try:
            found = (Path(self.path) / self.stream / _STREAM_FILE).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns

    @contextmanager
    def _looked_for(self) -> Iterator[None]:
        try:
            yield
        except InvalidRequestError as error:
            if self.stamp() is not None:
                # It is there; something else is asked of this process.
                raise
            message = (
                f"host {socket.gethostname()} has no stream {self.stream!r} at {self.path} "
                f"({error.message}); {_HERE}"
            )
            raise ForeignDataError(message) from error

    def _check(self, root: str, incarnation: str) -> None:
        if root != self.root:
            message = (
                f"host {socket.gethostname()} has another root of stream {self.stream!r} at "
                f"{self.path} than the driver saw; {_HERE}"
            )
            raise ForeignDataError(message)
        if incarnation != self.incarnation:
            message = (
                "the stream was made anew since the driver saw it: load or write the frame again; "
                "a stream's query begins anew with a new checkpoint"
            )
            raise ForeignDataError(message, stream=self.stream)
