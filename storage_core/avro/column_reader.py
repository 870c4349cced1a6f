"""Arrow arrays from Avro bodies by a resolved plan: each step reads one column of all rows."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro.avro_types import (
    FIXED_SIZE_BINARY_MAX,
    TIMES_OF_DAY,
    Decimal,
    Map,
    Primitive,
    arrow_type,
)
from storage_core.avro.cursor import Bytes, Cursor, Numbers
from storage_core.avro.resolution import (
    EnumPlan,
    FixedPlan,
    ItemsPlan,
    Plan,
    PrimitivePlan,
    RecordPlan,
    UnionPlan,
)
from storage_core.avro.skip import find_items, read_booleans, skip
from storage_core.platform.arrow import scatter

_untyped: Any = pa  # the stubs lack what is made from buffers
_Array = Any
_NUMBERS: Final[dict[str, type[Any]]] = {
    "int": np.int32,
    "long": np.int64,
    "float": np.float32,
    "double": np.float64,
}
_TEXT: Final = PrimitivePlan(Primitive("string"), Primitive("string"))
_DECIMAL_BYTES: Final = 16
# The sign bit.
_NEGATIVE: Final = 0x80


def read(cursor: Cursor, plan: Plan, offsets: Numbers, rows: Numbers) -> tuple[_Array, Numbers]:
    """Return the array that a plan reads, and the offsets after it."""
    if isinstance(plan, PrimitivePlan):
        return _plain(cursor, plan, offsets, rows)
    if isinstance(plan, FixedPlan):
        return _sized(cursor, plan, offsets, rows)
    if isinstance(plan, EnumPlan):
        return _symbols(cursor, plan, offsets, rows)
    if isinstance(plan, ItemsPlan):
        return _items(cursor, plan, offsets, rows)
    if isinstance(plan, UnionPlan):
        return _choice(cursor, plan, offsets, rows)
    return _record(cursor, plan, offsets, rows)


def read_fields(
    cursor: Cursor, plan: RecordPlan, offsets: Numbers, rows: Numbers
) -> tuple[list[_Array], Numbers]:
    """Return the columns of a record, and the offsets after it."""
    columns: list[_Array] = [None] * len(plan.names)
    for index, value in plan.defaults.items():
        columns[index] = _untyped.repeat(_untyped.scalar(value, plan.types[index]), len(rows))
    for step in plan.steps:
        if step.column is None or step.plan is None:
            offsets = skip(cursor, step.writer, offsets, rows, 1)
        else:
            columns[step.column], offsets = read(cursor, step.plan, offsets, rows)
    return columns, offsets


def _record(
    cursor: Cursor, plan: RecordPlan, offsets: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    columns, after = read_fields(cursor, plan, offsets, rows)
    if not columns:
        return _untyped.array([{}] * len(rows), pa.struct([])), after
    fields = [
        pa.field(name, data_type) for name, data_type in zip(plan.names, plan.types, strict=True)
    ]
    return _untyped.StructArray.from_arrays(columns, fields=fields), after


def _sized(
    cursor: Cursor, plan: FixedPlan, offsets: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    size = plan.writer.size
    if plan.reader.decimal is not None or size > FIXED_SIZE_BINARY_MAX:
        after = offsets + size
        cursor.check_ends(rows, after)
        sizes = np.where(cursor.is_bad[rows], 0, size)
        if plan.reader.decimal is not None:
            return _decimals(cursor, plan.reader.decimal, offsets, sizes, rows), after
        return _bytes(cursor, offsets, sizes, rows, is_text=False), after
    raw, after = cursor.fixed(offsets, rows, size)
    return _fixed_width(pa.binary(plan.writer.size), len(rows), raw), after


def _fixed_width(data_type: pa.DataType, count: int, values: npt.NDArray[Any]) -> _Array:
    """Return values of a fixed width as an array."""
    return _untyped.Array.from_buffers(data_type, count, [None, _untyped.py_buffer(values)])


def _plain(
    cursor: Cursor, plan: PrimitivePlan, offsets: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    primitive, reader = plan.writer.kind, plan.reader
    if primitive == "null":
        return _untyped.nulls(len(rows)), offsets
    if primitive == "boolean":
        values, offsets = read_booleans(cursor, offsets, rows)
        return _untyped.array(values.astype(np.bool_)), offsets
    if primitive in ("bytes", "string"):
        starts, sizes, after = cursor.spans(offsets, rows)
        if reader.decimal is not None:
            return _decimals(cursor, reader.decimal, starts, sizes, rows), after
        return _bytes(cursor, starts, sizes, rows, is_text=reader.kind == "string"), after
    numbers: npt.NDArray[Any]
    if primitive in ("int", "long"):
        numbers, offsets = (cursor.ints if primitive == "int" else cursor.longs)(offsets, rows)
        _check_time_of_day(cursor, reader.logical, numbers, offsets, rows)
    else:
        raw, offsets = cursor.fixed(offsets, rows, 4 if primitive == "float" else 8)
        numbers = np.ascontiguousarray(raw).view("<f4" if primitive == "float" else "<f8")[:, 0]
    values = np.ascontiguousarray(numbers.astype(_NUMBERS[reader.kind], copy=False))
    return _fixed_width(arrow_type(reader), len(rows), values), offsets


def _check_time_of_day(
    cursor: Cursor, logical: str | None, numbers: Numbers, offsets: Numbers, rows: Numbers
) -> None:
    most = TIMES_OF_DAY.get(logical or "")
    if most is not None:
        wrong = ((numbers < 0) | (numbers >= most)) & ~cursor.is_bad[rows]
        cursor.refuse(wrong, rows, offsets, f"a {logical} outside of a day")


def _bytes(
    cursor: Cursor, starts: Numbers, sizes: Numbers, rows: Numbers, *, is_text: bool
) -> _Array:
    ends, contents = cursor.gather(starts, sizes)
    buffers = [None, _untyped.py_buffer(ends), _untyped.py_buffer(contents)]
    values = _untyped.Array.from_buffers(pa.binary(), len(rows), buffers)
    if not is_text:
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        is_wrong = np.array([not _is_text(each) for each in values.to_pylist()], np.bool_)
    cursor.refuse(
        is_wrong & ~cursor.is_bad[rows], rows, starts.copy(), "a string that is not UTF-8"
    )
    return _bytes(cursor, starts, np.where(is_wrong, 0, sizes), rows, is_text=True)


def _is_text(contents: bytes) -> bool:
    try:
        contents.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(
    cursor: Cursor, decimal: Decimal, starts: Numbers, sizes: Numbers, rows: Numbers
) -> _Array:
    """Return big-endian integers of any size as decimals."""
    width = _DECIMAL_BYTES if pa.types.is_decimal128(decimal.arrow) else 2 * _DECIMAL_BYTES
    first = cursor.bytes_at(starts)
    sign = np.where((first >= _NEGATIVE) & (sizes > 0), 0xFF, 0).astype(np.uint8)
    # From the last byte back: Arrow has the lowest byte first.
    reversed_bytes = np.arange(width)
    offsets = (starts + sizes - 1)[:, None] - reversed_bytes
    inside = reversed_bytes < sizes[:, None]
    raw: Bytes = np.where(inside, cursor.data.take(offsets, mode="clip"), sign[:, None])
    decimals = _fixed_width(decimal.arrow, len(rows), np.ascontiguousarray(raw))
    limit = 10**decimal.precision
    wrong = sizes == 0
    long_rows = np.flatnonzero(sizes > width)
    try:
        decimals.validate(full=True)
        suspects: Any = long_rows
    except pa.ArrowInvalid:
        suspects = np.arange(len(rows))
    for index in suspects.tolist():
        whole = cursor.data[starts[index] : starts[index] + sizes[index]].tobytes()
        wrong[index] |= abs(int.from_bytes(whole, "big", signed=True)) >= limit
    if (
        cursor.refuse(
            wrong & ~cursor.is_bad[rows],
            rows,
            starts.copy(),
            f"a decimal that is empty or has more than {decimal.precision} digits",
        )
        or wrong.any()
    ):
        raw[wrong] = 0
        decimals = _fixed_width(decimal.arrow, len(rows), np.ascontiguousarray(raw))
    return decimals


def _symbols(
    cursor: Cursor, plan: EnumPlan, offsets: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    chosen, offsets = cursor.indices(offsets, rows, len(plan.writer), "an enum symbol")
    for index, symbol in enumerate(plan.reader):
        if symbol is None:
            wrong = (chosen == index) & ~cursor.is_bad[rows]
            message = (
                f"symbol {plan.writer[index]} is not in the reader's enum, which has no default"
            )
            cursor.refuse(wrong, rows, offsets, message)
    names = _untyped.array(plan.reader, pa.string())
    return names.take(_untyped.array(chosen)), offsets


def _items(
    cursor: Cursor, plan: ItemsPlan, offsets: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    before = cursor.items_left.copy()
    items = find_items(cursor, plan.writer, offsets, rows, 1)
    # Items inside of the items are counted as they are read.
    cursor.items_left = before
    np.subtract.at(cursor.items_left, rows, items.counts)
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(items.counts, out=ends[1:])
    list_offsets = _untyped.array(ends, pa.int32())
    if isinstance(plan.writer, Map):
        names, values_begin = read(cursor, _TEXT, items.offsets, items.rows)
        values, _ = read(cursor, plan.plan, values_begin, items.rows)
        return _untyped.MapArray.from_arrays(list_offsets, names, values), items.after
    values, _ = read(cursor, plan.plan, items.offsets, items.rows)
    return _untyped.ListArray.from_arrays(list_offsets, values), items.after


def _choice(
    cursor: Cursor, plan: UnionPlan, offsets: Numbers, rows: Numbers
) -> tuple[_Array, Numbers]:
    branches = np.zeros(len(rows), np.int64)
    if plan.is_union:
        branches, offsets = cursor.indices(offsets, rows, len(plan.branches), "a union branch")
    values_by_member: dict[int, list[tuple[Numbers, _Array]]] = {}
    is_filled = np.zeros(len(rows), np.bool_)
    after = offsets.copy()
    for number, branch in enumerate(plan.branches):
        positions = np.flatnonzero(branches == number)
        if not len(positions):
            continue
        if branch.is_fault:
            mask = np.zeros(len(rows), np.bool_)
            mask[positions] = ~cursor.is_bad[rows[positions]]
            message = f"{branch.name}, which the reader's schema does not have"
            cursor.refuse(mask, rows, after, message)
        elif branch.plan is not None and branch.member is not None:
            values, after[positions] = read(
                cursor, branch.plan, offsets[positions], rows[positions]
            )
            is_filled[positions] = True
            member = branch.member if plan.members is not None else 0
            values_by_member.setdefault(member, []).append((positions, values))
    if plan.members is None:
        return scatter(values_by_member.get(0, []), len(rows), plan.type), after
    columns = [
        scatter(values_by_member.get(index, []), len(rows), plan.type.field(index).type)
        for index in range(plan.members)
    ]
    fields = [plan.type.field(index) for index in range(plan.members)]
    nulls = _untyped.array(~is_filled)
    return _untyped.StructArray.from_arrays(columns, fields=fields, mask=nulls), after
