"""Builds the files of parts: of rows of the log, or of parts that are merged.

It needs a view of the shard, a writer's or any reader's, and publishes nothing: no part list has
the files until somebody writes their entries, and the next step deletes those that nobody did.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.errors import CorruptionError, LostRangeError, UnavailableError
from storage_core.format.part_entry import PartEntry
from storage_core.format.record import State
from storage_core.format.row_columns import COMMITTED
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange
from storage_core.parts.part_file import write_part
from storage_core.parts.part_proof import prove_part
from storage_core.parts.part_rows import (
    RAW,
    PartRows,
    numbered,
    numbers_of,
    part_columns,
    part_rows,
    stored_columns,
)
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.snapshot import listed_part, parts_directory
from storage_core.parts.typed_columns import Writer
from storage_core.platform.arrow import concat
from storage_core.platform.durable_file import sync_directory, taking_errors
from storage_core.read.answer import scan_snapshot
from storage_core.read.cold.rows import ColdRows
from storage_core.read.cold.slices import ColdSlice
from storage_core.read.request import ReadRequest
from storage_core.read.schema_columns import schemas_in
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.block_proof import prove_blocks
from storage_core.tiering.limits import STEP_BYTES_MAX, STEP_ROWS_MAX
from storage_core.tiering.work import (
    BuildWork,
    Built,
    CompactWork,
    ProveWork,
    RebuildWork,
    SealWork,
    Work,
)
from storage_core.verify.part_checks import part_difference
from storage_core.write.opened_shard import ShardContext

# Blocks of few rows are on_rows together: each would cost as much as thousands of rows.
_ROWS_ALONE: Final = 512
_BYTES_ALONE: Final = 64 * 2**10
_BATCHES_TOGETHER: Final = 512
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows that parts are built of.

    Attributes:
        rows: As the shard has them, with the numbers of their schemas; gone once parts are built.
        end: The exclusive end of their addresses, of rows that are sealed.
        schemas: By number.
        has_keys: Whether rows belong to keys.
    """

    rows: list[pa.RecordBatch]
    end: int
    schemas: Sequence[SchemaEntry]
    has_keys: bool


@contextmanager
def build_errors(directory: Path) -> Iterator[None]:
    """Translate what the system, or Arrow, refuses to whoever builds parts.

    Raises:
        UnavailableError: There is no memory or no disk for it, or rows do not fit Arrow; nothing
            was published, and the call may be repeated once there is.
    """
    doing = "parts cannot be built"
    with taking_errors(directory, doing):
        try:
            yield
        except (pa.ArrowException, MemoryError) as error:
            message = f"{doing}: {str(error) or 'there is no memory for it'}"
            raise UnavailableError(message, path=directory) from error


def build_here(
    context: ShardContext, view: ShardSnapshot, work: Work, on_rows: OnRows = ignore_rows
) -> Built:
    """Build or prove the files in this thread, of what the writer itself sees.

    `on_rows` is called with how many rows were read, written and proven, some at a time.

    Raises:
        UnavailableError: The system or Arrow refuses it now.
        CorruptionError: What it is built of is damaged, or cannot replace blocks.
    """
    directory = parts_directory(context.directory)
    with build_errors(directory):
        if isinstance(work, ProveWork):
            return prove_blocks(view, directory, work, on_rows)
        refuse_damaged(view.stream, view.shard, directory, work)
        rows = source_rows(view, directory, work, on_rows)
        return build(rows, directory, work, on_rows)


def refuse_damaged(stream: str, shard: int, directory: Path, work: BuildWork) -> None:
    """Refuse to merge parts whose files are not those of the part list.

    Raises:
        CorruptionError: One is damaged or gone.
    """
    for part in work.parts if isinstance(work, CompactWork) else ():
        listed = listed_part(shard, directory, part)
        if damage := part_difference(listed):
            message = (
                f"a part {damage}, so it cannot be merged with others; "
                "`seal` with rebuild builds it again"
            )
            raise CorruptionError(
                message,
                stream=stream,
                shard=shard,
                path=listed.path,
                start=part.first,
                end=part.last + 1,
            )


def source_rows(
    view: ShardSnapshot, directory: Path, work: BuildWork, on_rows: OnRows
) -> SourceRows:
    """Return the rows of a piece of work.

    Raises:
        CorruptionError: A block or a part that has them is damaged, or the view has a hole.
    """
    if isinstance(work, SealWork):
        rows, end = _of_log(view, work, on_rows)
    elif isinstance(work, CompactWork):
        rows, end = _of_parts(view, directory, work, on_rows), 0
    else:
        rows, end = list(rows_of_part(view, work.part)), 0
    return SourceRows(rows, end, list(schemas_in(view)), view.meta.has_keys)


def build(source: SourceRows, directory: Path, work: BuildWork, on_rows: OnRows) -> Built:
    """Write rows as parts, durably, and prove each against them.

    Raises:
        CorruptionError: A part does not have the rows it was built of.
    """
    if not source.rows:
        return Built((), source.end)
    writers = [
        Writer(AvroSchema.stored(schema.text), schema.registry_id) for schema in source.schemas
    ]
    level = _level_of(work)
    tables = part_rows(
        _drained(source.rows), has_keys=source.has_keys, writers=writers, on_rows=on_rows
    )
    parts = tuple(
        replace(_write_part(table, number, directory, work, on_rows), level=level)
        for number, table in enumerate(tables, work.number)
    )
    sync_directory(directory)
    return Built(parts, source.end)


