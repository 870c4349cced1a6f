"""Blocks made again of parts: those below `trimmed`, whose bytes in the log are gone.

Zones stay when blocks are trimmed, and each says how many rows its block had and between which
addresses. Parts are sorted by id, so that the rows of one block lie all over them: those of many
blocks are read at once, and held (cold_pieces.py).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.block import Block
from storage_core.format.shard_state import AddressRange
from storage_core.format.zone import Zone
from storage_core.platform.arrow import concat
from storage_core.read.cold.pieces import ColdPieces
from storage_core.read.cold.rows import ColdRows
from storage_core.read.row_filter import RowFilter
from storage_core.read.rows_as_block import BLOCK_COLUMNS, COMMITTED, rows_as_block
from storage_core.read.snapshot import ShardSnapshot


class ColdBlocks:
    """Makes blocks of one snapshot again. One thread at a time."""

    def __init__(self, snapshot: ShardSnapshot, directory: Path) -> None:
        """Look at a snapshot's catalogue.

        Raises:
            CorruptionError: An entry of the catalogue is damaged.
        """
        self._stream, self._shard = snapshot.stream, snapshot.shard
        self._rows = ColdRows(snapshot, directory)
        self._columns: tuple[str, ...] = BLOCK_COLUMNS
        self._pieces = ColdPieces(self._rows, self._columns)

    def block(self, zone: Zone) -> Block:
        """Return a zone's block as its parts have it.

        Raises:
            CorruptionError: A part is damaged or gone, or they do not have each row of the block.
            UnavailableError: The system does not let one be read now.
        """
        if zone.is_joined and COMMITTED not in self._columns:
            # Most shards have none such, and need not read what their zones tell.
            self._columns = (*BLOCK_COLUMNS, COMMITTED)
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
        return rows_as_block(zone, concat(found) if len(found) > 1 else found[0])

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
