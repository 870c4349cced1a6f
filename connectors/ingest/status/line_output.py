"""Where a worker's lines go: a file descriptor, which may refuse them without stopping anybody.

What collects the lines may be gone, and the disk that they are kept on full; records go on being
stored all the same. A line that cannot be written is left out. Nothing is buffered, so that
nothing waits to be written when the process ends.
"""

import os
import threading
from enum import StrEnum
from typing import Final

STANDARD_OUTPUT: Final = 1


class LogFormat(StrEnum):
    """How lines look."""

    JSON = "json"
    TEXT = "text"


class LineOutput:
    """Writes lines to a file descriptor. Any thread."""

    def __init__(self, descriptor: int = STANDARD_OUTPUT) -> None:
        """Write to a descriptor, which stays open."""
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._is_torn = False

    @property
    def is_terminal(self) -> bool:
        """Whether people look at it."""
        return os.isatty(self._descriptor)

    def write(self, line: str) -> None:
        """Write a line, or leave it out."""
        with self._lock:
            rest = f"{line}\n".encode(errors="backslashreplace")
            if self._is_torn:
                # What is left of a line that found no place stays a line of its own.
                rest = b"\n" + rest
            try:
                while rest:
                    written = os.write(self._descriptor, rest)
                    self._is_torn = not rest[:written].endswith(b"\n")
                    rest = rest[written:]
            except OSError:
                return

    def debug(self, line: str) -> None:
        """Write a line; structlog calls the method of the line's level."""
        self.write(line)

    info = warning = error = debug
