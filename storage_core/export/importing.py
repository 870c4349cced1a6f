"""Import of an export into a stream.

    import_stream("./data", "telemetry", "./telemetry-export")

A new or empty stream becomes a copy: rows have their addresses, states and schemas, gaps are
skipped, and each shard ends where it did. Nothing is trusted: rows count up to where the digests of
their file match, and existing rows are compared. So an interrupted import continues, and a repeated
one changes nothing.

With `append` they are new rows after the existing ones, with new states. Each range is a named
transaction, so a repeated import does not add them twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa

from storage_core.catalog.root_file import STREAM_FILE
from storage_core.catalog.stream_file import check_name
from storage_core.errors import InvalidRequestError, LostRangeError
from storage_core.export.export_reader import Damage, ExportReader, RangeRows
from storage_core.export.export_rows import (
    schema_numbers,
    sorted_by_address,
    to_export_rows,
)
from storage_core.export.manifest import (
    MANIFEST_FILE,
    ExportedShard,
    Manifest,
    RowRange,
    read_manifest,
)
from storage_core.export.manifest_checks import check_manifest
from storage_core.export.memory_budget import FILE_BYTES_MAX
from storage_core.export.regular_file import refuse_other_file
from storage_core.export.work_directory import PLAN_FILE, partial_directory
from storage_core.parts.part_proof import are_same
from storage_core.parts.part_rows import numbered, stored_columns
from storage_core.platform.durable_file import reading_errors
from storage_core.stream import Stream

# Called with the number of rows that are done.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import.

    Attributes:
        rows: The number of rows that it added.
        rows_before: The number of the export's rows that the stream had before.
        is_new: Whether it created the stream.
    """

    rows: int
    rows_before: int
    is_new: bool


def import_stream(  # noqa: PLR0913 - what of which export, and how it is taken
    root: str | PathLike[str],
    name: str,
    directory: str | PathLike[str],
    *,
    append: bool = False,
    file_bytes_max: int = FILE_BYTES_MAX,
    progress: Progress | None = None,
) -> ImportReport:
    """Import the rows of an export into a stream; durable on return.

    Args:
        root: The directory of the streams; created if absent.
        name: The stream; created like the exported one if absent.
        directory: The export.
        append: Add the rows as new ones after those that the stream has.
        file_bytes_max: The memory that a file may take, compressed and decompressed; checked before
            it is decompressed, since few bytes can claim to be many.
        progress: Called repeatedly with the number of rows that are done.

    Raises:
        InvalidRequestError: There is no complete export, its rows do not fit the stream, or a file
            takes more memory than it may.
        CorruptionError: A file is damaged or truncated. The rows before that were imported; the
            error says how many of the file. Or no export wrote the manifest or a file, of which
            nothing was imported.
        UnavailableError: The disk fails, or another writer has the stream; the same call continues.
    """
    directory_path = Path(directory)
    if type(file_bytes_max) is not int or not 1 <= file_bytes_max < 2**31:
        message = f"file_bytes_max: {file_bytes_max!r} is not an integer from 1 to {2**31 - 1}"
        raise InvalidRequestError(message)
    with reading_errors(directory_path, "reading the export"):
        manifest = _manifest(directory_path, file_bytes_max)
        for row_range in manifest.row_ranges:
            for file in row_range.files:
                refuse_other_file(directory_path / file.name)
        # Files are read whole, one range at a time.
        reader = ExportReader(directory_path, manifest, file_bytes_max)
        importer = _Import(directory_path, manifest, reader, progress or (lambda _: None))
        if append:
            return importer.append(Path(root), name)
        return importer.copy(Path(root), name)


def exported_rows(directory: str | PathLike[str], file_bytes_max: int = FILE_BYTES_MAX) -> int:
    """Return the number of rows in an export, by its manifest.

    Raises:
        InvalidRequestError: There is no complete export.
        CorruptionError: The manifest is damaged, or no export wrote it.
        UnavailableError: The disk fails.
    """
    directory_path = Path(directory)
    with reading_errors(directory_path, "reading the export"):
        return _manifest(directory_path, file_bytes_max).rows


def _manifest(directory: Path, bytes_max: int) -> Manifest:
    path = directory / MANIFEST_FILE
    try:
        manifest = read_manifest(path, bytes_max)
        check_manifest(manifest, path)
        return manifest  # noqa: TRY300 - refusals have their own errors
    except (FileNotFoundError, NotADirectoryError) as error:
        is_partial = (directory / PLAN_FILE).exists() or partial_directory(directory).exists()
        message = "there is no export: the directory has no manifest"
        if is_partial:
            message = "the export was interrupted; run the same export command again to finish it"
        raise InvalidRequestError(message, path=directory) from error


