"""Arrow columns to Avro bodies, whole columns at a time: what decoding.py reads back as they were.

    record      its fields one behind the other; one that no column has is its default
    union       of null and one other: a null is null. Of more: a struct of member0, member1, ... of
                which one is filled, as they are shown, or a column that only one branch takes
    array, map  one block of all items, and none where there are none

Where Avro leaves a choice, numbers are as short as can be and a union of two widths of a number
takes the first branch that holds the value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

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
    Mask,
    Numbers,
    Piece,
    Pieces,
    cut,
    edges_of,
    joined,
    spread_out,
    where_valid,
    whole_numbers,
)
from storage_core.avro.cursor import EMPTY_ITEMS_MAX, Limits, too_many
from storage_core.avro.defaults import default_value
from storage_core.avro.primitive_encoder import (
    Kind,
    fitted,
    leaf_name,
    leaf_pieces,
    numbers_of,
    takes,
)
from storage_core.avro.row_path import RowPlace
from storage_core.avro.schema import AvroSchema
from storage_core.errors import InvalidRequestError

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
    there: Mask | None = None,
    frame: bytes = b"",
) -> pa.BinaryArray:
    """Encode rows by a schema.

    Args:
        rows: Columns by the names of the schema's fields, of the types that it is shown in or that
            cast to them without loss. One that is missing has its default, or is null.
        schema: The schema they are written by.
        there: Which rows have a body; others are null. All if None.
        frame: What stands before each body.

    Raises:
        InvalidRequestError: A column is none of the schema's fields or of another type, a field
            without default has none, or a value does not fit; the message names the row.
    """
    names = rows.schema.names
    if len(set(names)) != len(names):
        message = f"a field stands twice among {', '.join(names)}"
        raise InvalidRequestError(message)
    if there is None or there.all():
        return _encoded(rows, schema, int, frame)
    positions = np.flatnonzero(there)
    some = rows.filter(_untyped.array(there))
    bodies = _encoded(some, schema, lambda row: int(positions[row]), frame)
    made: pa.BinaryArray = spread_out(bodies, positions, rows.num_rows)
    return made


def _encoded(
    rows: pa.RecordBatch | pa.Table,
    schema: AvroSchema,
    told_of: Callable[[int], int],
    frame: bytes,
) -> pa.BinaryArray:
    writer, encoded, size = _Writer(frame), [], 0
    try:
        for first, some in _some_at_once(rows):
            place = RowPlace(partial(_told_behind, told_of, first))
            columns = dict(zip(some.schema.names, map(_as_one, some.columns), strict=True))
            bodies = writer.bodies(schema, columns, some.num_rows, place)
            size += int(edges_of(bodies)[-1]) - int(edges_of(bodies)[0])
            encoded.append(bodies)
    except pa.ArrowCapacityError as error:
        raise _too_large() from error
    if size > _BYTES_MAX:
        raise _too_large()
    made: pa.BinaryArray = encoded[0] if len(encoded) == 1 else _untyped.concat_arrays(encoded)
    return made


def _told_behind(told_of: Callable[[int], int], first: int, row: int) -> int:
    return told_of(first + row)


def _too_large() -> InvalidRequestError:
    return InvalidRequestError("bodies of more than 2 GiB together; encode fewer rows at once")


def _some_at_once(
    rows: pa.RecordBatch | pa.Table,
) -> Iterator[tuple[int, pa.RecordBatch | pa.Table]]:
    """Yield rows by and by, each with the number of its first; none as they are."""
    size = rows.nbytes // max(1, rows.num_rows) + 1
    count = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // size))
    for first in range(0, max(1, rows.num_rows), count):
        yield first, rows.slice(first, count)


def _as_one(column: Any) -> Column:  # noqa: ANN401 - of a table chunked, of a batch not
    if not isinstance(column, pa.ChunkedArray):
        return column
    # NOTE: pyarrow copies a single chunk, too.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class _Writer:
    """Writes columns by types; what defaults are is made once."""

    def __init__(self, frame: bytes = b"") -> None:
        self._frame = frame
        self._defaults: dict[int, bytes] = {}
        self._items_of_rows = np.zeros(0, np.int64)

    def bodies(
        self, schema: AvroSchema, columns: Mapping[str, Column], count: int, place: RowPlace
    ) -> Column:
        """Return what is written of so many rows."""
        self._items_of_rows = np.zeros(count, np.int64)
        found = joined([self._frame, *self._fields(schema.fields, columns, place)], count)
        self._refuse_items(np.diff(edges_of(found)) - len(self._frame), place)
        return found

    def _refuse_items(self, sizes: Numbers, place: RowPlace) -> None:
        """Refuse rows with more items than a reader lets bodies of these sizes have."""
        items = self._items_of_rows
        over = items > np.minimum(sizes + EMPTY_ITEMS_MAX, Limits().items)
        if over.any():
            index = int(over.argmax())
            place.refuse(
                index, f"has {items[index]} items in its arrays and maps: {too_many(Limits())}"
            )

    def _fields(
        self, fields: Sequence[Field], columns: Mapping[str, Column], place: RowPlace
    ) -> Pieces:
        """Return the bytes of a record's fields."""
        names = [field.name for field in fields]
        if unknown := [name for name in columns if name not in names]:
            place.refuse_all(f"has no field {', '.join(unknown)}; there are {', '.join(names)}")
        pieces: list[Piece] = []
        for field in fields:
            if field.name in columns:
                pieces += self._value(field.type, columns[field.name], place.field(field.name))
            else:
                pieces.append(self._default(field, place.field(field.name)))
        return pieces

    def _value(self, what: AvroType, given: Column, place: RowPlace) -> Pieces:
        """Return the bytes of values, of which none may be null unless their type says so."""
        if isinstance(what, Union):
            return self._union(what, given, place)
        if given.null_count and what != NULL:
            index = int(given.is_null().to_numpy(zero_copy_only=False).argmax())
            place.refuse(index, "is null, and the schema takes none there")
        if what == NULL and given.null_count < len(given):
            place.refuse(int(_valid(given).argmax()), "is a value, and the schema has null there")
        return self._filled(what, given, place)

    def _filled(self, what: AvroType, given: Column, place: RowPlace) -> Pieces:
        """Return the bytes of what is not null."""
        if isinstance(what, Primitive | Fixed | Enum):
            return leaf_pieces(what, given, place)
        if not is_made_of(what, given.type):
            if _types.is_null(given.type):
                return []
            place.refuse_all(f"is {given.type}, and the schema has {name_of(what)} there")
        if given.null_count:
            positions = np.flatnonzero(_valid(given))
            some = self._filled(what, given.filter(given.is_valid()), place.some(positions))
            return [spread_out(joined(some, len(positions)), positions, len(given))]
        if isinstance(what, Record):
            columns = dict(zip(given.type.names, given.flatten(), strict=True))
            return self._fields(what.fields, columns, place)
        assert not isinstance(what, Union), "branches are no unions"
        return self._items(what, given, place)

    def _items(self, what: Array | Map, given: Column, place: RowPlace) -> Pieces:
        listed = _plain_list(what, given)
        edges = edges_of(listed)
        inside, count = place.items(edges), int(edges[-1] - edges[0])
        pieces: list[Piece] = []
        if isinstance(what, Map):
            keys = listed.keys.slice(edges[0], count)
            pieces += leaf_pieces(_STRING, keys, inside.field("key"))
            items, of_item = listed.items, what.values
        else:
            items, of_item = listed.values, what.items
        pieces += self._value(of_item, items.slice(edges[0], count), inside)
        counts = np.diff(edges)
        np.add.at(self._items_of_rows, place.rows_of(np.arange(len(counts))), counts)
        block = whole_numbers(counts, None if counts.all() else counts > 0)
        return [block, cut(joined(pieces, count), edges - edges[0]), b"\0"]

    def _union(self, what: Union, given: Column, place: RowPlace) -> Pieces:
        others = members(what)
        wide = widened(what)
        if wide is not None and len(others) > 1:
            columns = by_width(what, given, wide, place)
        elif len(others) > 1:
            columns = by_member(others, given, place)
        else:
            columns = [given] * len(others)
        numbers = [index for index, member in enumerate(what.branches) if member != NULL]
        chosen = np.full(len(given), -1, np.int64)
        for number, column in zip(numbers, columns, strict=True):
            is_it = _valid(column)
            twice = is_it & (chosen >= 0)
            if twice.any():
                place.refuse(int(twice.argmax()), "has two members of a union at once")
            chosen[is_it] = number
        if (chosen < 0).any():
            if NULL not in what.branches:
                index = int((chosen < 0).argmax())
                place.refuse(index, "is null, and the schema takes none there")
            chosen[chosen < 0] = what.branches.index(NULL)
        if not others and given.null_count < len(given):
            place.refuse(int(_valid(given).argmax()), "is a value, and the schema has null there")
        is_one = len(chosen) > 0 and bool((chosen == chosen[0]).all())
        branch = whole_numbers(chosen[:1])[0].as_py() if is_one else whole_numbers(chosen)
        pieces: list[Piece] = [branch]
        for member, column in zip(others, columns, strict=True):
            pieces += self._filled(member, column, place)
        return pieces

    def default(self, what: AvroType, value: Column, place: RowPlace) -> bytes:
        """Return the body of one value."""
        self._items_of_rows = np.zeros(1, np.int64)
        made: bytes = joined(self._value(what, value, place), 1)[0].as_py()
        return made

    def _default(self, field: Field, place: RowPlace) -> bytes:
        """Return the body of what a field is that no column has."""
        cached = self._defaults.get(id(field))
        if cached is not None:
            return cached
        is_nullable = isinstance(field.type, Union) and NULL in field.type.branches
        if not field.has_default and not is_nullable:
            place.refuse_all("is not given, and has no default")
        value = default_value(field.type, field.default) if field.has_default else None
        kind = pa.null() if value is None else arrow_type(field.type)
        made = _Writer().default(field.type, _untyped.array([value], kind), place)
        self._defaults[id(field)] = made
        return made


