"""Exports: a stream, or some of its rows, as files of Parquet, Avro or JSON lines with a manifest.

    export_stream("./data", "telemetry", "./telemetry-export")

An export is of one moment: what is committed later is in no part of it. It has what reads show;
what has expired is left out. `importing.py` makes a stream of it again.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, get_args

from storage_core.catalog.options import check_choice
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import InvalidRequestError, LostRangeError
from storage_core.export.forms import form_of
from storage_core.export.manifest import (
    Asked,
    Chunk,
    Codec,
    FormName,
    Manifest,
    Ranges,
    ShardMoment,
)
from storage_core.export.plain_rows import CHUNK_ROWS, Numbers, asked_columns, chunks_of
from storage_core.export.work_place import WorkPlace
from storage_core.format.shard_state import AddressRange
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
# Told how many rows are done.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export has.

    Attributes:
        directory: Where it is.
        rows: How many rows.
        bytes: The size of its files, but for the manifest.
        files: How many of them.
        lost: What was lost, and left out, by shard.
        is_resumed: Whether it went on with one that was interrupted.
    """

    directory: Path
    rows: int
    bytes: int
    files: int
    lost: Mapping[int, Ranges]
    is_resumed: bool


def export_stream(  # noqa: PLR0913 - what of which stream, and how it is written
    root: str | PathLike[str],
    name: str,
    directory: str | PathLike[str],
    *,
    form: FormName = "parquet",
    start: int | None = None,
    end: int | None = None,
    ids: Ids = None,
    keys: Keys = None,
    codec: Codec = "deflate",
    file_rows: int = CHUNK_ROWS,
    without_lost: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Write rows of a stream to files in a directory; durable and whole on return, or not there.

    An export that was interrupted goes on where it stopped if it is asked for again; it is of the
    moment at which it began. Writers and other readers go on beside it.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        directory: Where the files shall be; not there yet, or empty.
        form: `parquet`: with the columns of parts, typed where a schema wrote the values; `avro`:
            container files, one a schema; `jsonl`: lines of JSON.
        start: Least primary, inclusive; None for no bound.
        end: Largest primary, inclusive; None for no bound.
        ids: One secondary, several, or None for all.
        keys: In the place of `ids` on a stream with a key dictionary.
        codec: How the blocks of `avro` are compressed.
        file_rows: After about so many rows the next files begin.
        without_lost: Leave out what is lost, and tell it in the manifest. Without it a lost range
            among the rows is refused.
        progress: Called again and again with how many rows are done.

    Raises:
        InvalidRequestError: Something asked for cannot be, or there is something at `directory`.
        LostRangeError: Rows are lost.
        UnavailableError: The disk refuses; asked again it goes on.
    """
    check_choice("form", form, get_args(FormName))
    check_choice("codec", codec, get_args(Codec))
    rows_max = integer("file_rows", file_rows)
    if rows_max < 1:
        message = f"file_rows: {rows_max} is not 1 or more"
        raise InvalidRequestError(message)
    request = request_of("arrival", ids, start, end, 0, None, None)
    asked = Asked(start, end, request.ids, _sorted(checked_keys(keys)))
    with StreamReader.open(root, name) as reader:
        reader.refresh()
        whole = read_stream(Path(root), name)
        request = _request(request, asked, whole)
        plan = _plan(reader, whole, asked, form, codec, without_lost=without_lost)
        with WorkPlace.opened(Path(directory), plan) as work:
            _write_all(reader, work, request, rows_max, progress or (lambda _: None))
            manifest = work.finish()
        return ExportReport(
            work.target,
            manifest.rows,
            manifest.bytes,
            sum(len(one.files) for one in manifest.chunks),
            {number: one.lost for number, one in manifest.places.items() if one.lost},
            work.is_resumed,
        )


def _sorted(keys: Iterable[bytes | None] | None) -> tuple[bytes | None, ...] | None:
    if keys is None:
        return None
    return tuple(sorted(keys, key=lambda one: (one is not None, one or b"")))


def _request(given: ReadRequest, asked: Asked, whole: StreamFiles) -> ReadRequest:
    """Return what is asked of each shard."""
    found = ReadRequest(
        0,
        start=given.start,
        end=given.end,
        ids=given.ids,
        keys=asked.keys,
        columns=asked_columns(has_keys=whole.meta.has_keys),
    )
    refuse_unfit(whole.meta, found)
    return found


def _plan(  # noqa: PLR0913 - the parts of a plan
    reader: StreamReader,
    whole: StreamFiles,
    asked: Asked,
    form: FormName,
    codec: Codec,
    *,
    without_lost: bool,
) -> Manifest:
    """Return what would be exported now."""
    places = {}
    for number in reader.committed():
        facts = reader.shard(number).state()
        if facts.lost and not without_lost:
            first, end = facts.lost[0].start, facts.lost[0].end
            message = "rows are lost; `accept-loss` gives them up, `--without-lost` leaves them out"
            raise LostRangeError(
                message, stream=whole.meta.name, shard=number, start=first, end=end
            )
        places[number] = _moment(reader, number, facts)
    meta = whole.meta
    return Manifest(
        export=secrets.token_hex(_ID_BYTES),
        form=form,
        codec=codec,
        stream=meta.name,
        incarnation=meta.incarnation,
        jitter=meta.jitter,
        shards=meta.shards,
        key_mode=meta.key_mode,
        origin=meta.origin,
        options=whole.settings.options,
        asked=asked,
        taken_at_ms=SystemClock().now_ns() // _NS_A_MS,
        places=places,
        # IMPORTANT: behind the looks at the shards, so that what is committed has its schemas here.
        schemas=tuple(reader.schemas()),
    )


def _moment(reader: StreamReader, shard: int, facts: ShardFacts) -> ShardMoment:
    source = dict(facts.source) if facts.source else None
    if source is not None and "next" in source:
        # It may be of a batch that is not committed yet.
        source["next"] = min(int(str(source["next"])), facts.committed)
    born = reader.born(shard)
    return ShardMoment(
        reader.lineage(shard),
        born,
        max(facts.start, born),
        facts.committed,
        _below(facts.skipped, facts.committed),
        _below(facts.lost, facts.committed),
        source,
    )


def _below(ranges: Iterable[AddressRange], committed: int) -> Ranges:
    """Return what of some ranges is committed: the rest may be of a batch that is not yet."""
    return tuple((gap.start, min(gap.end, committed)) for gap in ranges if gap.start < committed)


def _write_all(
    reader: StreamReader, work: WorkPlace, request: ReadRequest, rows_max: int, progress: Progress
) -> None:
    form, numbers = form_of(work.plan), Numbers(work.plan.schemas)
    reached = {one.shard: one.end for one in work.chunks}
    done = sum(one.rows for one in work.chunks)
    progress(done)
    for number, place in work.plan.places.items():
        for first, end in _ranges(place, reached.get(number, 0)):
            asked = ReadRequest(
                number,
                first,
                end,
                request.start,
                request.end,
                request.ids,
                columns=request.columns,
                keys=request.keys,
            )
            begin = first
            for reached_to, batches in chunks_of(reader.shard(number), asked, numbers, rows_max):
                stem = f"{number:04d}-{begin:019d}"
                files = form.write(work.directory, stem, batches)
                work.add(Chunk(number, begin, reached_to, files))
                begin, done = reached_to, done + sum(one.rows for one in files)
                progress(done)
            if begin < end:
                # So that an import can tell addresses without a row from rows that are missing.
                work.add(Chunk(number, begin, end, ()))


def _ranges(place: ShardMoment, reached: int) -> list[tuple[int, int]]:
    """Return what of a shard's addresses is left, without what is lost."""
    ranges, first = [], max(place.born, reached)
    for lost, end in sorted(place.lost):
        if first < lost:
            ranges.append((first, lost))
        first = max(first, end)
    if first < place.committed:
        ranges.append((first, place.committed))
    return ranges
