"""Imports: rows of an export in a stream again.

    import_stream("./data", "telemetry", "./telemetry-export")

Into a stream that is not there, or has no rows, they come as a copy: with their addresses, states
and schemas, gaps passed over, each shard up to where it stood. Nothing is trusted: rows count up to
where the digests of their file hold, and rows that are there already are compared. So an import
that was interrupted goes on, and one that is repeated changes nothing.

With `append` they are new rows behind those that are there: judged anew, each chunk a transaction
of its own name, so that an import that is repeated does not add them twice.
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
from storage_core.export.bounds import FILE_BYTES_MAX
from storage_core.export.checks import refuse_false
from storage_core.export.chunk_rows import ChunkReader, ChunkRows, Damage
from storage_core.export.manifest import (
    MANIFEST_FILE,
    Chunk,
    Manifest,
    ShardMoment,
    read_manifest,
)
from storage_core.export.plain_rows import (
    Numbers,
    asked_columns,
    by_address,
    plain,
)
from storage_core.export.regular_file import refuse_other_file
from storage_core.export.work_place import PLAN_FILE, partial_place
from storage_core.parts.part_rows import numbered
from storage_core.parts.same_rows import are_same
from storage_core.platform.durable_file import reading_errors
from storage_core.stream import Stream

# Told how many rows are done.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        rows: How many rows it added.
        rows_before: How many of the export's were there before.
        is_new: Whether it made the stream.
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
    """Take the rows of an export into a stream; durable on return.

    Args:
        root: The directory that holds the streams; made if it is not there.
        name: The stream; made as the exported one was if it is not there.
        directory: The export.
        append: Add the rows behind those that the stream has, as new ones.
        file_bytes_max: What a file may take in memory, packed and unpacked; more is refused before
            it is unpacked, since few bytes can claim to be many.
        progress: Called again and again with how many rows are done.

    Raises:
        InvalidRequestError: There is no whole export, its rows do not fit the stream, or a file
            takes more memory than it may.
        CorruptionError: A file is damaged or cut. The rows before that were taken; the error says
            how many of the file. Or no export wrote the manifest, or a file; nothing of the
            manifest, or no row of the file, was taken.
        UnavailableError: The disk refuses, or another writer has the stream; asked again it goes
            on.
    """
    place = Path(directory)
    if type(file_bytes_max) is not int or not 1 <= file_bytes_max < 2**31:
        message = f"file_bytes_max: {file_bytes_max!r} is not an integer from 1 to {2**31 - 1}"
        raise InvalidRequestError(message)
    with reading_errors(place, "reading the export"):
        manifest = _manifest(place, file_bytes_max)
        for chunk in manifest.chunks:
            for file in chunk.files:
                refuse_other_file(place / file.name)
        # Files of a size that a chunk has are read whole, one chunk at a time.
        reader = ChunkReader(place, manifest, file_bytes_max)
        intake = _Intake(place, manifest, reader, progress or (lambda _: None))
        if append:
            return intake.append(Path(root), name)
        return intake.copy(Path(root), name)


def rows_exported(directory: str | PathLike[str], file_bytes_max: int = FILE_BYTES_MAX) -> int:
    """Return how many rows an export has, by its manifest.

    Raises:
        InvalidRequestError: There is no whole export.
        CorruptionError: The manifest is damaged, or no export wrote it.
        UnavailableError: The disk refuses.
    """
    place = Path(directory)
    with reading_errors(place, "reading the export"):
        return _manifest(place, file_bytes_max).rows


def _manifest(directory: Path, bytes_max: int) -> Manifest:
    path = directory / MANIFEST_FILE
    try:
        manifest = read_manifest(path, bytes_max)
        refuse_false(manifest, path)
        return manifest  # noqa: TRY300 - what was refused is told by itself
    except (FileNotFoundError, NotADirectoryError) as error:
        is_partial = (directory / PLAN_FILE).exists() or partial_place(directory).exists()
        message = "there is no export: it has no manifest"
        if is_partial:
            message = "the export was interrupted; the command that began it finishes it"
        raise InvalidRequestError(message, path=directory) from error


class _Intake:
    """One import."""

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        reader: ChunkReader,
        progress: Progress,
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._reader = reader
        self._first: ChunkRows | None = None
        self._progress = progress
        self._added = 0
        self._before = 0
        self._by_shard: dict[int, list[Chunk]] = {}
        for chunk in manifest.chunks:
            self._by_shard.setdefault(chunk.shard, []).append(chunk)

    # --- a copy ----------------------------------------------------------------------------

    def copy(self, root: Path, name: str) -> ImportReport:
        """Take rows with their addresses."""
        check_name(name)
        is_new = not (root / name / STREAM_FILE).exists()
        if is_new:
            # What no export wrote is refused before there is a stream for it.
            first = next((c for shard in self._manifest.places for c in self._of(shard)), None)
            self._first = None if first is None else self._reader.rows_of(first)
            origin, options = self._manifest.origin, self._manifest.options
            Stream.create(root, name, options, origin=origin).close()
        if self._manifest.origin is not None:
            births = {number: one.born for number, one in self._manifest.places.items()}
            Stream.add_shards(root, name, births)
        with Stream.open(root, name) as stream:
            self._refuse_unlike(stream, name)
            for shard, moment in self._manifest.places.items():
                _ShardCopy(stream, shard, moment, self._manifest).take(self._chunks(shard))
        return ImportReport(self._added, self._before, is_new)

    def _refuse_unlike(self, stream: Stream, name: str) -> None:
        """Refuse a stream whose rows have other places, or are judged by other rules."""
        ours, theirs = self._manifest, stream.options
        pairs = {
            "unit": (ours.options.unit, theirs.unit),
            "key_mode": (ours.key_mode, theirs.key_mode),
            "jitter": (ours.jitter, theirs.jitter),
            "origin": (ours.origin, stream.origin),
            "shards": (sorted(ours.places), sorted(stream.committed())),
        }
        for what, (one, other) in pairs.items():
            if one != other:
                message = (
                    f"the stream has another {what} than the one that was exported: import into "
                    "one that is not there yet, or with --append"
                )
                raise InvalidRequestError(message, stream=name)

    def _chunks(self, shard: int) -> Iterator[ChunkRows]:
        for chunk in self._of(shard):
            first, self._first = self._first, None
            taken = self._reader.rows_of(chunk) if first is None else first
            yield taken
            self._added += taken.added
            self._before += taken.rows.num_rows - taken.added
            self._progress(self._added + self._before)
            if taken.damage is not None:
                raise taken.damage.error(self._directory, shard, taken.end)

    def _of(self, shard: int) -> list[Chunk]:
        return self._by_shard.get(shard, [])

    # --- new rows --------------------------------------------------------------------------

    def append(self, root: Path, name: str) -> ImportReport:
        """Take rows as new ones."""
        with Stream.open(root, name) as stream:
            self._refuse_as_new(stream, name)
            for number, chunk in enumerate(self._manifest.chunks):
                if not chunk.files:
                    continue
                taken = self._reader.rows_of(chunk)
                if taken.damage is not None:
                    damage = Damage(taken.damage.file, taken.damage.rows, 0)
                    raise damage.error(self._directory, chunk.shard, chunk.start)
                self._append(stream, f"import/{self._manifest.export}/{number}", taken.rows)
                self._progress(self._added + self._before)
        return ImportReport(self._added, self._before, is_new=False)

    def _refuse_as_new(self, stream: Stream, name: str) -> None:
        if stream.origin is not None:
            message = "a topic's stream takes rows from its topic only; import it under a new name"
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
                self._before += rows.num_rows
            else:
                self._added += rows.num_rows
            transaction.append_batch(columns, schemas=self._manifest.schemas)


class _ShardCopy:
    """A shard on its way to be what an exported one was."""

    def __init__(self, stream: Stream, shard: int, moment: ShardMoment, manifest: Manifest) -> None:
        self._stream = stream
        self._shard = shard
        self._moment = moment
        self._manifest = manifest
        self._numbers = Numbers(manifest.schemas)
        self._tail = stream.committed()[shard]
        # What the copy does not have either, because it was gone.
        gaps = [*moment.gaps, *moment.lost]
        if moment.start > moment.born:
            gaps.append((moment.born, moment.start))
        self._gaps = sorted(gap for gap in gaps if gap[1] > self._tail)

    def take(self, chunks: Iterator[ChunkRows]) -> None:
        """Take rows, in the order of their addresses, and leave out what was gone."""
        if self._tail > self._moment.born < self._moment.start:
            nothing = by_address([], has_keys=self._manifest.has_keys)
            self._compare(nothing, self._moment.born, min(self._tail, self._moment.start))
        for chunk in chunks:
            self._take(chunk)
        while self._gaps:
            self._pass(*self._gaps.pop(0))
        if self._manifest.asked.is_whole and self._tail <= self._moment.committed:
            self._end()

    def _take(self, taken: ChunkRows) -> None:
        rows = taken.rows
        addresses = rows.column("address").to_numpy()
        stored = int(np.searchsorted(addresses, self._tail))
        if self._tail > taken.chunk.start:
            self._compare(rows.slice(0, stored), taken.chunk.start, min(self._tail, taken.end))
        rows = rows.slice(stored)
        taken.added = rows.num_rows
        while rows.num_rows:
            before = rows.num_rows
            if self._gaps:
                before = int(np.searchsorted(rows.column("address").to_numpy(), self._gaps[0][0]))
            self._append(rows.slice(0, before))
            rows = rows.slice(before)
            if rows.num_rows:
                self._pass(*self._gaps.pop(0))
        self._stream.commit()

    def _compare(self, rows: pa.Table, start: int, end: int) -> None:
        """Refuse a shard that has other rows where the export has these."""
        has_keys = self._manifest.has_keys
        columns = asked_columns(has_keys=has_keys)
        try:
            tables = [
                numbered(batch, self._numbers)
                for batch in self._stream.tail(self._shard, start, end, columns=columns)
                if batch.num_rows
            ]
        except LostRangeError as error:
            message = f"what the stream has there cannot be compared: {error.message}"
            raise InvalidRequestError(message, shard=self._shard, start=start, end=end) from error
        stored = by_address([plain(tables, has_keys=has_keys)] if tables else [], has_keys=has_keys)
        names = [one for one in rows.schema.names if one != "state" or self._gives_states]
        if not are_same(stored.select(names).combine_chunks(), rows.select(names).combine_chunks()):
            message = (
                "the stream has other rows there than the export: import into a stream that has "
                "none, or add them behind those with --append"
            )
            raise InvalidRequestError(message, shard=self._shard, start=start, end=end)

    def _append(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        addresses = rows.column("address").to_numpy()
        left_out = ["shard", "address"] + ([] if self._gives_states else ["state"])
        self._stream.append_batch(
            rows.drop_columns(left_out),
            shard=self._shard,
            addresses=addresses,
            schemas=self._manifest.schemas,
        )
        self._tail = int(addresses[-1]) + 1

    def _pass(self, start: int, end: int) -> None:
        if self._tail < start and "next" in (self._moment.source or {}):
            # What lies before has no rows any more, and is no gap.
            self._move(start)
        self._stream.skip(self._shard, end)
        self._tail = end

    def _end(self) -> None:
        """Bring the shard to where it stood."""
        source = self._moment.source
        if source is not None and "next" in source:
            if self._stream.source(self._shard) != source:
                self._move(self._moment.committed)
                self._stream.commit()
        elif self._tail < self._moment.committed or source is not None:
            self._stream.skip(self._shard, self._moment.committed, source=source)
        self._tail = self._moment.committed

    def _move(self, end: int) -> None:
        nothing = by_address([], has_keys=self._manifest.has_keys).drop_columns(
            ["shard", "address", "state", "schema"]
        )
        source = {**(self._moment.source or {}), "next": end}
        self._stream.append_batch(nothing, shard=self._shard, source=source)

    @property
    def _gives_states(self) -> bool:
        return self._manifest.asked.has_all_of_an_id
