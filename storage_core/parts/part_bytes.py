"""The bytes of a part's file, read by place; the file is one of this machine, or elsewhere.

What is read is not proven yet: the part list has the digest of the footer, which has those of all
other bytes (storage_core/format/chunk_table.py).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from storage_core.errors import CorruptionError
from storage_core.platform.descriptor import opened


class PartBytes(Protocol):
    """The bytes of a part's file. Any thread."""

    def read(self, offset: int, size: int) -> bytes:
        """Return just so many bytes.

        Raises:
            CorruptionError: The file ends before them.
            OSError: They cannot be read.
            ShardlogError: They cannot be had.
        """
        ...

    def close(self) -> None:
        """Close it."""
        ...


# Opens the file of a part, wherever it is.
Opener = Callable[[], PartBytes]


def open_file(path: Path) -> PartBytes:
    """Open a file of this machine.

    Raises:
        FileNotFoundError: There is none.
        OSError: The system does not let it be read.
    """
    return _LocalFile(path)


class _LocalFile:
    """The bytes of a file of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = opened(path, os.O_RDONLY)

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._file.fileno(), size, offset)
        while len(data) < size:
            rest = os.pread(self._file.fileno(), size - len(data), offset + len(data))
            if not rest:
                message = (
                    f"bytes {offset} to {offset + size} of a part are not as they were published: "
                    f"it is truncated at byte {offset + len(data)}"
                )
                raise CorruptionError(message, path=self._path)
            data += rest
        return data

    def close(self) -> None:
        self._file.close()
