"""Arrow columns to Avro bodies, a column at a time: the inverse of decoder.py.

    record      its fields in order; a field without a column has its default
    union       of null and one other: a column with nulls. Of more: a struct of member0, member1,
                ... of which one is filled, as the decoder returns it, or a column of a type that
                only one branch accepts
    array, map  one block of all items, and none of an empty one

Where Avro leaves a choice, varints are as short as possible, and a union of two number widths
has the first branch that can represent the value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.avro_types import (
    NULL,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    arrow_type,
    members,
    widened,
)
from storage_core.avro.binary_columns import (
    Column,
    Fragment,
    Fragments,
    Mask,
    Numbers,
    concatenate,
    regroup,
    validity,
    value_offsets,
    varints,
)
from storage_core.avro.cursor import EMPTY_ITEMS_MAX, Limits, too_many
from storage_core.avro.defaults import default_value
from storage_core.avro.row_path import RowPath
from storage_core.avro.scalar_encoder import (
    DataType,
    can_cast,
    cast_exactly,
    encode_scalar,
    scalar_name,
    storage_numbers,
)
from storage_core.avro.schema import AvroSchema
from storage_core.errors import InvalidRequestError
from storage_core.platform.arrow import scatter

_ROWS_AT_ONCE: Final = 16_384
_BYTES_AT_ONCE: Final = 2**28
_BYTES_MAX: Final = 2**31 - 1
_types: Any = pa.types
_untyped: Any = pa  # the stubs want to know what an array holds
_compute: Any = pc
_STRING: Final = Primitive("string")


def encode_batch(
    rows: pa.RecordBatch | pa.Table,
    schema: AvroSchema,
    *,
    valid: Mask | None = None,
    frame: bytes = b"",
) -> pa.BinaryArray:
    """Encode rows by a schema.

    Args:
        rows: Columns named as the schema's fields, of the types that they are decoded to or that
            cast to them without loss. A missing one has its default, or is null.
        schema: The writer's schema.
        valid: Which rows have a body; others are null. All if None.
        frame: The framing before each body.

    Raises:
        InvalidRequestError: A column is not a field of the schema or has another type, a field
            without a default has no column, or a value does not fit; the message has the row. Or
            the schema's bodies are JSON.
    """
    if schema.has_json_bodies:
        message = f"bodies of {schema.full_name} are JSON, as whoever wrote them had them"
        raise InvalidRequestError(message)
    names = rows.schema.names
    if len(set(names)) != len(names):
        message = f"a column name is repeated: {', '.join(names)}"
        raise InvalidRequestError(message)
    if valid is None or valid.all():
        return _encoded(rows, schema, int, frame)
    positions = np.flatnonzero(valid)
    subset = rows.filter(_untyped.array(valid))
    bodies = _encoded(subset, schema, lambda row: int(positions[row]), frame)
    encoded = scatter([(positions, bodies)], rows.num_rows, pa.binary())
    return cast("pa.BinaryArray", encoded)


def _encoded(
    rows: pa.RecordBatch | pa.Table,
    schema: AvroSchema,
    caller_row: Callable[[int], int],
    frame: bytes,
) -> pa.BinaryArray:
    writer, arrays, size = _Writer(frame), [], 0
    try:
        for first, subset in _batches(rows):
            path = RowPath(partial(_in_batch, caller_row, first))
            columns = dict(zip(subset.schema.names, map(_one_array, subset.columns), strict=True))
            bodies = writer.bodies(schema, columns, subset.num_rows, path)
            size += int(value_offsets(bodies)[-1]) - int(value_offsets(bodies)[0])
            arrays.append(bodies)
    except pa.ArrowCapacityError as error:
        raise _too_large() from error
    if size > _BYTES_MAX:
        raise _too_large()
    bodies = arrays[0] if len(arrays) == 1 else _untyped.concat_arrays(arrays)
    return cast("pa.BinaryArray", bodies)


def _in_batch(caller_row: Callable[[int], int], first: int, row: int) -> int:
    return caller_row(first + row)


def _too_large() -> InvalidRequestError:
    return InvalidRequestError("bodies of more than 2 GiB together; encode fewer rows at once")


def _batches(
    rows: pa.RecordBatch | pa.Table,
) -> Iterator[tuple[int, pa.RecordBatch | pa.Table]]:
    """Yield batches of bounded size, each with the number of its first row; at least one."""
    size = rows.nbytes // max(1, rows.num_rows) + 1
    count = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // size))
    for first in range(0, max(1, rows.num_rows), count):
        yield first, rows.slice(first, count)


def _one_array(column: Any) -> Column:  # noqa: ANN401 - of a table chunked, of a batch not
    if not isinstance(column, pa.ChunkedArray):
        return column
    # NOTE: pyarrow copies a single chunk, too.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class _Writer:
    """Encodes columns by their Avro types; each default is encoded once."""

    def __init__(self, frame: bytes = b"") -> None:
        self._frame = frame
        self._defaults: dict[int, bytes] = {}
        self._items_of_rows = np.zeros(0, np.int64)

    def bodies(
        self, schema: AvroSchema, columns: Mapping[str, Column], count: int, path: RowPath
    ) -> Column:
        """Return the bodies of `count` rows."""
        self._items_of_rows = np.zeros(count, np.int64)
        bodies = concatenate([self._frame, *self._fields(schema.fields, columns, path)], count)
        self._refuse_items(np.diff(value_offsets(bodies)) - len(self._frame), path)
        return bodies

    def _refuse_items(self, sizes: Numbers, path: RowPath) -> None:
        """Refuse rows with more items than the decoder accepts in bodies of these sizes."""
        items = self._items_of_rows
        over = items > np.minimum(sizes + EMPTY_ITEMS_MAX, Limits().items)
        if over.any():
            index = int(over.argmax())
            path.refuse(
                index, f"has {items[index]} items in its arrays and maps: {too_many(Limits())}"
            )

    def _fields(
        self, fields: Sequence[Field], columns: Mapping[str, Column], path: RowPath
    ) -> Fragments:
        """Return the fragments of a record's fields."""
        names = [field.name for field in fields]
        if unknown := [name for name in columns if name not in names]:
            path.refuse_all(f"has no field {', '.join(unknown)}; there are {', '.join(names)}")
        fragments: list[Fragment] = []
        for field in fields:
            if field.name in columns:
                fragments += self._value(field.type, columns[field.name], path.field(field.name))
            else:
                fragments.append(self._default(field, path.field(field.name)))
        return fragments

    def _value(self, avro_type: AvroType, column: Column, path: RowPath) -> Fragments:
        """Return the fragments of values; nulls are refused unless the type allows them."""
        if isinstance(avro_type, Union):
            return self._union(avro_type, column, path)
        if column.null_count and avro_type != NULL:
            index = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
            path.refuse(index, "is null, and the schema does not allow null there")
        if avro_type == NULL and column.null_count < len(column):
            path.refuse(int(_valid(column).argmax()), "is a value, and the schema has null there")
        return self._filled(avro_type, column, path)

    def _filled(self, avro_type: AvroType, column: Column, path: RowPath) -> Fragments:
        """Return the fragments of values; a null has no bytes."""
        if isinstance(avro_type, Primitive | Fixed | Enum):
            return encode_scalar(avro_type, column, path)
        if not is_nested_like(avro_type, column.type):
            if _types.is_null(column.type):
                return []
            path.refuse_all(f"is {column.type}, and the schema has {type_name(avro_type)} there")
        if column.null_count:
            positions = np.flatnonzero(_valid(column))
            subset = self._filled(avro_type, column.filter(column.is_valid()), path.some(positions))
            return [
                scatter(
                    [(positions, concatenate(subset, len(positions)))], len(column), pa.binary()
                )
            ]
        if isinstance(avro_type, Record):
            columns = dict(zip(column.type.names, column.flatten(), strict=True))
            return self._fields(avro_type.fields, columns, path)
        assert not isinstance(avro_type, Union), "a branch is not a union"
        return self._items(avro_type, column, path)

    def _items(self, avro_type: Array | Map, column: Column, path: RowPath) -> Fragments:
        lists = _plain_list(avro_type, column)
        offsets = value_offsets(lists)
        item_path, count = path.items(offsets), int(offsets[-1] - offsets[0])
        fragments: list[Fragment] = []
        if isinstance(avro_type, Map):
            keys = lists.keys.slice(offsets[0], count)
            fragments += encode_scalar(_STRING, keys, item_path.field("key"))
            items, item_type = lists.items, avro_type.values
        else:
            items, item_type = lists.values, avro_type.items
        fragments += self._value(item_type, items.slice(offsets[0], count), item_path)
        counts = np.diff(offsets)
        np.add.at(self._items_of_rows, path.rows_of(np.arange(len(counts))), counts)
        block = varints(counts, None if counts.all() else counts > 0)
        return [block, regroup(concatenate(fragments, count), offsets - offsets[0]), b"\0"]

    def _union(self, avro_type: Union, column: Column, path: RowPath) -> Fragments:
        others = members(avro_type)
        wide = widened(avro_type)
        if wide is not None and len(others) > 1:
            columns = split_by_width(avro_type, column, wide, path)
        elif len(others) > 1:
            columns = split_by_member(others, column, path)
        else:
            columns = [column] * len(others)
        numbers = [index for index, member in enumerate(avro_type.branches) if member != NULL]
        chosen = np.full(len(column), -1, np.int64)
        for number, member_column in zip(numbers, columns, strict=True):
            is_valid = _valid(member_column)
            twice = is_valid & (chosen >= 0)
            if twice.any():
                path.refuse(int(twice.argmax()), "has two members of a union at once")
            chosen[is_valid] = number
        if (chosen < 0).any():
            if NULL not in avro_type.branches:
                index = int((chosen < 0).argmax())
                path.refuse(index, "is null, and the schema does not allow null there")
            chosen[chosen < 0] = avro_type.branches.index(NULL)
        if not others and column.null_count < len(column):
            path.refuse(int(_valid(column).argmax()), "is a value, and the schema has null there")
        is_one = len(chosen) > 0 and bool((chosen == chosen[0]).all())
        branch = varints(chosen[:1])[0].as_py() if is_one else varints(chosen)
        fragments: list[Fragment] = [branch]
        for member, member_column in zip(others, columns, strict=True):
            fragments += self._filled(member, member_column, path)
        return fragments

    def default(self, avro_type: AvroType, value: Column, path: RowPath) -> bytes:
        """Return the encoding of one value."""
        self._items_of_rows = np.zeros(1, np.int64)
        encoded: bytes = concatenate(self._value(avro_type, value, path), 1)[0].as_py()
        return encoded

    def _default(self, field: Field, path: RowPath) -> bytes:
        """Return the encoded default of a field without a column."""
        cached = self._defaults.get(id(field))
        if cached is not None:
            return cached
        is_nullable = isinstance(field.type, Union) and NULL in field.type.branches
        if not field.has_default and not is_nullable:
            path.refuse_all("has no column and no default")
        value = default_value(field.type, field.default) if field.has_default else None
        data_type = pa.null() if value is None else arrow_type(field.type)
        encoded = _Writer().default(field.type, _untyped.array([value], data_type), path)
        self._defaults[id(field)] = encoded
        return encoded


