"""Making the files of parts: of rows of the log, or of parts that become one.

It needs a view of the shard, a writer's or any reader's, and publishes nothing: until somebody
writes their entries the files are nobody's, and the next sweep removes them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.part_entry import PartEntry
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange
from storage_core.parts.part_file import write_part
from storage_core.parts.part_proof import prove_part
from storage_core.parts.part_rows import (
    COMMITTED,
    PartRows,
    numbered,
    numbers_of,
    part_columns,
    part_rows,
    stored_columns,
)
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.typed_columns import Writer
from storage_core.platform.arrow import concat
from storage_core.platform.durable_file import sync_directory, taking_errors
from storage_core.read.answer import scan_view
from storage_core.read.cold.parts import part_path, parts_directory
from storage_core.read.cold.rows import ColdRows
from storage_core.read.cold.slices import ColdSlice
from storage_core.read.request import ReadRequest
from storage_core.read.schema_columns import schemas_in
from storage_core.read.view import ShardView
from storage_core.tiering.part_work import JoinWork, Made, MakeWork, ProveWork, SealWork, Work
from storage_core.tiering.trim_proof import prove_blocks
from storage_core.verify.part_checks import difference
from storage_core.write.opened import ShardContext

_ROWS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 256 * 2**20
# Blocks of few rows are on_rows together: each would cost as much as thousands of rows.
_ROWS_ALONE: Final = 512
_BYTES_ALONE: Final = 64 * 2**10
_BATCHES_TOGETHER: Final = 512


@dataclass(frozen=True, slots=True)
class Taken:
    """The rows that parts are made of.

    Attributes:
        rows: As the shard has them, with the numbers of their schemas; gone once parts are made.
        end: The exclusive end of their addresses, of rows that are sealed.
        schemas: By number.
        has_keys: Whether rows belong to keys.
    """

    rows: list[pa.RecordBatch]
    end: int
    schemas: Sequence[SchemaEntry]
    has_keys: bool


@contextmanager
def making_errors(directory: Path) -> Iterator[None]:
    """Give what the system, or Arrow, refuses to whoever makes parts a kind and a place.

    Raises:
        UnavailableError: There is no memory or no disk for it, or rows do not fit Arrow; nothing
            was published, and the call may be repeated once there is.
    """
    doing = "parts cannot be made"
    with taking_errors(directory, doing):
        try:
            yield
        except (pa.ArrowException, MemoryError) as error:
            message = f"{doing}: {str(error) or 'there is no memory for it'}"
            raise UnavailableError(message, path=directory) from error


def made_here(
    context: ShardContext, view: ShardView, work: Work, on_rows: OnRows = ignore_rows
) -> Made:
    """Make or prove the files in this thread, of what the writer itself shows.

    `on_rows` is called with how many rows were read, written and proven, some at a time.

    Raises:
        UnavailableError: The system or Arrow refuses it now.
        CorruptionError: What it is made of is damaged, or cannot stand for blocks.
    """
    directory = parts_directory(context.directory)
    with making_errors(directory):
        if isinstance(work, ProveWork):
            return proven(view, directory, work, on_rows)
        refuse_damaged(view.stream, view.shard, directory, work)
        return made_of(taken(view, directory, work, on_rows), directory, work, on_rows)


def proven(
    view: ShardView, directory: Path, work: ProveWork, on_rows: OnRows = ignore_rows
) -> Made:
    """Prove that parts can stand for blocks.

    Raises:
        CorruptionError: They cannot.
    """
    prove_blocks(view, directory, work, on_rows)
    return Made((), work.end)


def refuse_damaged(stream: str, shard: int, directory: Path, work: MakeWork) -> None:
    """Refuse to join parts whose files are not those that the catalogue means.

    Raises:
        CorruptionError: One is damaged or gone.
    """
    for part in work.group if isinstance(work, JoinWork) else ():
        path = part_path(directory, part)
        if what := difference(path, part):
            message = (
                f"a part {what}, so it cannot be joined with others; "
                "`seal` with mend makes it again"
            )
            raise CorruptionError(
                message, stream=stream, shard=shard, path=path, start=part.first, end=part.last + 1
            )


def taken(view: ShardView, directory: Path, work: MakeWork, on_rows: OnRows = ignore_rows) -> Taken:
    """Return the rows of a piece of work.

    Raises:
        CorruptionError: A block or a part that has them is damaged, or the view has a hole.
    """
    if isinstance(work, SealWork):
        rows, end = _of_log(view, work, on_rows)
    else:
        rows, end = _of_parts(view, directory, work, on_rows), 0
    return Taken(rows, end, list(schemas_in(view)), view.meta.has_keys)


def made_of(found: Taken, directory: Path, work: MakeWork, on_rows: OnRows = ignore_rows) -> Made:
    """Write rows as parts, durably, and prove each against them.

    Raises:
        CorruptionError: A part does not have the rows it was made of.
    """
    if not found.rows:
        return Made((), found.end)
    writers = [Writer(AvroSchema.stored(one.text), one.registry_id) for one in found.schemas]
    level = work.group[0].level + 1 if isinstance(work, JoinWork) else 0
    each = part_rows(_let_go(found.rows), has_keys=found.has_keys, writers=writers, on_rows=on_rows)
    parts = tuple(
        replace(written_part(rows, number, directory, work.now_ms, on_rows), level=level)
        for number, rows in enumerate(each, work.number)
    )
    sync_directory(directory)
    return Made(parts, found.end)


def _let_go(rows: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows.reverse()
    while rows:
        yield rows.pop()


def written_part(
    made: PartRows, number: int, directory: Path, now_ms: int, on_rows: OnRows = ignore_rows
) -> PartEntry:
    """Write the file of a part, durable but for its name, prove it, and return its entry."""
    rows: Any = made.rows
    addresses, primaries = rows.column("address").to_numpy(), rows.column("primary").to_numpy()
    part = PartEntry(
        first=int(addresses.min()),
        number=number,
        last=int(addresses.max()),
        primary_min=int(primaries.min()),
        primary_max=int(primaries.max()),
        rows=rows.num_rows,
        size=0,
        sealed_at_ms=now_ms,
        level=0,
        is_flagged=made.is_flagged,
        digest=b"",
        kind=made.kind,
        foot_bytes=0,
        foot_digest=b"",
    )
    path = directory / part.file_name
    proof = write_part(path, rows, made.order, on_rows)
    prove_part(path, rows, on_rows)
    return replace(part, **asdict(proof))


def _of_log(view: ShardView, work: SealWork, on_rows: OnRows) -> tuple[list[pa.RecordBatch], int]:
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
    known = numbers_of(list(schemas_in(view)))
    rows: list[pa.RecordBatch] = []
    waiting: list[pa.RecordBatch] = []
    count, size, end = 0, 0, work.end
    for batch, reached in scan_view(view, request):
        batch_bytes = batch.nbytes
        count += batch.num_rows
        size += batch_bytes
        on_rows(batch.num_rows)
        is_small = batch.num_rows < _ROWS_ALONE and batch_bytes < _BYTES_ALONE
        if not is_small or len(waiting) >= _BATCHES_TOGETHER:
            rows += _together(waiting, known)
        if batch.num_rows:
            waiting.append(batch)
        if not is_small:
            rows += _together(waiting, known)
        if count >= _ROWS_MAX or size >= _BYTES_MAX:
            end = work.end if reached is None else min(work.end, reached)
            break
    return [*rows, *_together(waiting, known)], end


def _together(
    waiting: list[pa.RecordBatch], known: dict[tuple[int, bytes], int]
) -> list[pa.RecordBatch]:
    """Return what waits as one batch with the numbers of schemas, and let go of it."""
    found = (
        [numbered(concat(waiting) if len(waiting) > 1 else waiting[0], known)] if waiting else []
    )
    waiting.clear()
    return found


def _of_parts(
    view: ShardView, directory: Path, work: JoinWork, on_rows: OnRows
) -> list[pa.RecordBatch]:
    """Return the rows of some parts."""
    names = [
        name for name in stored_columns(has_keys=view.meta.has_keys) if name != "schema_fingerprint"
    ]
    columns = (*names, COMMITTED, "schema")
    cold = ColdRows(view, directory)
    rows = []
    for part in work.group:
        alone = ColdSlice(AddressRange(part.first, part.last + 1), (part,))
        rows.append(cold.of_slice(alone, columns))
        on_rows(part.rows)
    return rows
