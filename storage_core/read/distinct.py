"""The distinct ids or keys of rows that come batch by batch, in order."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.platform.arrow import Array

# So many are held beside those that were found to differ.
_WAITING_MOST: Final = 2**18
_YIELDED_AT_ONCE: Final = 1024
_untyped: Any = pa
_compute: Any = pc


def distinct_in_order(columns: Iterable[Array]) -> Iterator[Any]:
    """Yield the values of columns of one type, each once, ascending, null before all others.

    The first comes once all columns were seen. In memory it holds the distinct values, twice at
    most, as Arrow has them.
    """
    chunks: list[Array] = []
    waiting, distinct = 0, 0
    for column in columns:
        chunks.append(_wide(column).unique())
        waiting += len(chunks[-1])
        if waiting > distinct + _WAITING_MOST:
            chunks = [_untyped.concat_arrays(chunks).unique()]
            waiting, distinct = 0, len(chunks[0])
    if not chunks:
        return
    whole: Any = _untyped.concat_arrays(chunks).unique()
    whole = whole.take(_compute.array_sort_indices(whole, null_placement="at_start"))
    for first in range(0, len(whole), _YIELDED_AT_ONCE):
        yield from whole.slice(first, _YIELDED_AT_ONCE).to_pylist()


def _wide(column: Array) -> Any:  # noqa: ANN401 - an array of Arrow's
    """Return texts of bytes as many as there may be, numbers as they are."""
    is_binary = pa.types.is_binary(column.type)
    return column.cast(pa.large_binary()) if is_binary else column
