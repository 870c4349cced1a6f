"""From bodies to Arrow's arrays, by a plan: each step fills a column for all bodies at once."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro.avro_types import FIXED_SHOWN_MAX, Decimal, Map, Primitive, arrow_type
from storage_core.avro.cursor import Bytes, Cursor, Numbers
from storage_core.avro.resolution import Choice, Fields, Items, Plain, Plan, Sized, Symbols
from storage_core.avro.skip import find_items, skip, truths

_untyped: Any = pa  # the stubs lack what is made from buffers
_Array = Any
_NUMBERS: Final[dict[str, type[Any]]] = {
    "int": np.int32,
    "long": np.int64,
    "float": np.float32,
    "double": np.float64,
}
_A_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_TEXT: Final = Plain(Primitive("string"), Primitive("string"))
_DECIMAL_BYTES: Final = 16
# The first byte of a number below zero is at least this.
_NEGATIVE: Final = 0x80


def read(cursor: Cursor, plan: Plan, places: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    """Return what a plan shows of each body, and the places behind."""
    if isinstance(plan, Plain):
        return _plain(cursor, plan, places, rows)
    if isinstance(plan, Sized):
        return _sized(cursor, plan, places, rows)
    if isinstance(plan, Symbols):
        return _symbols(cursor, plan, places, rows)
    if isinstance(plan, Items):
        return _items(cursor, plan, places, rows)
    if isinstance(plan, Choice):
        return _choice(cursor, plan, places, rows)
    return _record(cursor, plan, places, rows)


def read_fields(
    cursor: Cursor, plan: Fields, places: Numbers, rows: Numbers
) -> tuple[list[_Array], Numbers]:
    """Return the columns of a record, and the places behind."""
    columns: list[_Array] = [None] * len(plan.names)
    for index, value in plan.defaults.items():
        columns[index] = _untyped.repeat(_untyped.scalar(value, plan.types[index]), len(rows))
    for step in plan.steps:
        if step.column is None or step.plan is None:
            places = skip(cursor, step.kind, places, rows, 1)
        else:
            columns[step.column], places = read(cursor, step.plan, places, rows)
    return columns, places


def _record(cursor: Cursor, plan: Fields, places: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    columns, behind = read_fields(cursor, plan, places, rows)
    if not columns:
        return _untyped.array([{}] * len(rows), pa.struct([])), behind
    fields = [pa.field(name, kind) for name, kind in zip(plan.names, plan.types, strict=True)]
    return _untyped.StructArray.from_arrays(columns, fields=fields), behind


def _sized(cursor: Cursor, plan: Sized, places: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    size = plan.kind.size
    if plan.shown.decimal is not None or size > FIXED_SHOWN_MAX:
        behind = places + size
        cursor.hold(rows, behind)
        sizes = np.where(cursor.is_bad[rows], 0, size)
        if plan.shown.decimal is not None:
            return _decimals(cursor, plan.shown.decimal, places, sizes, rows), behind
        return _bytes(cursor, places, sizes, rows, is_text=False), behind
    raw, behind = cursor.of_size(places, rows, size)
    return _made(pa.binary(plan.kind.size), len(rows), raw), behind


def _made(kind: pa.DataType, count: int, values: npt.NDArray[Any]) -> _Array:
    """Return values of one width as an array."""
    return _untyped.Array.from_buffers(kind, count, [None, _untyped.py_buffer(values)])


def _plain(cursor: Cursor, plan: Plain, places: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    kind, shown = plan.kind.kind, plan.shown
    if kind == "null":
        return _untyped.nulls(len(rows)), places
    if kind == "boolean":
        found, places = truths(cursor, places, rows)
        return _untyped.array(found.astype(np.bool_)), places
    if kind in ("bytes", "string"):
        starts, sizes, behind = cursor.spans(places, rows)
        if shown.decimal is not None:
            return _decimals(cursor, shown.decimal, starts, sizes, rows), behind
        return _bytes(cursor, starts, sizes, rows, is_text=shown.kind == "string"), behind
    numbers: npt.NDArray[Any]
    if kind in ("int", "long"):
        numbers, places = (cursor.ints if kind == "int" else cursor.longs)(places, rows)
        _hold_to_a_day(cursor, shown.logical, numbers, places, rows)
    else:
        raw, places = cursor.of_size(places, rows, 4 if kind == "float" else 8)
        numbers = np.ascontiguousarray(raw).view("<f4" if kind == "float" else "<f8")[:, 0]
    values = np.ascontiguousarray(numbers.astype(_NUMBERS[shown.kind], copy=False))
    return _made(arrow_type(shown), len(rows), values), places


def _hold_to_a_day(
    cursor: Cursor, logical: str | None, numbers: Numbers, places: Numbers, rows: Numbers
) -> None:
    most = _A_DAY.get(logical or "")
    if most is not None:
        wrong = ((numbers < 0) | (numbers >= most)) & ~cursor.is_bad[rows]
        cursor.refuse(wrong, rows, places, f"a {logical} that is no time of a day")


def _bytes(
    cursor: Cursor, starts: Numbers, sizes: Numbers, rows: Numbers, *, is_text: bool
) -> _Array:
    ends, contents = cursor.gathered(starts, sizes)
    buffers = [None, _untyped.py_buffer(ends), _untyped.py_buffer(contents)]
    values = _untyped.Array.from_buffers(pa.binary(), len(rows), buffers)
    if not is_text:
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        is_wrong = np.array([not _is_text(each) for each in values.to_pylist()], np.bool_)
    cursor.refuse(is_wrong & ~cursor.is_bad[rows], rows, starts.copy(), "a string that is no UTF-8")
    return _bytes(cursor, starts, np.where(is_wrong, 0, sizes), rows, is_text=True)


def _is_text(contents: bytes) -> bool:
    try:
        contents.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(
    cursor: Cursor, kind: Decimal, starts: Numbers, sizes: Numbers, rows: Numbers
) -> _Array:
    """Return big-endian numbers of any number of bytes as decimals."""
    width = _DECIMAL_BYTES if pa.types.is_decimal128(kind.arrow) else 2 * _DECIMAL_BYTES
    first = cursor.bytes_at(starts)
    sign = np.where((first >= _NEGATIVE) & (sizes > 0), 0xFF, 0).astype(np.uint8)
    # From the last byte back: Arrow has the lowest first.
    back = np.arange(width)
    places = (starts + sizes - 1)[:, None] - back
    inside = back < sizes[:, None]
    raw: Bytes = np.where(inside, cursor.data.take(places, mode="clip"), sign[:, None])
    decimals = _made(kind.arrow, len(rows), np.ascontiguousarray(raw))
    limit = 10**kind.precision
    is_wrong = sizes == 0
    long_ones = np.flatnonzero(sizes > width)
    try:
        decimals.validate(full=True)
        to_look_at: Any = long_ones
    except pa.ArrowInvalid:
        to_look_at = np.arange(len(rows))
    for index in to_look_at.tolist():
        whole = cursor.data[starts[index] : starts[index] + sizes[index]].tobytes()
        is_wrong[index] |= abs(int.from_bytes(whole, "big", signed=True)) >= limit
    if (
        cursor.refuse(
            is_wrong & ~cursor.is_bad[rows],
            rows,
            starts.copy(),
            f"a decimal of no byte, or of more than {kind.precision} digits",
        )
        or is_wrong.any()
    ):
        raw[is_wrong] = 0
        decimals = _made(kind.arrow, len(rows), np.ascontiguousarray(raw))
    return decimals


def _symbols(
    cursor: Cursor, plan: Symbols, places: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    chosen, places = cursor.choices(places, rows, len(plan.names), "an enum's symbol")
    for index, shown in enumerate(plan.shown):
        if shown is None:
            wrong = (chosen == index) & ~cursor.is_bad[rows]
            message = f"symbol {plan.names[index]} is not among the reader's, which has no default"
            cursor.refuse(wrong, rows, places, message)
    names = _untyped.array(plan.shown, pa.string())
    return names.take(_untyped.array(chosen)), places


def _items(cursor: Cursor, plan: Items, places: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    before = cursor.items_left.copy()
    items = find_items(cursor, plan.kind, places, rows, 1)
    # What is in the items is counted as they are read.
    cursor.items_left = before
    np.subtract.at(cursor.items_left, rows, items.counts)
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(items.counts, out=ends[1:])
    offsets = _untyped.array(ends, pa.int32())
    if isinstance(plan.kind, Map):
        names, values_begin = read(cursor, _TEXT, items.places, items.rows)
        values, _ = read(cursor, plan.plan, values_begin, items.rows)
        return _untyped.MapArray.from_arrays(offsets, names, values), items.behind
    values, _ = read(cursor, plan.plan, items.places, items.rows)
    return _untyped.ListArray.from_arrays(offsets, values), items.behind


def _choice(cursor: Cursor, plan: Choice, places: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    branches = np.zeros(len(rows), np.int64)
    if plan.is_union:
        branches, places = cursor.choices(places, rows, len(plan.branches), "a union's branch")
    pieces: dict[int, list[tuple[Numbers, _Array]]] = {}
    is_shown = np.zeros(len(rows), np.bool_)
    behind = places.copy()
    for number, branch in enumerate(plan.branches):
        positions = np.flatnonzero(branches == number)
        if not len(positions):
            continue
        if branch.is_fault:
            mask = np.zeros(len(rows), np.bool_)
            mask[positions] = ~cursor.is_bad[rows[positions]]
            message = f"{branch.name}, which the reader's schema has no place for"
            cursor.refuse(mask, rows, behind, message)
        elif branch.plan is not None and branch.member is not None:
            values, behind[positions] = read(
                cursor, branch.plan, places[positions], rows[positions]
            )
            is_shown[positions] = True
            member = branch.member if plan.members is not None else 0
            pieces.setdefault(member, []).append((positions, values))
    if plan.members is None:
        return _scattered(plan.type, pieces.get(0, []), len(rows)), behind
    columns = [
        _scattered(plan.type.field(index).type, pieces.get(index, []), len(rows))
        for index in range(plan.members)
    ]
    fields = [plan.type.field(index) for index in range(plan.members)]
    nulls = _untyped.array(~is_shown)
    return _untyped.StructArray.from_arrays(columns, fields=fields, mask=nulls), behind


def _scattered(kind: pa.DataType, pieces: list[tuple[Numbers, _Array]], count: int) -> _Array:
    """Return values at their places, and nulls between them."""
    if not pieces:
        return _untyped.nulls(count, kind)
    if len(pieces) == 1 and len(pieces[0][0]) == count:
        return pieces[0][1]
    where = np.full(count, -1, np.int64)
    first = 0
    for positions, values in pieces:
        where[positions] = np.arange(first, first + len(values))
        first += len(values)
    joined = _untyped.concat_arrays([values for _, values in pieces])
    return joined.take(_untyped.array(where, mask=where < 0))
