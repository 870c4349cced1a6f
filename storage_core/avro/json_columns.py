"""Many JSON bodies as columns at once, by Arrow's reader: all of them, or none and who hinders.

It may only take what json_bodies.py takes one by one, with the same values; what it does not take
costs time alone. The bodies lie behind each other in one block, a line break behind each. Each
begins with `{` and ends with `}`: behind a `}` no object goes on with `{`, and no string has a line
break, so each has whole objects, and as many objects as bodies are one each. Arrow refuses a field
that is there twice, that nobody knows, or whose value is of another kind, and the digits of no
integer; it takes NaN, and bytes that are no UTF-8.

A time may be a text or a number, and a column has one of them: what the first body has. Integers
that are written as 5.0 are read as doubles, in a second try.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.written_times import (
    DAY_US,
    FIRST_US,
    LAST_US,
    MICROSECONDS_BELOW,
    MILLISECONDS_BELOW,
    SECONDS_BELOW,
)

_INT64_MAX: Final = 2**63 - 1
# Below it no other integer has the same double.
_EXACT_BELOW: Final = 2**53
_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 2**22
_BLOCK_BYTES_MIN: Final = 64
_UUID: Final = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_ZONE: Final = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
# The texts that most programs write, whose length tells that they have no fraction finer than
# microseconds; others are read one by one.
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?" + _ZONE
_DAY: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PATTERNS: Final[dict[str, str]] = {"uuid": _UUID, "timestamp": _TIME, "date": _DAY}
_IN_ROW: Final = re.compile(r"in row ([0-9]+)\Z")
_NO_DIGITS: Final = re.compile(r"to int64, couldn't parse:([0-9.eE+-]+)\Z")
_PLAIN: Final[dict[str, pa.DataType]] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "uuid": pa.string(),
    "enum": pa.string(),
}
_untyped: Any = pa  # the stubs want to know what an array holds
_compute: Any = pc
Column = Any
Places = npt.NDArray[np.int64]
JsonKind = Literal["int", "float", "string", "bool", "uuid", "timestamp", "date", "enum"]


def integer_or_none(written: object) -> int | None:
    """Return the integer of 64 bits that a number is; None if it is none.

    A number is one without a fraction, too, such as 5.0 and 1e3, where its double is no other's:
    so none is read as another than was written.
    """
    if type(written) is float:
        is_exact = written.is_integer() and abs(written) < _EXACT_BELOW
        return int(written) if is_exact else None
    if type(written) is not int or not -_INT64_MAX - 1 <= written <= _INT64_MAX:
        return None
    return written


@dataclass(frozen=True, slots=True)
class JsonField:
    """What values a field has.

    Attributes:
        name: Its name.
        kind: What its values are.
        is_nullable: Whether it may be null, or left out.
        values: Those of an enum.
    """

    name: str
    kind: JsonKind
    is_nullable: bool = False
    values: tuple[str, ...] = ()


class JsonTexts:
    """The texts of bodies, as they lie behind each other."""

    def __init__(self, bodies: Any, starts: Places) -> None:  # noqa: ANN401 - an array
        """Look at bodies that start in each value where `starts` says."""
        is_large = pa.types.is_large_binary(bodies.type)
        buffers = bodies.buffers()
        kind = np.dtype(np.int64 if is_large else np.int32)
        edges = np.frombuffer(
            buffers[1] or b"\0" * 8, kind, len(bodies) + 1, bodies.offset * kind.itemsize
        ).astype(np.int64)
        self.data = np.frombuffer(buffers[2] or b"", np.uint8)
        self.ends = edges[1:]
        self.begins = np.minimum(edges[:-1] + starts, self.ends)
        self.is_there = bodies.is_valid().to_numpy(zero_copy_only=False)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows that are read at once."""
        first, count = 0, len(self.ends)
        while first < count:
            most = int(np.searchsorted(self.ends, self.begins[first] + _BYTES_AT_ONCE, "right"))
            end = min(max(most, first + 1), first + _ROWS_AT_ONCE, count)
            yield first, end
            first = end

    def no_objects(self, rows: Places) -> Places:
        """Return which of some rows are no objects at sight."""
        begins, ends = self.begins[rows], self.ends[rows]
        is_one = ends - begins >= 2  # noqa: PLR2004 - two braces
        firsts, lasts = self.data[begins[is_one]], self.data[ends[is_one] - 1]
        is_one[is_one] = (firsts == ord("{")) & (lasts == ord("}"))
        return np.flatnonzero(~is_one)

    def joined(self, rows: Places) -> bytes:
        """Return the texts of rows, a line break behind each."""
        view = self.data.data
        pairs = zip(self.begins[rows].tolist(), self.ends[rows].tolist(), strict=True)
        return b"\n".join([*(view[a:b] for a, b in pairs), b""])

    def text(self, row: int) -> bytes:
        """Return the text of a row."""
        return self.data[self.begins[row] : self.ends[row]].tobytes()