def _valid(column: Column) -> Mask:
    valid = where_valid(column)
    return np.ones(len(column), np.bool_) if valid is None else valid


def _plain_list(what: Array | Map, given: Column) -> Column:
    if isinstance(what, Map) or _types.is_list(given.type):
        return given
    return _compute.cast(given, pa.list_(given.type.value_field))


def by_width(what: Union, given: Column, wide: Primitive, place: RowPlace) -> list[Column]:
    """Return the column of each of a union's numbers: the first branch that holds it has it."""
    column = fitted(wide, given, place)
    values = numbers_of(column)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.int32 if wide.kind == "long" else np.float32)
    # What is no number is so in any width.
    is_narrow = (narrow == values) | np.isnan(narrow)
    columns = []
    left = np.ones(len(values), np.bool_)
    for member in members(what):
        takes_all = member == wide
        mine = left if takes_all else left & is_narrow
        left = left & ~mine
        none = _untyped.scalar(None, column.type)
        columns.append(_compute.if_else(_untyped.array(mine), column, none))
    return columns


def by_member(others: tuple[AvroType, ...], given: Column, place: RowPlace) -> list[Column]:
    """Return the column of each of a union's members."""
    kind = given.type
    names = [f"member{at}" for at in range(len(others))]
    if _types.is_struct(kind) and kind.names and set(kind.names) <= set(names):
        fields = dict(zip(kind.names, given.flatten(), strict=True))
        return [fields.get(name, _untyped.nulls(len(given))) for name in names]
    matching = [at for at, each in enumerate(others) if _is_shown_as(each, kind)]
    if not matching:
        matching = [at for at, each in enumerate(others) if _may_be(each, kind)]
    if _types.is_null(kind):
        matching = [0]
    if len(matching) != 1:
        branches = ", ".join(
            f"{name}: {name_of(each)}" for name, each in zip(names, others, strict=True)
        )
        place.refuse_all(
            f"is {kind}, and the schema has a union there: give a struct of {branches}"
        )
    return [given if at == matching[0] else _untyped.nulls(len(given)) for at in range(len(others))]


def _is_shown_as(what: AvroType, kind: Kind) -> bool:
    try:
        return bool(arrow_type(what) == kind)
    except InvalidRequestError:
        return False


def _may_be(what: AvroType, kind: Kind) -> bool:
    if isinstance(what, Primitive | Fixed | Enum):
        return takes(what, kind)
    return is_made_of(what, kind)


def name_of(what: AvroType) -> str:
    """Return a type's name as people know it."""
    if isinstance(what, Primitive | Fixed | Enum):
        return leaf_name(what)
    if isinstance(what, Record):
        return f"record {what.name}"
    return "an array" if isinstance(what, Array) else "a map" if isinstance(what, Map) else "union"


def is_made_of(what: AvroType, kind: Kind) -> bool:
    """Tell whether a column of a type may stand for one with parts."""
    if isinstance(what, Record):
        return bool(_types.is_struct(kind))
    if isinstance(what, Map):
        return bool(_types.is_map(kind))
    return bool(
        _types.is_list(kind)
        or _types.is_large_list(kind)
        or _types.is_fixed_size_list(kind)
        or _types.is_list_view(kind)
        or _types.is_large_list_view(kind)
    )