class _Import:
    """One import."""

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        reader: ExportReader,
        progress: Progress,
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._reader = reader
        self._first_range: RangeRows | None = None
        self._progress = progress
        self._rows_added = 0
        self._rows_before = 0
        self._by_shard: dict[int, list[RowRange]] = {}
        for row_range in manifest.row_ranges:
            self._by_shard.setdefault(row_range.shard, []).append(row_range)

    # --- a copy ----------------------------------------------------------------------------

    def copy(self, root: Path, name: str) -> ImportReport:
        """Copy rows with their addresses."""
        check_name(name)
        is_new = not (root / name / STREAM_FILE).exists()
        if is_new:
            # The first rows are checked before the stream is created.
            first = next(
                (c for shard in self._manifest.exported_shards for c in self._ranges_of(shard)),
                None,
            )
            self._first_range = None if first is None else self._reader.rows_of(first)
            origin, options = self._manifest.origin, self._manifest.options
            Stream.create(root, name, options, origin=origin).close()
        if self._manifest.origin is not None:
            starts = {n: shard.born for n, shard in self._manifest.exported_shards.items()}
            Stream.add_shards(root, name, starts)
        with Stream.open(root, name) as stream:
            self._refuse_other_stream(stream, name)
            for shard, exported_shard in self._manifest.exported_shards.items():
                _ShardCopy(stream, shard, exported_shard, self._manifest).copy(
                    self._range_rows(shard)
                )
        return ImportReport(self._rows_added, self._rows_before, is_new)

    def _refuse_other_stream(self, stream: Stream, name: str) -> None:
        """Refuse a stream with other addresses, or other rules for states."""
        manifest, options = self._manifest, stream.options
        pairs = {
            "unit": (manifest.options.unit, options.unit),
            "key_mode": (manifest.key_mode, options.key_mode),
            "jitter": (manifest.jitter, options.jitter),
            "origin": (manifest.origin, stream.origin),
            "shards": (sorted(manifest.exported_shards), sorted(stream.committed())),
        }
        for option, (exported, actual) in pairs.items():
            if exported != actual:
                message = (
                    f"the stream's {option} differs from the export's: import into a new one, or "
                    "with --append"
                )
                raise InvalidRequestError(message, stream=name)

    def _range_rows(self, shard: int) -> Iterator[RangeRows]:
        for row_range in self._ranges_of(shard):
            first, self._first_range = self._first_range, None
            range_rows = self._reader.rows_of(row_range) if first is None else first
            yield range_rows
            self._rows_added += range_rows.added
            self._rows_before += range_rows.rows.num_rows - range_rows.added
            self._progress(self._rows_added + self._rows_before)
            if range_rows.damage is not None:
                raise range_rows.damage.error(self._directory, shard, range_rows.end)

    def _ranges_of(self, shard: int) -> list[RowRange]:
        return self._by_shard.get(shard, [])

    # --- new rows --------------------------------------------------------------------------

    def append(self, root: Path, name: str) -> ImportReport:
        """Append rows as new ones."""
        with Stream.open(root, name) as stream:
            self._refuse_append(stream, name)
            for number, row_range in enumerate(self._manifest.row_ranges):
                if not row_range.files:
                    continue
                range_rows = self._reader.rows_of(row_range)
                if range_rows.damage is not None:
                    damage = Damage(range_rows.damage.file, range_rows.damage.rows, 0)
                    raise damage.error(self._directory, row_range.shard, row_range.start)
                self._append(stream, f"import/{self._manifest.export}/{number}", range_rows.rows)
                self._progress(self._rows_added + self._rows_before)
        return ImportReport(self._rows_added, self._rows_before, is_new=False)

    def _refuse_append(self, stream: Stream, name: str) -> None:
        if stream.origin is not None:
            message = "the stream of a topic gets rows from its topic only; import under a new name"
            raise InvalidRequestError(message, stream=name)
        if stream.options.key_mode != self._manifest.key_mode:
            message = f"the exported rows have key_mode {self._manifest.key_mode!r}, the stream not"
            raise InvalidRequestError(message, stream=name)
        if stream.options.unit != self._manifest.options.unit:
            message = f"the exported rows are in {self._manifest.options.unit!r}, the stream's not"
            raise InvalidRequestError(message, stream=name)

    def _append(self, stream: Stream, txn_id: str, rows: pa.Table) -> None:
        columns = rows.drop_columns(["shard", "address", "state"])
        with stream.transaction(txn_id, rows.num_rows) as transaction:
            if transaction.is_replay:
                self._rows_before += rows.num_rows
            else:
                self._rows_added += rows.num_rows
            transaction.append_batch(columns, schemas=self._manifest.schemas)