def _valid(column: Column) -> Mask:
    valid = validity(column)
    return np.ones(len(column), np.bool_) if valid is None else valid


def _plain_list(avro_type: Array | Map, column: Column) -> Column:
    if isinstance(avro_type, Map) or _types.is_list(column.type):
        return column
    return _compute.cast(column, pa.list_(column.type.value_field))


def split_by_width(
    avro_type: Union, column: Column, wide: Primitive, path: RowPath
) -> list[Column]:
    """Return a column for each number type of a union: each value in the first that can hold it."""
    column = cast_exactly(wide, column, path)
    values = storage_numbers(column)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.int32 if wide.kind == "long" else np.float32)
    # NaN is NaN in any width.
    is_narrow = (narrow == values) | np.isnan(narrow)
    columns = []
    left = np.ones(len(values), np.bool_)
    for member in members(avro_type):
        takes_all = member == wide
        mine = left if takes_all else left & is_narrow
        left = left & ~mine
        none = _untyped.scalar(None, column.type)
        columns.append(_compute.if_else(_untyped.array(mine), column, none))
    return columns


def split_by_member(others: tuple[AvroType, ...], column: Column, path: RowPath) -> list[Column]:
    """Return a column for each member of a union."""
    data_type = column.type
    names = [f"member{index}" for index in range(len(others))]
    if _types.is_struct(data_type) and data_type.names and set(data_type.names) <= set(names):
        fields = dict(zip(data_type.names, column.flatten(), strict=True))
        return [fields.get(name, _untyped.nulls(len(column))) for name in names]
    matching = [index for index, member in enumerate(others) if _decodes_to(member, data_type)]
    if not matching:
        matching = [index for index, member in enumerate(others) if _accepts(member, data_type)]
    if _types.is_null(data_type):
        matching = [0]
    if len(matching) != 1:
        branches = ", ".join(
            f"{name}: {type_name(member)}" for name, member in zip(names, others, strict=True)
        )
        path.refuse_all(
            f"is {data_type}, and the schema has a union there: give a struct of {branches}"
        )
    return [
        column if index == matching[0] else _untyped.nulls(len(column))
        for index in range(len(others))
    ]