def _drained(rows: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows.reverse()
    while rows:
        yield rows.pop()


def _level_of(work: BuildWork) -> int:
    """Return how often the rows of a part were merged with others."""
    match work:
        case SealWork():
            return 0
        case CompactWork():
            return work.parts[0].level + 1
        case RebuildWork():
            return work.part.level


def _write_part(
    table: PartRows, number: int, directory: Path, work: BuildWork, on_rows: OnRows
) -> PartEntry:
    """Write the file of a part, durable but for its name, prove it, and return its entry."""
    rows: Any = table.rows
    addresses, primaries = rows.column("address").to_numpy(), rows.column("primary").to_numpy()
    part = PartEntry(
        first=int(addresses.min()),
        number=number,
        last=int(addresses.max()),
        primary_min=int(primaries.min()),
        primary_max=int(primaries.max()),
        rows=rows.num_rows,
        size=0,
        sealed_at_ms=work.now_ms,
        level=0,
        is_out_of_order=table.is_out_of_order,
        digest=b"",
        kind=table.kind,
        footer_bytes=0,
        footer_digest=b"",
    )
    path = directory / part.file_name
    # Else each would be written again as it is published.
    has_split_floats = not work.is_for_lake
    proof = write_part(path, rows, table.order, on_rows, has_split_floats=has_split_floats)
    prove_part(path, rows, on_rows)
    return replace(part, **asdict(proof))


def _of_log(
    view: ShardSnapshot, work: SealWork, on_rows: OnRows
) -> tuple[list[pa.RecordBatch], int]:
    """Return stored rows from an address on, and the exclusive end that they reach to."""
    if view.committed < work.end:
        message = "the log ends before what is to be sealed"
        raise CorruptionError(
            message, stream=view.stream, shard=view.shard, start=view.committed, end=work.end
        )
    request = ReadRequest(
        view.shard,
        start_address=work.begin,
        end_address=work.end,
        columns=part_columns(has_keys=view.meta.has_keys),
        order="replay",
        expired_until=work.generation,
    )
    numbers = numbers_of(list(schemas_in(view)))
    rows: list[pa.RecordBatch] = []
    waiting: list[pa.RecordBatch] = []
    count, size, end = 0, 0, work.end
    for batch, reached in scan_snapshot(view, request, with_ahead=True):
        batch_bytes = batch.nbytes
        count += batch.num_rows
        size += batch_bytes
        on_rows(batch.num_rows)
        is_small = batch.num_rows < _ROWS_ALONE and batch_bytes < _BYTES_ALONE
        if not is_small or len(waiting) >= _BATCHES_TOGETHER:
            rows += _together(waiting, numbers)
        if batch.num_rows:
            waiting.append(batch)
        if not is_small:
            rows += _together(waiting, numbers)
        if count >= STEP_ROWS_MAX or size >= STEP_BYTES_MAX:
            end = work.end if reached is None else min(work.end, reached)
            break
    return [*rows, *_together(waiting, numbers)], end


def _together(
    waiting: list[pa.RecordBatch], numbers: dict[tuple[int, bytes], int]
) -> list[pa.RecordBatch]:
    """Return what waits as one batch with the numbers of schemas, none if nothing does."""
    if not waiting:
        return []
    batch = concat(waiting) if len(waiting) > 1 else waiting[0]
    waiting.clear()
    return [numbered(batch, numbers)]


def _of_parts(
    view: ShardSnapshot, directory: Path, work: CompactWork, on_rows: OnRows
) -> list[pa.RecordBatch]:
    """Return the rows of some parts."""
    names = [
        name for name in stored_columns(has_keys=view.meta.has_keys) if name != "schema_fingerprint"
    ]
    columns = (*names, COMMITTED, "schema")
    cold = ColdRows(view, directory)
    rows = []
    for part in work.parts:
        alone = ColdSlice(AddressRange(part.first, part.last + 1), (part,))
        rows.append(cold.of_slice(alone, columns))
        on_rows(part.rows)
    return rows


def rows_of_part(view: ShardSnapshot, part: PartEntry) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the log has of a part, by address.

    Raises:
        LostRangeError: Some of them may be lost, or were trimmed.
    """
    schemas = list(schemas_in(view))
    number_of = numbers_of(schemas)
    kinds = [AvroSchema.stored(schema.text).full_name for schema in schemas]
    # The last is that of rows without a schema.
    is_kind = np.array([kind == part.kind for kind in (*kinds, RAW)])
    request = ReadRequest(
        view.shard,
        start_address=part.first,
        end_address=part.last + 1,
        columns=part_columns(has_keys=view.meta.has_keys),
        order="replay",
        expired_until=view.state.generation,
    )
    try:
        for stored, _ in scan_snapshot(view, request, with_ahead=True):
            batch = numbered(stored, number_of)
            numbers = batch.column("schema").fill_null(-1).to_numpy()
            is_out_of_order = batch.column("state").to_numpy() != State.NORMAL
            is_of_part = is_kind[numbers] & (is_out_of_order == part.is_out_of_order)
            if is_of_part.any():
                yield batch.filter(_untyped.array(is_of_part))
    except CorruptionError as error:
        if part.first >= view.state.trimmed and not isinstance(error, LostRangeError):
            raise
        message = f"{part.file_name} cannot be rebuilt: {error.message}"
        raise LostRangeError(
            message,
            stream=view.stream,
            shard=view.shard,
            path=error.path,
            start=error.start,
            end=error.end,
        ) from error
