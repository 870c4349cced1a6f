"""Files with digests of growing prefixes: written batch by batch, and read as far as they match."""

import os
from pathlib import Path
from typing import Final, Self

from storage_core.export.manifest import ExportedFile, Prefix
from storage_core.export.memory_budget import TooLargeError
from storage_core.export.regular_file import opened_regular
from storage_core.platform import xxh3

BATCH_ROWS: Final = 8192


class VerifiedFile:
    """A file being written; durable, but for its name, when its context ends without error."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self.path = path
        self._file = path.open("xb")
        self._digest = xxh3.xxh3_128()
        self._bytes = 0
        self._rows = 0
        self._prefixes: list[Prefix] = []

    def __enter__(self) -> Self:
        return self

    def add(self, data: bytes, rows: int) -> None:
        """Write the bytes of some rows as one more prefix."""
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)
        self._rows += rows
        self._prefixes.append(Prefix(self._bytes, self._rows, self._digest.hexdigest()))

    def __exit__(self, error_type: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def entry(self, value_schema: str, schema: int | None, first: int) -> ExportedFile:
        """Return the manifest's entry of the file."""
        prefixes = tuple(self._prefixes)
        return ExportedFile(
            self.path.name, value_schema, schema, self._rows, self._bytes, first, prefixes
        )


def read_verified(directory: Path, file: ExportedFile, bytes_max: int) -> tuple[bytes, int]:
    """Return the longest verified prefix of a file, and the number of its rows.

    It is empty if the file is missing or is another one.

    Raises:
        TooLargeError: It is larger than it may be.
        CorruptionError: It is not a regular file.
    """
    try:
        with opened_regular(directory / file.name) as opened:
            size = min(file.bytes, os.fstat(opened.fileno()).st_size)
            if size > bytes_max:
                raise TooLargeError
            data = opened.read(size)
    except FileNotFoundError:
        return b"", 0
    digest = xxh3.xxh3_128()
    end = rows = 0
    for prefix in file.prefixes:
        if prefix.bytes > len(data):
            break
        digest.update(data[end : prefix.bytes])
        if digest.hexdigest() != prefix.digest:
            break
        end, rows = prefix.bytes, prefix.rows
    return data[:end], rows
