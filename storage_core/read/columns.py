"""The columns readers get, assembled from blocks and late records in one pass.

Columns that a block does not store because they have one value are slices of constants.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.block import MASK_ONE_SCHEMA, MASK_STATE, Block, block_schema
from storage_core.format.keys import INT64_MAX
from storage_core.format.late_rows import LateRows
from storage_core.format.record import State
from storage_core.format.row_columns import ENVELOPE, SCHEMA, TYPES, schema_of
from storage_core.platform.arrow import Array, int_array, nulls, repeated

Positions = npt.NDArray[np.int64]

# What may be null in a block that does not store it; no caller gets numbers of schemas.
_NULLS: Final = frozenset((*ENVELOPE, "schema_id", "schema_fingerprint", SCHEMA))
_CONSTANT_ROWS: Final = 2**16
_PAGE_ROWS: Final = 2**16
_NOTHING: Final = nulls(0, pa.null())
_batch: Any = pa.RecordBatch


def no_rows(columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return these columns without a row."""
    # NOTE: an empty table has no batch that could be taken of it (pyarrow 26).
    nothing: pa.RecordBatch = _batch.from_pylist([], schema=schema_of(columns))
    return nothing


def block_columns(
    block: Block, shard: int, columns: tuple[str, ...], chosen: Positions | None
) -> pa.RecordBatch:
    """Return columns of a block's chosen rows (None: of all)."""
    if not columns:
        return _counted(len(block) if chosen is None else len(chosen))
    if chosen is None:
        return _whole_block(block, shard, columns)
    count = len(chosen)
    places = _places(columns, block.mask)
    stored = [place for _, place in places if place >= 0]
    taken = iter(block.batch.select(stored).take(int_array(chosen)).columns)
    arrays = []
    for name, place in places:
        if place >= 0:
            arrays.append(next(taken))
        elif name == "address":
            arrays.append(int_array(block.addresses[chosen]))
        elif name == "late" and (states := block.states) is not None:
            arrays.append(pa.array(is_late(states)[chosen]))
        elif name == SCHEMA and block.mask & MASK_ONE_SCHEMA:
            arrays.append(_schemas(block).take(int_array(chosen)))
        else:
            arrays.append(_fixed(block, name, shard, count))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def _whole_block(block: Block, shard: int, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return columns of all rows: what is stored is handed on as it lies."""
    batch = block.batch
    frame = _frame(columns, block.mask, shard, batch.num_rows)
    arrays = frame.arrays.copy()
    for position, place in frame.stored:
        arrays[position] = batch.column(place)
    for position, name in frame.computed:
        arrays[position] = _computed(block, name)
    # By names and not by schema, which would prove every type again.
    return pa.RecordBatch.from_arrays(arrays, names=frame.names)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The columns of blocks of one mask and count: what they share, and what each fills in."""

    names: list[str]
    arrays: list[Array]
    stored: list[tuple[int, int]]
    computed: list[tuple[int, str]]


@lru_cache(maxsize=64)
def _frame(columns: tuple[str, ...], mask: int, shard: int, count: int) -> _Frame:
    frame = _Frame(list(columns), [], [], [])
    for position, (name, place) in enumerate(_places(columns, mask)):
        same = _NOTHING
        if place >= 0:
            frame.stored.append((position, place))
        elif (
            name in ("address", "committed_at_ms")
            or (name == "late" and mask & MASK_STATE)
            or (name == SCHEMA and mask & MASK_ONE_SCHEMA)
        ):
            frame.computed.append((position, name))
        else:
            same = _same(name, shard, count)
        frame.arrays.append(same)
    return frame


def _computed(block: Block, name: str) -> Array:
    if name == "address":
        return _addresses(block)
    if name == "late" and (states := block.states) is not None:
        return pa.array(is_late(states))
    if name == SCHEMA:
        return _schemas(block)
    return int_array(np.full(len(block), block.committed_at_ms))


def _schemas(block: Block) -> Array:
    """Return the numbers of the schemas of a block that has one only."""
    if block.batch.column("payload").null_count:
        return block.schemas
    return same_number(SCHEMA, block.one_schema, len(block))


def same_number(name: str, value: int, count: int) -> Array:
    """Return a column that has one number in each of its rows."""
    return _constant(name, value, count)


def _addresses(block: Block) -> Array:
    """Return the addresses of a dense block: mostly a slice of a page that others share."""
    page, first = divmod(block.first, _PAGE_ROWS)
    count = block.batch.num_rows
    if first + count > _PAGE_ROWS:
        return int_array(block.addresses)
    return _address_page(page).slice(first, count)


@lru_cache(maxsize=8)
def _address_page(page: int) -> Array:
    first = page * _PAGE_ROWS
    return int_array(np.arange(first, min(first + _PAGE_ROWS, INT64_MAX)))


def is_late(states: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Tell which rows are shown as late."""
    late: npt.NDArray[np.bool_] = (states == State.LATE) | (states == State.AHEAD)
    return late


def _fixed(block: Block, name: str, shard: int, count: int) -> Array:
    """Return a column that the block does not store, since it has one value."""
    if name == "committed_at_ms":
        return int_array(np.full(count, block.committed_at_ms))
    return _same(name, shard, count)


def _same(name: str, shard: int, count: int) -> Array:
    """Return a column that has one value in every block that does not store it."""
    if name in _NULLS:
        return nulls(count, TYPES[name])
    return _constant(name, shard if name == "shard" else 0, count)


@lru_cache(maxsize=256)
def _places(columns: tuple[str, ...], mask: int) -> list[tuple[str, int]]:
    """Return where each column lies in a block, -1 if it is not stored."""
    schema = block_schema(mask)
    return [(name, schema.get_field_index(name)) for name in columns]


def late_columns(
    late: LateRows, shard: int, columns: tuple[str, ...], chosen: Positions
) -> pa.RecordBatch:
    """Return columns of the chosen late records."""
    if not columns:
        return _counted(len(chosen))
    take = int_array(chosen)
    arrays = []
    for name in columns:
        if name == "shard":
            arrays.append(_constant(name, shard, len(chosen)))
        elif name in ("secondary", "primary", "address"):
            arrays.append(pa.array(getattr(late, name)[chosen]))
        elif name in ("version", "state", "committed_at_ms"):
            arrays.append(pa.array(late.fields[name][chosen], TYPES[name]))
        elif name == "late":
            arrays.append(_constant(name, value=1, count=len(chosen)))
        elif name in ("schema_id", "schema_fingerprint"):
            arrays.append(nulls(len(chosen), TYPES[name]))
        else:
            arrays.append(late.column(name).take(take))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def _counted(count: int) -> pa.RecordBatch:
    """Return so many rows of no columns; Arrow counts them only if they had one before."""
    rows = pa.RecordBatch.from_arrays([_constant("shard", 0, count)], names=["shard"])
    return rows.select([])


@lru_cache(maxsize=64)
def _constant(name: str, value: int, count: int) -> Array:
    if count > _CONSTANT_ROWS:
        return _constant_of(name, value, count)
    return _constants(name, value).slice(0, count)


@lru_cache(maxsize=64)
def _constants(name: str, value: int) -> Array:
    return _constant_of(name, value, _CONSTANT_ROWS)


def _constant_of(name: str, value: int, count: int) -> Array:
    return repeated(bool(value) if name == "late" else value, TYPES[name], count)
