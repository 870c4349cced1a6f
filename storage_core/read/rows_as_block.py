"""Rows as a block: those that parts have of a trimmed one, or those of several neighbours."""

from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from storage_core.format.block import (
    MASK_ADDRESS,
    MASK_COMMITTED,
    MASK_ENVELOPE,
    MASK_SCHEMA,
    MASK_STATE,
    MASK_VERSION,
    Block,
    block_schema,
)
from storage_core.format.row_columns import COMMITTED, SCHEMA
from storage_core.format.zone import Zone, state_counts
from storage_core.platform.arrow import Array

_MAY_BE_NULL: Final = {**MASK_ENVELOPE, SCHEMA: MASK_SCHEMA}
# What rows must be read with, and `COMMITTED` where they were not all committed at once.
BLOCK_COLUMNS: Final = (
    *("secondary", "primary", "payload", "version", "state", "address"),
    *_MAY_BE_NULL,
)
_untyped: Any = pa


def rows_as_block(zone: Zone, rows: pa.RecordBatch) -> Block:
    """Return the rows of a zone, by address, as a block without the columns that say nothing."""
    mask = 0
    if rows.column("version").to_numpy().any():
        mask |= MASK_VERSION
    if rows.column("state").to_numpy().any():
        mask |= MASK_STATE
    if not zone.is_dense:
        mask |= MASK_ADDRESS
    for name, bit in _MAY_BE_NULL.items():
        if rows.column(name).null_count < rows.num_rows:
            mask |= bit
    committed_at_ms, is_same = zone.committed_at_ms, True
    if COMMITTED in rows.schema.names:
        committed_at_ms, is_same = _committed_at_ms(zone, rows.column(COMMITTED))
    if not is_same:
        mask |= MASK_COMMITTED
    schema = block_schema(mask)
    arrays = [rows.column(name) for name in schema.names]
    batch = _untyped.RecordBatch.from_arrays(arrays, schema=schema)
    return Block(zone.first, zone.last, committed_at_ms, mask, batch)


def rows_as_piece(zone: Zone, rows: pa.RecordBatch) -> tuple[Zone, Block]:
    """Return some rows of a wide zone, by address, as a zone of their own with its block."""
    addresses = rows.column("address").to_numpy()
    first, last = int(addresses[0]), int(addresses[-1])
    piece = replace(zone, first=first, last=last, count=rows.num_rows)
    block = rows_as_block(piece, rows)
    piece.late, piece.ahead, piece.expired = state_counts(block.states)
    piece.committed_at_ms = block.committed_at_ms
    return piece, block


def _committed_at_ms(zone: Zone, times: Array) -> tuple[int, bool]:
    """Return when the last of some rows was committed, and whether all were then."""
    if times.null_count:
        # A part that does not say it has rows of blocks that were committed at once.
        return zone.committed_at_ms, True
    values = times.to_numpy()
    last = int(values.max())
    return last, int(values.min()) == last
