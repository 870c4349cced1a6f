"""Which schema wrote a value, and where its body begins, by what serializers put before it.

    0x00, id (4 bytes, big-endian), body       the id of a schema in its registry
    0x01, GUID (16 bytes), body                the same in any registry
    a header `__value_schema_id` of either form without a body; the value is the body then

The header counts first, the last one of its name as Kafka's clients take it; one that is null says
nothing. A null value has no schema and is no fault. Pure: nothing is asked, no body is read.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

HEADER: Final = "__value_schema_id"
ID: Final = b"\x00"
GUID: Final = b"\x01"
_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17

# A schema as a value names it: the bytes that stand before the body.
SchemaName = bytes

_compute: Any = pc  # the stubs want to know what an array holds
_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]
_NO_ROWS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Frames:
    """What stands before some values.

    Attributes:
        names: The schemas they name, each once.
        indices: The name of each value by its place in `names`; -1 where it names none.
        starts: Where the body begins in each value.
        faults: Why values name none, by row; a null value is not among them.
    """

    names: tuple[SchemaName, ...]
    indices: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    faults: dict[int, str]


def read_frames(values: pa.BinaryArray, headers: "pa.Array[Any] | None" = None) -> Frames:
    """Return what stands before values, some of which may have headers."""
    count = len(values)
    names: dict[SchemaName, int] = {}
    indices = np.full(count, -1, np.int32)
    starts = np.zeros(count, np.int32)
    faults: dict[int, str] = {}
    is_left = _is_valid(values)
    if headers is not None:
        rows, names_in_headers = _named_by_header(headers)
        is_value = is_left[rows]
        rows, names_in_headers = rows[is_value], names_in_headers.filter(pa.array(is_value))
        _read(names_in_headers, np.arange(len(rows)), rows, _Into(names, indices, faults), None)
        is_left[rows] = False
    rows = np.arange(count) if is_left.all() else np.flatnonzero(is_left)
    _read(values, rows, rows, _Into(names, indices, faults), starts)
    return Frames(tuple(names), indices, starts, faults)


def name_text(name: SchemaName) -> str:
    """Return a schema's name as people write it."""
    if name[:1] == ID:
        return f"schema id {int.from_bytes(name[1:], 'big')}"
    digits = name[1:].hex()
    return "schema GUID " + "-".join(
        (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    )


@dataclass(frozen=True, slots=True)
class _Into:
    """Where what is found goes."""

    names: dict[SchemaName, int]
    indices: npt.NDArray[np.int32]
    faults: dict[int, str]

    def number(self, name: SchemaName) -> int:
        return self.names.setdefault(name, len(self.names))


def _read(
    column: pa.BinaryArray,
    places: _Numbers,
    rows: _Numbers,
    into: _Into,
    starts: npt.NDArray[np.int32] | None,
) -> None:
    """Read names out of a column's places, for these rows.

    Args:
        column: Values, or headers' values.
        places: Where to look in it; none of them is null.
        rows: The rows they are of.
        into: Where names and faults go.
        starts: Where it goes how long a name is; None in headers, which hold nothing else.
    """
    if not len(places):
        return
    data, begins, sizes = _laid_out(column, places)
    has_any = sizes > 0
    firsts = np.full(len(places), 0xFF, np.uint8)
    firsts[has_any] = data[begins[has_any]]
    fits = sizes.__ge__ if starts is not None else sizes.__eq__
    is_id = (firsts == ID[0]) & fits(_ID_BYTES)
    is_guid = (firsts == GUID[0]) & fits(_GUID_BYTES)
    for length, chosen in ((_ID_BYTES, is_id), (_GUID_BYTES, is_guid)):
        if not chosen.any():
            continue
        is_all = chosen.all()
        indices = _names_at(data, begins if is_all else begins[chosen], length, into)
        of_rows = rows if is_all else rows[chosen]
        into.indices[of_rows] = indices
        if starts is not None:
            starts[of_rows] = length
    for position in np.flatnonzero(~(is_id | is_guid)).tolist():
        where = "value" if starts is not None else f"header {HEADER}"
        first = int(firsts[position]) if has_any[position] else None
        into.faults[int(rows[position])] = _reason(where, first, int(sizes[position]))


def _names_at(
    data: _Bytes, begins: _Numbers, length: int, into: _Into
) -> npt.NDArray[np.int32] | int:
    """Return the numbers of names of one length; one number where they are all the same."""
    packed = data[begins[:, np.newaxis] + np.arange(1, length)]
    # Of one width each, so that zeros at the end tell no two of them apart or together.
    keys = packed.view(">u4" if length == _ID_BYTES else f"S{length - 1}").ravel()
    kind = ID if length == _ID_BYTES else GUID
    if (keys == keys[0]).all():
        return into.number(kind + packed[0].tobytes())
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    numbers = [into.number(kind + packed[first].tobytes()) for first in firsts.tolist()]
    return np.array(numbers, np.int32)[inverse]


def _reason(where: str, first: int | None, size: int) -> str:
    if first in (ID[0], GUID[0]):
        needed = _ID_BYTES if first == ID[0] else _GUID_BYTES
        return f"framing: {where} of {size} bytes; 0x{first:02x} and a schema's id take {needed}"
    begins = "is empty" if first is None else f"begins with 0x{first:02x}"
    return (
        f"framing: {where} {begins}; a registry's serializer writes 0x00 and a schema's id, "
        "or 0x01 and its GUID"
    )


def _named_by_header(headers: "pa.Array[Any]") -> tuple[_Numbers, Any]:
    """Return the rows that have a header which names a schema, and its values."""
    listed: Any = headers
    items = listed.values
    is_name = _compute.equal(items.field(0), HEADER)
    is_named = _compute.and_(is_name, items.field(1).is_valid())
    places = np.flatnonzero(is_named.fill_null(fill_value=False).to_numpy(zero_copy_only=False))
    edges = listed.offsets.to_numpy()
    rows = np.searchsorted(edges, places, "right") - 1
    is_own = (places >= edges[0]) & (places < edges[-1])
    rows, places = rows[is_own], places[is_own]
    if not len(rows):
        return _NO_ROWS, items.field(1).slice(0, 0)
    is_last = np.append(rows[1:] != rows[:-1], True)
    rows, places = rows[is_last], places[is_last]
    # What a null list spans belongs to no row.
    is_there = _is_valid(headers)[rows]
    return rows[is_there], items.field(1).take(pa.array(places[is_there]))


def _is_valid(column: Any) -> npt.NDArray[np.bool_]:  # noqa: ANN401 - any array
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    is_valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return is_valid.copy()


def _laid_out(column: Any, places: _Numbers) -> tuple[_Bytes, _Numbers, _Numbers]:  # noqa: ANN401
    """Return a column's bytes, and where the values at some places begin and how long they are."""
    buffers = column.buffers()
    edges = np.frombuffer(buffers[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
    begins = edges[:-1][places].astype(np.int64)
    return data, begins, edges[1:][places] - begins
