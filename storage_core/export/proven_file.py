"""A file written piece by piece with the digest of what there is, and what of one can be proven."""

import os
from pathlib import Path
from typing import Final, Self

import xxhash

from storage_core.export.bounds import TooLargeError
from storage_core.export.manifest import ExportedFile, Piece
from storage_core.export.regular_file import opened_regular

PIECE_ROWS: Final = 8192


class ProvenFile:
    """A file on its way; durable, but for its name, once its context is left well."""

    def __init__(self, path: Path) -> None:
        """Begin a file that is not there yet."""
        self.path = path
        self._file = path.open("xb")
        self._digest = xxhash.xxh3_128()
        self._bytes = 0
        self._rows = 0
        self._pieces: list[Piece] = []

    def __enter__(self) -> Self:
        return self

    def add(self, data: bytes, rows: int) -> None:
        """Write bytes, which have so many rows, as one more piece."""
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)
        self._rows += rows
        self._pieces.append(Piece(self._bytes, self._rows, self._digest.hexdigest()))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def entry(self, kind: str, schema: int | None, first: int) -> ExportedFile:
        """Return what the manifest says of the file."""
        pieces = tuple(self._pieces)
        return ExportedFile(self.path.name, kind, schema, self._rows, self._bytes, first, pieces)


def proven(directory: Path, file: ExportedFile, bytes_max: int) -> tuple[bytes, int]:
    """Return the first bytes of a file, up to where they are proven, and how many rows they have.

    Nothing of a file that is gone, or of another one.

    Raises:
        TooLargeError: It has more bytes than it may.
        CorruptionError: It is no regular file.
    """
    try:
        with opened_regular(directory / file.name) as opened:
            size = min(file.bytes, os.fstat(opened.fileno()).st_size)
            if size > bytes_max:
                raise TooLargeError
            data = opened.read(size)
    except FileNotFoundError:
        return b"", 0
    digest = xxhash.xxh3_128()
    end = rows = 0
    for piece in file.pieces:
        if piece.bytes > len(data):
            break
        digest.update(data[end : piece.bytes])
        if digest.hexdigest() != piece.digest:
            break
        end, rows = piece.bytes, piece.rows
    return data[:end], rows