@dataclass(frozen=True, slots=True)
class Untaken:
    """Bodies are not taken at once.

    Attributes:
        rows: Those that hinder it, as far as anything says so; the others may be taken.
        has_doubles: Whether what hinders is an integer that is written as 5.0.
    """

    rows: tuple[int, ...] = ()
    has_doubles: bool = False


def columns_at_once(
    lines: bytes, count: int, fields: Sequence[JsonField], types: pa.Schema
) -> list[Column] | Untaken:
    """Return so many bodies as columns, if they are taken."""
    if not _is_utf8(lines):
        return Untaken()
    table = _read(lines, fields)
    if isinstance(table, Untaken):
        return table
    if table.num_rows != count or any(column.num_chunks != 1 for column in table.columns):
        return Untaken()
    columns, unfit, is_taken = [], set[int](), True
    for field, kind in zip(fields, types, strict=True):
        column = table.column(field.name).chunk(0)
        converted = None
        if field.is_nullable or not column.null_count:
            with suppress(pa.ArrowInvalid):
                converted = _converted(column, field, kind.type)
        if converted is None:
            is_taken = False
            unfit.update(_unfit_rows(column, field))
        else:
            columns.append(converted)
    return columns if is_taken else Untaken(tuple(sorted(unfit)))


def _is_utf8(lines: bytes) -> bool:
    edges = pa.py_buffer(np.array([0, len(lines)], np.int64).tobytes())
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, edges, pa.py_buffer(lines)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _read(lines: bytes, fields: Sequence[JsonField]) -> Any | Untaken:  # noqa: ANN401 - a table
    table = _read_as(lines, fields, frozenset())
    if not isinstance(table, Untaken) or not table.has_doubles:
        return table
    # Those that the first body writes so, if that is enough: a double has no large integer.
    ints = {field.name for field in fields if field.kind == "int"}
    first = _first_of(lines)
    doubles = frozenset(name for name in ints if type(first.get(name)) is float)
    if doubles:
        table = _read_as(lines, fields, doubles)
    if isinstance(table, Untaken) and table.has_doubles and doubles != ints:
        table = _read_as(lines, fields, frozenset(ints))
    return table


def _read_as(lines: bytes, fields: Sequence[JsonField], doubles: frozenset[str]) -> Any | Untaken:  # noqa: ANN401 - a table
    """Read bodies, and some of their integers as doubles."""
    # Who reads no JSON does without: it takes some milliseconds.
    import pyarrow.json as pj  # noqa: PLC0415

    first: Any = None
    schema = []
    for field in fields:
        kind = pa.float64() if field.name in doubles else _PLAIN.get(field.kind)
        if kind is None:
            first = _first_of(lines) if first is None else first
            written = first.get(field.name)
            if type(written) not in (str, int, type(None)):
                return Untaken((0,))
            kind = pa.int64() if type(written) is int else pa.string()
        schema.append(pa.field(field.name, kind))
    untyped: Any = pj
    try:
        return untyped.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(
                use_threads=False, block_size=max(len(lines), _BLOCK_BYTES_MIN)
            ),
            parse_options=untyped.ParseOptions(
                explicit_schema=pa.schema(schema), unexpected_field_behavior="error"
            ),
        )
    except pa.ArrowException as error:
        # NOTE: pyarrow (23) says of most of what it refuses in which row it is, from 0. That only
        # says which row to try apart.
        place = _IN_ROW.search(str(error))
        number = _NO_DIGITS.search(str(error))
        has_doubles = number is not None and _is_integer(number[1])
        return Untaken((int(place[1]),) if place else (), has_doubles)


