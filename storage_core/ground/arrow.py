"""The few Arrow calls whose published types say less, or other, than what they do.

The stubs (20.0) lag behind the library: `pa.array` of numpy integers is typed as booleans,
`concat_batches` is unknown. Everything here is typed as it behaves.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_untyped: Any = pa
Array: TypeAlias = "pa.Array[Any]"  # element types differ by column


def int_array(values: npt.NDArray[np.integer[Any]]) -> Array:
    """Return numpy integers as an Arrow array; they are copied only if they lie apart.

    NOTE: `pa.array` of a numpy array imports numpy.ma, a process's first 20 ms.
    """
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    buffers = [None, _untyped.py_buffer(values)]
    array: Array = _untyped.Array.from_buffers(kind, len(values), buffers)
    return array


def repeated(value: object, kind: pa.DataType, count: int) -> Array:
    """Return an array of one value."""
    array: Array = _untyped.repeat(_untyped.scalar(value, kind), count)
    return array


def nulls(count: int, kind: pa.DataType) -> Array:
    """Return an array of nulls."""
    array: Array = _untyped.nulls(count, kind)
    return array


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one."""
    joined: pa.RecordBatch = _untyped.concat_batches(batches)
    return joined


def binary_sizes(column: Array) -> npt.NDArray[np.int32]:
    """Return the length of each value of a binary column; a null's is what lies under it."""
    if not len(column):
        return np.empty(0, dtype=np.int32)
    buffers: Any = column.buffers()
    offsets = np.frombuffer(buffers[1], dtype=np.int32)
    at = column.offset
    offsets = offsets[at : at + len(column) + 1]
    return offsets[1:] - offsets[:-1]


def entry_sizes(column: Array) -> npt.NDArray[np.int64]:
    """Return for each list of structs of binary values how long these are together."""
    lists: Any = column
    entries = lists.values
    sizes = np.zeros(len(entries) + 1, dtype=np.int64)
    for at in range(entries.type.num_fields):
        sizes[1:] += binary_sizes(entries.field(at))
    ends = np.cumsum(sizes)
    offsets = lists.offsets.to_numpy()
    taken: npt.NDArray[np.int64] = ends[offsets[1:]] - ends[offsets[:-1]]
    return taken
