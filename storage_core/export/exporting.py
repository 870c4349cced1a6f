"""Export of a stream, or some of its rows, to Parquet, Avro or JSON lines with a manifest.

    export_stream("./data", "telemetry", "./telemetry-export")

An export is a snapshot: rows that are committed later are not in it, nor are expired rows.
`importing.py` makes a stream of it.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Final, get_args

from storage_core.catalog.options import check_choice
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import InvalidRequestError, LostRangeError
from storage_core.export.export_rows import RANGE_ROWS, row_batches, schema_numbers
from storage_core.export.file_formats import file_format_of
from storage_core.export.manifest import (
    AddressRanges,
    Codec,
    ExportedShard,
    FormatName,
    Manifest,
    RowRange,
    RowSelection,
)
from storage_core.export.work_directory import WorkDirectory
from storage_core.format.shard_state import AddressRange
from storage_core.parts.part_rows import stored_columns
from storage_core.platform.clock import SystemClock
from storage_core.read.request import (
    Ids,
    Keys,
    ReadRequest,
    checked_keys,
    integer,
    refuse_unfit,
    request_of,
)
from storage_core.read.shard_reader import ShardFacts
from storage_core.reader import StreamReader

_NS_A_MS: Final = 10**6
_ID_BYTES: Final = 16
# Called with the number of rows that are done.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export.

    Attributes:
        directory: The directory.
        rows: The number of rows.
        bytes: The size of its files without the manifest.
        files: The number of files.
        lost: Lost addresses that were left out, by shard.
        is_resumed: Whether it continued an interrupted export.
    """

    directory: Path
    rows: int
    bytes: int
    files: int
    lost: Mapping[int, AddressRanges]
    is_resumed: bool