def _is_integer(written: str) -> bool:
    try:
        return integer_or_none(float(written)) is not None
    except ValueError:
        return False


def _first_of(lines: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the first of some bodies, {} if it cannot be read so."""
    try:
        return json.JSONDecoder().raw_decode(lines.decode())[0]
    except (ValueError, RecursionError):
        return {}


def _converted(column: Column, field: JsonField, kind: pa.DataType) -> Column | None:
    if field.kind == "float":
        numbers = _compute.add(column, 0.0)
        finite = _compute.all(_compute.is_finite(numbers)).as_py()
        return None if finite is False else numbers
    if field.kind == "int" and pa.types.is_floating(column.type):
        return None if _compute.all(_are_integers(column)).as_py() is False else column.cast(kind)
    if field.kind == "string":
        # Escapes may have made what the bytes had not.
        column.validate(full=True)
    elif field.kind == "uuid":
        return _compute.ascii_lower(column) if _all_match(column, _UUID) else None
    elif field.kind == "enum":
        is_value = _compute.is_in(column, _untyped.array([*field.values, None], pa.string()))
        return column if _compute.all(is_value).as_py() is not False else None
    elif field.kind in ("timestamp", "date"):
        return _times(column, field.kind == "date", kind)
    return column


def _are_integers(column: Column) -> Column:
    is_whole = _compute.equal(_compute.floor(column), column)
    return _compute.and_(is_whole, _compute.less(_compute.abs(column), _EXACT_BELOW))


def _unfit_rows(column: Column, field: JsonField) -> list[int]:
    """Return rows whose value a field has not, as far as a look at all of them tells."""
    fits: Any = None
    if field.kind == "float":
        fits = _compute.is_finite(column)
    elif field.kind == "int" and pa.types.is_floating(column.type):
        fits = _are_integers(column)
    elif field.kind == "enum":
        fits = _compute.is_in(column, _untyped.array(field.values, pa.string()))
    elif field.kind in _PATTERNS and pa.types.is_string(column.type):
        fits = _compute.match_substring_regex(column, _PATTERNS[field.kind])
    is_there = column.is_valid()
    unfit = _compute.invert(is_there)
    if field.is_nullable:
        unfit = _compute.and_(unfit, False)  # noqa: FBT003 - of each row
    if fits is not None:
        differs = _compute.and_(is_there, _compute.invert(_compute.fill_null(fits, True)))  # noqa: FBT003
        unfit = _compute.or_(unfit, differs)
    rows: list[int] = np.flatnonzero(unfit.to_numpy(zero_copy_only=False)).tolist()
    return rows


def _times(column: Column, is_day: bool, kind: pa.DataType) -> Column | None:  # noqa: FBT001 - of two kinds
    if pa.types.is_integer(column.type):
        return _epochs(column, is_day, kind)
    if not _all_match(column, _DAY if is_day else _TIME):
        return None
    times = column.cast(kind)
    numbers = times.cast(pa.int32()).cast(pa.int64()) if is_day else times.cast(pa.int64())
    per_number = DAY_US if is_day else 1
    return times if _are_within(numbers, FIRST_US // per_number, LAST_US // per_number) else None


def _epochs(column: Column, is_day: bool, kind: pa.DataType) -> Column | None:  # noqa: FBT001
    written = column.fill_null(0).to_numpy(zero_copy_only=False)
    micros = written // 1000
    for below, factor in (
        (MICROSECONDS_BELOW, 1),
        (MILLISECONDS_BELOW, 1000),
        (SECONDS_BELOW, 10**6),
    ):
        is_below = (written < below) & (written > -below)
        micros = np.where(is_below, written * factor, micros)
    if len(micros) and not (micros.min() >= FIRST_US and micros.max() <= LAST_US):
        return None
    numbers = (micros // DAY_US).astype(np.int32) if is_day else micros
    mask = column.is_null().to_numpy(zero_copy_only=False)
    return _untyped.array(numbers, mask=mask).cast(kind)


def _all_match(column: Column, pattern: str) -> bool:
    matches = _compute.match_substring_regex(column, pattern)
    return _compute.all(matches).as_py() is not False


def _are_within(numbers: Column, first: int, last: int) -> bool:
    edges = _compute.min_max(numbers).as_py()
    return edges["min"] is None or first <= edges["min"] <= edges["max"] <= last