class _ShardCopy:
    """Makes a shard a copy of an exported one."""

    def __init__(
        self, stream: Stream, shard: int, exported_shard: ExportedShard, manifest: Manifest
    ) -> None:
        self._stream = stream
        self._shard = shard
        self._exported_shard = exported_shard
        self._manifest = manifest
        self._numbers = schema_numbers(manifest.schemas)
        self._tail = stream.committed()[shard]
        # Addresses that the exported shard no longer had.
        gaps = [*exported_shard.gaps, *exported_shard.lost]
        if exported_shard.start > exported_shard.born:
            gaps.append((exported_shard.born, exported_shard.start))
        self._gaps = sorted(gap for gap in gaps if gap[1] > self._tail)

    def copy(self, ranges: Iterator[RangeRows]) -> None:
        """Copy rows in order of address, and skip gaps."""
        if self._tail > self._exported_shard.born < self._exported_shard.start:
            no_rows = sorted_by_address([], has_keys=self._manifest.has_keys)
            self._compare(
                no_rows, self._exported_shard.born, min(self._tail, self._exported_shard.start)
            )
        for row_range in ranges:
            self._copy_range(row_range)
        while self._gaps:
            self._skip(*self._gaps.pop(0))
        if self._manifest.selection.is_everything and self._tail <= self._exported_shard.committed:
            self._finish()

    def _copy_range(self, range_rows: RangeRows) -> None:
        rows = range_rows.rows
        addresses = rows.column("address").to_numpy()
        existing = int(np.searchsorted(addresses, self._tail))
        if self._tail > range_rows.row_range.start:
            self._compare(
                rows.slice(0, existing), range_rows.row_range.start, min(self._tail, range_rows.end)
            )
        rows = rows.slice(existing)
        range_rows.added = rows.num_rows
        while rows.num_rows:
            count = rows.num_rows
            if self._gaps:
                count = int(np.searchsorted(rows.column("address").to_numpy(), self._gaps[0][0]))
            self._append(rows.slice(0, count))
            rows = rows.slice(count)
            if rows.num_rows:
                self._skip(*self._gaps.pop(0))
        self._stream.commit()

    def _compare(self, rows: pa.Table, start: int, end: int) -> None:
        """Refuse a shard with other rows at these addresses."""
        has_keys = self._manifest.has_keys
        columns = stored_columns(has_keys=has_keys)
        try:
            tables = [
                numbered(batch, self._numbers)
                for batch in self._stream.tail(self._shard, start, end, columns=columns)
                if batch.num_rows
            ]
        except LostRangeError as error:
            message = f"the stream's rows there cannot be compared: {error.message}"
            raise InvalidRequestError(message, shard=self._shard, start=start, end=end) from error
        existing = sorted_by_address(
            [to_export_rows(tables, has_keys=has_keys)] if tables else [], has_keys=has_keys
        )
        names = [name for name in rows.schema.names if name != "state" or self._has_states]
        if not are_same(
            existing.select(names).combine_chunks(), rows.select(names).combine_chunks()
        ):
            message = (
                "the stream has other rows there than the export: import into an empty stream, or "
                "use --append"
            )
            raise InvalidRequestError(message, shard=self._shard, start=start, end=end)

    def _append(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        addresses = rows.column("address").to_numpy()
        dropped = ["shard", "address"] + ([] if self._has_states else ["state"])
        self._stream.append_batch(
            rows.drop_columns(dropped),
            shard=self._shard,
            addresses=addresses,
            schemas=self._manifest.schemas,
        )
        self._tail = int(addresses[-1]) + 1

    def _skip(self, start: int, end: int) -> None:
        if self._tail < start and "next" in (self._exported_shard.source or {}):
            # The addresses before have no rows any more, and are not a gap.
            self._set_source(start)
        self._stream.skip(self._shard, end)
        self._tail = end

    def _finish(self) -> None:
        """Move the shard to the end of the exported one."""
        source = self._exported_shard.source
        if source is not None and "next" in source:
            if self._stream.source(self._shard) != source:
                self._set_source(self._exported_shard.committed)
                self._stream.commit()
        elif self._tail < self._exported_shard.committed or source is not None:
            self._stream.skip(self._shard, self._exported_shard.committed, source=source)
        self._tail = self._exported_shard.committed

    def _set_source(self, end: int) -> None:
        no_rows = sorted_by_address([], has_keys=self._manifest.has_keys).drop_columns(
            ["shard", "address", "state", "schema"]
        )
        source = {**(self._exported_shard.source or {}), "next": end}
        self._stream.append_batch(no_rows, shard=self._shard, source=source)

    @property
    def _has_states(self) -> bool:
        return self._manifest.selection.has_whole_ids
