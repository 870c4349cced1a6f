"""Splits rows into pieces that outputs convert at once."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

PIECE_ROWS: Final = 8192
PIECE_BYTES: Final = 2**24


def pieces(
    rows: pa.RecordBatch | pa.Table, rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield rows some at a time; one row alone may have more bytes."""
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    for batch in batches:
        for begin in range(0, batch.num_rows, rows_max):
            yield from _halved(batch.slice(begin, rows_max), bytes_max)


def _halved(batch: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    count = batch.num_rows
    if count < 2 or batch.nbytes <= bytes_max:  # noqa: PLR2004 - one row is no halves
        yield batch
        return
    yield from _halved(batch.slice(0, count // 2), bytes_max)
    yield from _halved(batch.slice(count // 2), bytes_max)
