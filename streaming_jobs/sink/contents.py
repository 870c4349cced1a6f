"""What a batch of the sink held: its rows, and a digest in which their order leaves no trace.

Spark may deal the rows of a batch to other tasks and in another order when the batch comes again;
so each row has a number of 64 bits, made of its columns, and a batch has two sums of such numbers,
each mixed in its own way. Null and empty differ; a column of nulls is like none.

Whole columns are mixed at a time; bytes are hashed value by value, but by one call of C into C.
The digest detects a batch that changed by mistake; it is no proof against somebody who wants it
equal.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core import Contents
from storage_core.platform import xxh3

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Array = Any
# As many rows as have their numbers in the processor's cache.
_ROWS_AT_ONCE: Final = 4096
_PLACE: Final = np.uint64(0x9E3779B97F4A7C15)
_LENGTH: Final = np.uint64(0xD6E8FEB86659FD93)
_SECOND: Final = np.uint64(0xA0761D6478BD642F)


def contents_of(batch: pa.RecordBatch) -> Contents:
    """Return what a batch holds; sums of it say what several hold."""
    first = second = 0
    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        rows = _row_numbers(batch.slice(start, _ROWS_AT_ONCE))
        first += int(rows.sum(dtype=np.uint64))
        second += int(_mixed(rows + _SECOND).sum(dtype=np.uint64))
    return Contents(batch.num_rows, first, second)


def _row_numbers(batch: pa.RecordBatch) -> UInt64s:
    total = np.zeros(batch.num_rows, np.uint64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        total += _numbers(column, _seed(name, 0))
    return _mixed(total)


def _numbers(array: Array, seed: np.uint64) -> UInt64s:
    """Return a number for each value, 0 for null."""
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        numbers = _of_lists(array, seed)
    elif pa.types.is_struct(kind):
        numbers = _of_structs(array, seed)
    elif pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        numbers = _mixed(array.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64) + seed)
    else:
        values = array.cast(pa.large_binary()).fill_null(b"").to_pylist()
        hashed = map(xxh3.xxh3_64_intdigest, values)
        numbers = _mixed(np.fromiter(hashed, np.uint64, len(array)) + seed)
    if array.null_count:
        numbers[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return numbers


def _of_lists(array: Array, seed: np.uint64) -> UInt64s:
    """Entries, their places and their count make the number."""
    ends: Int64s = np.asarray(array.offsets, np.int64)
    counts, firsts = np.diff(ends), ends[:-1] - ends[0]
    entries = _numbers(array.values.slice(int(ends[0]), int(ends[-1] - ends[0])), seed)
    total = counts.astype(np.uint64) * _LENGTH + seed
    if len(entries):
        places = np.arange(len(entries)) - np.repeat(firsts, counts)
        entries = _mixed(entries + places.astype(np.uint64) * _PLACE)
        has_entries = counts > 0
        total[has_entries] += np.add.reduceat(entries, firsts[has_entries])
    return _mixed(total)


def _of_structs(array: Array, seed: np.uint64) -> UInt64s:
    total = np.full(len(array), seed, np.uint64)
    for field, column in zip(array.type, array.flatten(), strict=True):
        total += _numbers(column, _seed(field.name, int(seed)))
    return _mixed(total)


def _seed(name: str, within: int) -> np.uint64:
    return np.uint64(xxh3.xxh3_64_intdigest(name.encode(), within))


def _mixed(numbers: UInt64s) -> UInt64s:
    """Return numbers of which each bit depends on all bits of the ones given; as splitmix64."""
    numbers = numbers ^ (numbers >> np.uint64(30))
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers
