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


def one_array(column: Any) -> Any:  # noqa: ANN401 - an array, or a chunked one
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    # NOTE: pyarrow copies a single chunk, too.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def alone(column: Array) -> Array:
    """Return an array of the same values, not copied, whose buffers hold those of no other.

    Arrow writes a slice of a buffer up to a multiple of 64 bytes, and takes what lies behind it
    for that. The types are those of a caller's columns.
    """
    kind, count, begin = column.type, len(column), column.offset
    untyped: Any = column
    if not count:
        return nulls(0, kind)
    buffers = untyped.buffers()
    own, children = [_own_bits(buffers[0], begin, count) if column.null_count else None], []
    if pa.types.is_struct(kind):
        children = [alone(untyped.field(number)) for number in range(kind.num_fields)]
    elif pa.types.is_primitive(kind):
        width = kind.bit_width // 8
        own.append(buffers[1].slice(begin * width, count * width))
    else:
        offsets = np.frombuffer(buffers[1], np.int32)[begin : begin + count + 1]
        start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        own.append(_untyped.py_buffer(offsets - offsets[0] if start else offsets))
        if pa.types.is_list(kind):
            children = [alone(untyped.values.slice(start, size))]
        else:
            own.append(buffers[2].slice(start, size) if size else _untyped.py_buffer(b""))
    array: Array = _untyped.Array.from_buffers(
        kind, count, own, null_count=column.null_count, children=children
    )
    return array


def _own_bits(buffer: Any, begin: int, count: int) -> Any:  # noqa: ANN401 - a buffer, untyped
    """Return so many bits from a place on, with none behind them."""
    first, skipped = divmod(begin, 8)
    taken = np.frombuffer(buffer, np.uint8)[first:]
    bits = np.unpackbits(taken, count=skipped + count, bitorder="little")
    return _untyped.py_buffer(np.packbits(bits[skipped:], bitorder="little"))


def distinct(column: Array) -> tuple[Array, npt.NDArray[np.int32]]:
    """Return the values of a column as they come, each once, and which of them each row has.

    A row that is null has -1.
    """
    encoded: Any = column.dictionary_encode()
    return encoded.dictionary, encoded.indices.fill_null(-1).to_numpy()


def binary_sizes(column: Array) -> npt.NDArray[np.int32]:
    """Return the length of each value of a binary column; a null's is what lies under it."""
    if not len(column):
        return np.empty(0, dtype=np.int32)
    buffers: Any = column.buffers()
    offsets = np.frombuffer(buffers[1], dtype=np.int32)
    begin = column.offset
    offsets = offsets[begin : begin + len(column) + 1]
    return offsets[1:] - offsets[:-1]


def entry_sizes(column: Array) -> npt.NDArray[np.int64]:
    """Return for each list of structs of binary values how long these are together."""
    lists: Any = column
    entries = lists.values
    sizes = np.zeros(len(entries) + 1, dtype=np.int64)
    for field_index in range(entries.type.num_fields):
        sizes[1:] += binary_sizes(entries.field(field_index))
    ends = np.cumsum(sizes)
    offsets = lists.offsets.to_numpy()
    taken: npt.NDArray[np.int64] = ends[offsets[1:]] - ends[offsets[:-1]]
    return taken
