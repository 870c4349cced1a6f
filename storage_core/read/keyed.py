"""Reads of streams whose rows belong to keys.

A request for keys becomes one for the numbers that the snapshot has for them; a key without a
number has no rows. Rows that are read have `key`, and no number: `secondary` is null. Numbers
ascend as a shard met its keys, so rows by key are sorted once more, by the rank of each key.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.errors import CorruptionError
from storage_core.format.row_columns import SORT_COLUMNS
from storage_core.ids.dictionaries.keys import numbers_of
from storage_core.platform.arrow import Array, distinct, int_array, nulls
from storage_core.read.request import ReadRequest, own_columns
from storage_core.read.rows import in_order
from storage_core.read.snapshot import ShardSnapshot

Keys = bytes | Iterable[bytes | None] | None
Scanned = Iterator[tuple[pa.RecordBatch, int | None]]

_NO_RANK: Final = -1


def numbers_in(snapshot: ShardSnapshot, keys: Iterable[bytes | None]) -> tuple[int, ...]:
    """Return the numbers that a snapshot has for keys.

    Raises:
        CorruptionError: An entry is no number that was given.
    """
    try:
        return numbers_of(keys, snapshot.value_at)
    except CorruptionError as error:
        raise error.placed(snapshot.stream, snapshot.shard) from error


def by_number(snapshot: ShardSnapshot, request: ReadRequest) -> ReadRequest:
    """Return a request for keys as one for the numbers that the snapshot has for them.

    It keeps the keys: parts know their rows by them.
    """
    columns = own_columns(snapshot.meta, request)
    if request.order == "primary":
        columns = tuple(dict.fromkeys((*columns, "key", *SORT_COLUMNS)))
    ids = None if request.keys is None else numbers_in(snapshot, request.keys)
    return replace(request, ids=ids, columns=columns)


def by_key(scanned: Scanned, columns: Sequence[str], order: str) -> Scanned:
    """Yield what was scanned by number without numbers; of order `primary` by key."""
    for batch, reached in scanned:
        if order == "primary":
            rows = in_order([ranked(batch)], SORT_COLUMNS, columns)
            yield unnumbered(rows), reached
        else:
            yield unnumbered(batch), reached


def ranked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the rank of their key among all of the batch as their secondary.

    No key comes first, the others by their bytes.
    """
    keys, codes = distinct(batch.column("key"))
    order = pc.sort_indices(keys).to_numpy()
    ranks = np.empty(len(order) + 1, dtype=np.int32)
    ranks[order] = np.arange(len(order))
    # The last is that of rows without a key, whose code is -1.
    ranks[-1] = _NO_RANK
    return _with_secondary(batch, int_array(ranks[codes]))


def unnumbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows that do not show a secondary, whether it is a number or a rank."""
    return _with_secondary(batch, nulls(batch.num_rows, pa.int32()))


def _with_secondary(batch: pa.RecordBatch, column: Array) -> pa.RecordBatch:
    names = batch.schema.names
    if "secondary" not in names:
        return batch
    columns = [column if name == "secondary" else batch.column(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)
