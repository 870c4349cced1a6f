"""Reads the row ranges of an export, as far as digests match; files are not trusted.

Rows count up to where the digests of their file match. A file whose digest matches but that no
export can have written is refused whole.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.export.export_rows import sorted_by_address
from storage_core.export.file_formats import file_format_of
from storage_core.export.manifest import MANIFEST_FILE, ExportedFile, Manifest, RowRange
from storage_core.export.memory_budget import MemoryBudget, TooLargeError
from storage_core.export.verified_file import read_verified


@dataclass(frozen=True, slots=True)
class Damage:
    """The first damaged file of a range, and how many of its rows were read."""

    file: str
    rows: int
    rows_read: int

    def error(self, directory: Path, shard: int, end: int) -> CorruptionError:
        """Return the error for it; the shard ends at an address."""
        message = (
            f"the file is damaged: {self.rows_read} of its {self.rows} rows were imported; "
            f"shard {shard} ends at address {end}"
        )
        return CorruptionError(message, path=directory / self.file)


@dataclass(slots=True)
class RangeRows:
    """The verified rows of a range, up to an address, and how many were added."""

    row_range: RowRange
    rows: Any
    end: int
    damage: Damage | None
    added: int = 0


class ExportReader:
    """The files of an export. One thread at a time; a range is in memory as a whole."""

    def __init__(self, directory: Path, manifest: Manifest, bytes_max: int) -> None:
        """Read files of a directory, each within a memory limit.

        Raises:
            CorruptionError: A schema of the manifest is invalid.
        """
        self._directory = directory
        self._has_keys = manifest.has_keys
        self._bytes_max = bytes_max
        try:
            self._file_format = file_format_of(manifest, bytes_max)
        except (InvalidRequestError, RecursionError) as error:
            message = f"no export wrote this manifest: {str(error)[:200]}"
            raise CorruptionError(message, path=directory / MANIFEST_FILE) from error

    def rows_of(self, row_range: RowRange) -> RangeRows:
        """Return the rows of a range, up to the first that is missing or damaged.

        Raises:
            CorruptionError: The digest of a file matches, but no export wrote it.
            InvalidRequestError: A file would take more memory than it may.
        """
        tables, cuts = [], []
        budget = MemoryBudget(self._bytes_max)
        for file in row_range.files:
            rows = self._rows_in(file, row_range, budget)
            count = rows.num_rows
            tables.append(rows)
            if count < file.rows:
                # After the last row read; a file in another order is read whole or not at all.
                last = int(rows.column("address")[-1].as_py()) + 1 if count else file.first
                cuts.append((last, file, rows))
        rows = sorted_by_address(tables, has_keys=self._has_keys)
        addresses = rows.column("address").to_numpy()
        if not bool((addresses[1:] > addresses[:-1]).all()):
            message = "no export wrote these files: an address is repeated"
            path = self._directory / row_range.files[0].name
            location = row_range.shard, row_range.start, row_range.end
            raise CorruptionError(
                message, path=path, shard=location[0], start=location[1], end=location[2]
            )
        if not cuts:
            return RangeRows(row_range, rows, row_range.end, None)
        end, file, cut_rows = min(cuts, key=lambda cut: cut[0])
        count = int(np.searchsorted(addresses, end))
        cut_addresses = cut_rows.column("address").to_numpy()
        rows_read = int(np.count_nonzero(cut_addresses < end))
        return RangeRows(
            row_range, rows.slice(0, count), end, Damage(file.name, file.rows, rows_read)
        )

    def _rows_in(self, file: ExportedFile, row_range: RowRange, budget: MemoryBudget) -> Any:  # noqa: ANN401 - a table
        """Return the verified rows of a file; the files of a range share the budget."""
        path = self._directory / file.name
        try:
            data, count = read_verified(self._directory, file, self._bytes_max)
            rows = self._read(path, data, file)
            budget.take(rows.nbytes)
        except TooLargeError as error:
            message = (
                f"the file would take more than {self._bytes_max} bytes of memory; if you trust "
                "it, allow more: `file_bytes_max`, or --file-mib-max"
            )
            raise InvalidRequestError(message, path=path) from error
        except MemoryError as error:
            message = f"there is no memory for the rows of the file: {error}"
            raise UnavailableError(message, path=path) from error
        fault = _unexpected_in(rows, count, row_range)
        if fault:
            message = f"its digest matches, but no export wrote this file: {fault}"
            raise CorruptionError(message, path=path, shard=row_range.shard)
        return rows

    def _read(self, path: Path, data: bytes, file: ExportedFile) -> Any:  # noqa: ANN401 - a table
        try:
            return self._file_format.read(data, file)
        except (TooLargeError, MemoryError):
            raise
        except Exception as error:  # whatever the bytes of a stranger make of their reader
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            message = f"its digest matches, but no export wrote this file: {reason}"
            raise CorruptionError(message, path=path) from error


def _unexpected_in(rows: Any, count: int, row_range: RowRange) -> str:  # noqa: ANN401 - a table
    """Return what is wrong with the rows of a range; an empty string if nothing."""
    if rows.num_rows != count:
        return f"it has {rows.num_rows} rows instead of {count}"
    for name in ("shard", "secondary", "primary", "address", "version", "state"):
        if name in rows.schema.names and rows.column(name).null_count:
            return f"a row has no {name}"
    shards, addresses = (rows.column(name).to_numpy() for name in ("shard", "address"))
    if not bool((shards == row_range.shard).all()):
        return f"it has rows of other shards than {row_range.shard}"
    if not bool(((addresses >= row_range.start) & (addresses < row_range.end)).all()):
        return f"it has rows outside of addresses {row_range.start} to {row_range.end}"
    return ""