def _decodes_to(avro_type: AvroType, data_type: DataType) -> bool:
    try:
        return bool(arrow_type(avro_type) == data_type)
    except InvalidRequestError:
        return False


def _accepts(avro_type: AvroType, data_type: DataType) -> bool:
    if isinstance(avro_type, Primitive | Fixed | Enum):
        return can_cast(avro_type, data_type)
    return is_nested_like(avro_type, data_type)


def type_name(avro_type: AvroType) -> str:
    """Return the name of a type for messages."""
    if isinstance(avro_type, Primitive | Fixed | Enum):
        return scalar_name(avro_type)
    if isinstance(avro_type, Record):
        return f"record {avro_type.name}"
    if isinstance(avro_type, Array):
        return "an array"
    return "a map" if isinstance(avro_type, Map) else "a union"


def is_nested_like(avro_type: AvroType, data_type: DataType) -> bool:
    """Tell whether an Arrow type can be encoded as a record, map or array."""
    if isinstance(avro_type, Record):
        return bool(_types.is_struct(data_type))
    if isinstance(avro_type, Map):
        return bool(_types.is_map(data_type))
    return bool(
        _types.is_list(data_type)
        or _types.is_large_list(data_type)
        or _types.is_fixed_size_list(data_type)
        or _types.is_list_view(data_type)
        or _types.is_large_list_view(data_type)
    )