def export_stream(  # noqa: PLR0913 - what of which stream, and how it is written
    root: str | PathLike[str],
    name: str,
    directory: str | PathLike[str],
    *,
    file_format: FormatName = "parquet",
    start: int | None = None,
    end: int | None = None,
    ids: Ids = None,
    keys: Keys = None,
    codec: Codec = "deflate",
    file_rows: int = RANGE_ROWS,
    without_lost: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Write rows of a stream to files in a directory; durable and complete on return, or absent.

    The same call continues an interrupted export, with its first snapshot. Writers and other
    readers continue meanwhile.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        directory: The directory for the files; absent or empty.
        file_format: `parquet`: the columns of parts, with typed values if they have a schema;
            `avro`: container files, one for each schema; `jsonl`: JSON lines.
        start: The lowest primary; None for no bound.
        end: The highest primary, inclusive; None for no bound.
        ids: One secondary, several, or None for all.
        keys: Instead of `ids` on a stream with a key dictionary.
        codec: The compression of `avro` blocks.
        file_rows: About how many rows a file has.
        without_lost: Leave out lost ranges, and list them in the manifest. Without it a lost range
            is an error.
        progress: Called repeatedly with the number of rows that are done.

    Raises:
        InvalidRequestError: An argument is invalid, or `directory` is not empty.
        LostRangeError: Rows are lost.
        UnavailableError: The disk fails; the same call continues.
    """
    check_choice("file_format", file_format, get_args(FormatName))
    check_choice("codec", codec, get_args(Codec))
    rows_max = integer("file_rows", file_rows)
    if rows_max < 1:
        message = f"file_rows: {rows_max} is not 1 or more"
        raise InvalidRequestError(message)
    request = request_of("arrival", ids, start, end, 0, None, None)
    selection = RowSelection(start, end, request.ids, _sorted(checked_keys(keys)))
    with StreamReader.open(root, name) as reader:
        reader.refresh()
        stream_files = read_stream(Path(root), name)
        request = _stream_request(request, selection, stream_files)
        plan = _plan(reader, stream_files, selection, file_format, codec, without_lost=without_lost)
        with WorkDirectory.opened(Path(directory), plan) as work:
            _write_all(reader, work, request, rows_max, progress or (lambda _: None))
            manifest = work.finish()
        return ExportReport(
            work.target,
            manifest.rows,
            manifest.bytes,
            sum(len(row_range.files) for row_range in manifest.row_ranges),
            {
                number: shard.lost
                for number, shard in manifest.exported_shards.items()
                if shard.lost
            },
            work.is_resumed,
        )


def _sorted(keys: Iterable[bytes | None] | None) -> tuple[bytes | None, ...] | None:
    if keys is None:
        return None
    return tuple(sorted(keys, key=lambda key: (key is not None, key or b"")))


def _stream_request(
    request: ReadRequest, selection: RowSelection, stream_files: StreamFiles
) -> ReadRequest:
    """Return the read request for each shard."""
    columns = stored_columns(has_keys=stream_files.meta.has_keys)
    request = replace(request, keys=selection.keys, columns=columns)
    refuse_unfit(stream_files.meta, request)
    return request


def _plan(  # noqa: PLR0913 - the parts of a plan
    reader: StreamReader,
    stream_files: StreamFiles,
    selection: RowSelection,
    file_format: FormatName,
    codec: Codec,
    *,
    without_lost: bool,
) -> Manifest:
    """Return the manifest of an export that begins now, without files."""
    exported_shards = {}
    for number in reader.committed():
        state = reader.shard(number).state()
        if state.lost and not without_lost:
            first, end = state.lost[0].start, state.lost[0].end
            message = "rows are lost; use `accept-loss`, or `--without-lost` to leave them out"
            raise LostRangeError(
                message, stream=stream_files.meta.name, shard=number, start=first, end=end
            )
        exported_shards[number] = _exported_shard(reader, number, state)
    meta = stream_files.meta
    return Manifest(
        export=secrets.token_hex(_ID_BYTES),
        file_format=file_format,
        codec=codec,
        stream=meta.name,
        incarnation=meta.incarnation,
        jitter=meta.jitter,
        shards=meta.shards,
        key_mode=meta.key_mode,
        origin=meta.origin,
        options=stream_files.settings.options,
        selection=selection,
        exported_at_ms=SystemClock().now_ns() // _NS_A_MS,
        exported_shards=exported_shards,
        # IMPORTANT: after the shards are read, so that the schemas of all committed rows are here.
        schemas=tuple(reader.schemas()),
    )


def _exported_shard(reader: StreamReader, shard: int, state: ShardFacts) -> ExportedShard:
    source = dict(state.source) if state.source else None
    if source is not None and "next" in source:
        # It may be the position of a batch that is not committed yet.
        source["next"] = min(int(str(source["next"])), state.committed)
    born = reader.born(shard)
    return ExportedShard(
        reader.lineage(shard),
        born,
        max(state.start, born),
        state.committed,
        _below(state.skipped, state.committed),
        _below(state.lost, state.committed),
        source,
    )


def _below(ranges: Iterable[AddressRange], committed: int) -> AddressRanges:
    """Return the committed part of some ranges; the rest may be of an uncommitted batch."""
    return tuple((gap.start, min(gap.end, committed)) for gap in ranges if gap.start < committed)


def _write_all(
    reader: StreamReader,
    work: WorkDirectory,
    request: ReadRequest,
    rows_max: int,
    progress: Progress,
) -> None:
    file_format, numbers = file_format_of(work.plan), schema_numbers(work.plan.schemas)
    ends = {row_range.shard: row_range.end for row_range in work.row_ranges}
    rows_done = sum(row_range.rows for row_range in work.row_ranges)
    progress(rows_done)
    for number, exported_shard in work.plan.exported_shards.items():
        for first, end in _addresses_left(exported_shard, ends.get(number, 0)):
            shard = reader.shard(number)
            remaining = replace(request, shard=number, start_address=first, end_address=end)
            begin = first
            for range_end, batches in row_batches(shard, remaining, numbers, rows_max):
                stem = f"{number:04d}-{begin:019d}"
                files = file_format.write(work.directory, stem, batches)
                work.add(RowRange(number, begin, range_end, files))
                begin, rows_done = range_end, rows_done + sum(file.rows for file in files)
                progress(rows_done)
            if begin < end:
                # So that an import can tell addresses without rows from missing rows.
                work.add(RowRange(number, begin, end, ()))


def _addresses_left(exported_shard: ExportedShard, ends: int) -> list[tuple[int, int]]:
    """Return the address ranges of a shard to export, without lost ones."""
    ranges, first = [], max(exported_shard.born, ends)
    for lost, end in sorted(exported_shard.lost):
        if first < lost:
            ranges.append((first, lost))
        first = max(first, end)
    if first < exported_shard.committed:
        ranges.append((first, exported_shard.committed))
    return ranges
