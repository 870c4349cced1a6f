"""Maps in which each key stands once: Avro allows a key twice, and few readers of Parquet do."""

from typing import Any

import numpy as np
import pyarrow as pa

_untyped: Any = pa


def with_unique_keys(column: Any) -> Any:  # noqa: ANN401 - an array, or a chunked one
    """Return a column whose maps, however deep, have each key once: of equal ones the last."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [with_unique_keys(one) for one in column.chunks]
        return _untyped.chunked_array(chunks, column.type)
    kind = column.type
    if not pa.types.is_nested(kind) or not kind.num_fields or not len(column):
        return column
    if pa.types.is_struct(kind):
        # Without their parent's nulls and offset, which the parent keeps.
        inside = [with_unique_keys(one) for one in column.flatten()]
        mask = column.is_null()
        return _untyped.StructArray.from_arrays(inside, fields=list(kind), mask=mask)
    return _of_lists(column, kind)


def _of_lists(column: Any, kind: Any) -> Any:  # noqa: ANN401 - of lists or maps
    there = column.is_valid().to_numpy(zero_copy_only=False)
    edges = column.offsets.to_numpy().astype(np.int64)
    sizes = np.where(there, np.diff(edges), 0)
    first, count = int(edges[0]), int(edges[-1] - edges[0])
    if int(sizes.sum()) != count:
        # Something lies behind nulls.
        column = column.take(_untyped.array(np.arange(len(column))))
        edges = column.offsets.to_numpy().astype(np.int64)
        first, count = int(edges[0]), int(edges[-1] - edges[0])
    if not pa.types.is_map(kind):
        values = with_unique_keys(column.values.slice(first, count))
        return _lists(kind, there, sizes, values)
    keys, items = column.keys.slice(first, count), column.items.slice(first, count)
    items = with_unique_keys(items)
    kept = _last_of_each(keys, sizes)
    if len(kept) < count:
        rows = np.repeat(np.arange(len(sizes)), sizes)
        sizes = np.bincount(rows[kept], minlength=len(sizes))
        keys, items = keys.take(_untyped.array(kept)), items.take(_untyped.array(kept))
    fields = [kind.key_field, kind.item_field]
    return _lists(
        kind, there, sizes, _untyped.StructArray.from_arrays([keys, items], fields=fields)
    )


def _last_of_each(keys: Any, sizes: Any) -> Any:  # noqa: ANN401 - arrays
    """Return the places of entries whose key does not come again in their map, ascending."""
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    both = rows * (int(codes.max(initial=0)) + 1) + codes
    _, from_behind = np.unique(both[::-1], return_index=True)
    return np.sort(len(both) - 1 - from_behind)


def _lists(kind: Any, there: Any, sizes: Any, values: Any) -> Any:  # noqa: ANN401 - arrays
    offsets = pa.py_buffer(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32).tobytes())
    bits = np.packbits(there, bitorder="little").tobytes()
    valid = None if there.all() else pa.py_buffer(bits)
    return _untyped.Array.from_buffers(kind, len(there), [valid, offsets], children=[values])
