"""Blocks made again of parts: those below `trimmed`, whose bytes in the log are gone.

Zones stay when blocks are trimmed, and each says how many rows its block had and between which
addresses. Parts are sorted by id, so that the rows of one block lie all over them: those of many
blocks are read at once, and held (cold_pieces.py).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import CorruptionError, UnavailableError
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
from storage_core.format.record import SCHEMA
from storage_core.format.shard_state import AddressRange
from storage_core.format.zone import Zone
from storage_core.ground.arrow import Array, concat
from storage_core.read.cold_pieces import ColdPieces
from storage_core.read.cold_rows import ColdRows
from storage_core.read.row_filter import RowFilter
from storage_core.read.view import ShardView

_MAY_BE_NULL: Final = {**MASK_ENVELOPE, SCHEMA: MASK_SCHEMA}
_COMMITTED: Final = "committed_at_ms"
_COLUMNS: Final = (
    *("secondary", "primary", "payload", "version", "state", "address"),
    *_MAY_BE_NULL,
)
_untyped: Any = pa


class ColdBlocks:
    """Makes blocks of one view again. One thread at a time."""

    def __init__(self, view: ShardView, directory: Path) -> None:
        """Look at a view's catalogue.

        Raises:
            CorruptionError: An entry of the catalogue is damaged.
        """
        self._stream, self._shard = view.stream, view.shard
        self._rows = ColdRows(view, directory)
        self._columns: tuple[str, ...] = _COLUMNS
        self._pieces = ColdPieces(self._rows, self._columns)

    def block(self, zone: Zone) -> Block:
        """Return a zone's block as its parts have it.

        Raises:
            CorruptionError: A part is damaged or gone, or they do not have each row of the block.
            UnavailableError: The system does not let one be read now.
        """
        if zone.is_joined and _COMMITTED not in self._columns:
            # Most shards have none such, and need not read what their zones tell.
            self._columns = (*_COLUMNS, _COMMITTED)
            self._pieces = ColdPieces(self._rows, self._columns)
        try:
            found = self._found(zone)
        except FileNotFoundError as error:
            message = "the part is gone"
            raise CorruptionError(message, path=Path(error.filename)) from error
        count = sum(rows.num_rows for rows in found)
        if count != zone.count:
            message = f"of its {zone.count} rows parts have {count}"
            raise CorruptionError(message)
        return _block_of(zone, concat(found) if len(found) > 1 else found[0])

    def normal(self, wanted: RowFilter, runs: Sequence[AddressRange]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of addresses that were neither late nor ahead, unsorted.

        Groups of rows that cannot have an id or a time that is wanted are not read.

        Raises:
            CorruptionError: A part is damaged or gone.
            UnavailableError: The system does not let one be read now.
        """
        try:
            yield from self._rows.normal(wanted, runs)
        except FileNotFoundError as error:
            message = "a part whose blocks were trimmed is gone"
            raise CorruptionError(
                message,
                stream=self._stream,
                shard=self._shard,
                path=Path(error.filename),
                start=runs[0].start,
                end=runs[-1].end,
            ) from error

    def _found(self, zone: Zone) -> list[pa.RecordBatch]:
        try:
            return list(self._pieces.between(zone.first, zone.end))
        except (CorruptionError, UnavailableError, FileNotFoundError):
            # It need not be one that has rows of this block.
            return [self._rows.of_slice(self._rows.slices.of(zone.first, zone.end), self._columns)]


def _block_of(zone: Zone, rows: pa.RecordBatch) -> Block:
    """Return rows as a block, without the columns that say nothing."""
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
    if _COMMITTED in rows.schema.names:
        committed_at_ms, is_same = _committed_at_ms(zone, rows.column(_COMMITTED))
    if not is_same:
        mask |= MASK_COMMITTED
    schema = block_schema(mask)
    arrays = [rows.column(name) for name in schema.names]
    batch = _untyped.RecordBatch.from_arrays(arrays, schema=schema)
    return Block(zone.first, zone.last, committed_at_ms, mask, batch)


def _committed_at_ms(zone: Zone, times: Array) -> tuple[int, bool]:
    """Return when the last of some rows was committed, and whether all were then."""
    if times.null_count:
        # A part that does not say it has rows of blocks that were committed at once.
        return zone.committed_at_ms, True
    values = times.to_numpy()
    last = int(values.max())
    return last, int(values.min()) == last
