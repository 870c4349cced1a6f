"""Payloads as Arrow columns, and as the bodies of a type's events.

Whole columns are judged: what types their values have, then what only some values of a type may
be. Where a column has a value that it may not, each payload is judged by itself (`fault_of`), and
the first that cannot be is named with its field. Both judge alike.

    int          an integer within 64 bits, 5.0 and 1e3 among them; no bool, no 1.5
    float        a number, as the nearest double; neither NaN nor infinite
    string       text
    bool         true or false
    uuid         hexadecimal digits as 8-4-4-4-12; kept in lower case
    timestamp    an ISO text or an epoch (language/times.py); kept in microseconds
    date         2024-05-17 or an epoch; kept in days
    enum         one of the values
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from storage_core.avro import encode_batch, frame_of, integer_or_none
from storage_core.platform.name_suggestions import did_you_mean, likely_name, listed_names
from typed_events.errors import CommandError
from typed_events.language.times import day_of, micros_of
from typed_events.types.event_type import CORE_FIELDS, EventType, FieldType

Payload = Mapping[str, object]
Column = Any  # the stubs want to know what an array holds

_UUID: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\Z"
)
_INT64_MAX: Final = 2**63 - 1
_SHOWN_MAX: Final = 40
_LISTED_MAX: Final = 10
_NONE: Final = type(None)
_untyped: Any = pa  # the stubs want to know what an array holds
# What a value of each kind may be in Python, and what is written in messages.
_PYTHON: Final[Mapping[str, tuple[frozenset[type], str]]] = {
    "int": (frozenset({int, float}), "an integer, such as 5"),
    "float": (frozenset({float, int}), "a number, such as 1.5"),
    "string": (frozenset({str}), "text in double quotes"),
    "bool": (frozenset({bool}), "true or false"),
    "uuid": (frozenset({str}), "a UUID such as 67e55044-10b1-426f-9247-bb680e5fe0c8"),
    "timestamp": (frozenset({str, int, float}), "a time"),
    "date": (frozenset({str, int, float}), "a date"),
    "enum": (frozenset({str}), "one of its values"),
}
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "uuid": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "enum": pa.string(),
}


class Fault(NamedTuple):
    """What is wrong with a payload; the field is empty for what has no name."""

    field: str
    reason: str


class PayloadError(CommandError):
    """A payload is not one of its type.

    Attributes:
        row: Which of the payloads.
        field: Which field.
        reason: What is wrong with it.
    """

    def __init__(self, row: int, fault: Fault, *, is_only: bool) -> None:
        where = "" if is_only else f"event {row + 1}: "
        super().__init__(f'{where}field "{fault.field}": {fault.reason}')
        self.row = row
        self.field = fault.field
        self.reason = fault.reason


def bodies_of(event_type: EventType, payloads: Sequence[Payload]) -> pa.BinaryArray:
    """Return payloads as Avro bodies in single-object encoding.

    Raises:
        PayloadError: One is not of the type; the first of them.
    """
    schema = event_type.schema
    return encode_batch(columns_of(event_type, payloads), schema, frame=frame_of(schema, None))


def columns_of(event_type: EventType, payloads: Sequence[Payload]) -> pa.RecordBatch:
    """Return payloads as columns, one a field.

    Raises:
        PayloadError: One is not of the type; the first of them.
    """
    names = [*event_type.fields]
    kinds = [*event_type.fields.values()]
    try:
        columns = [
            _column(kind, _values(name, kind, payloads))
            for name, kind in zip(names, kinds, strict=True)
        ]
        _check_no_others(event_type.fields, payloads)
    except (_UnfitError, CommandError, pa.ArrowInvalid, OverflowError, UnicodeError):
        raise _refused(event_type, payloads) from None
    schema = pa.schema(
        [pa.field(name, _ARROW[kind.kind]) for name, kind in event_type.fields.items()]
    )
    return cast("pa.RecordBatch", _untyped.RecordBatch.from_arrays(columns, schema=schema))


def fault_of(event_type: EventType, payload: Payload) -> Fault | None:
    """Return what is wrong with a payload; None if it is one of the type."""
    for name, kind in event_type.fields.items():
        value = payload.get(name)
        if value is None:
            if kind.is_nullable:
                continue
            return Fault(name, _absent(event_type, name, payload))
        if (reason := _why_not(kind, value)) is not None:
            return Fault(name, reason)
    others = [name for name in payload if name not in event_type.fields]
    if others:
        return Fault(others[0], _unknown(others[0], event_type))
    return None


class _UnfitError(Exception):
    """A column has a value that it may not have."""


def _values(name: str, kind: FieldType, payloads: Sequence[Payload]) -> list[Any]:
    try:
        return [payload[name] for payload in payloads]
    except KeyError:
        if not kind.is_nullable:
            raise _UnfitError from None
    return [payload.get(name) for payload in payloads]


def _check_no_others(fields: Mapping[str, FieldType], payloads: Sequence[Payload]) -> None:
    names = fields.keys()
    if sum(map(len, payloads)) == len(names) * len(payloads) and not any(
        kind.is_nullable for kind in fields.values()
    ):
        return  # each has each of them
    if not all(payload.keys() <= names for payload in payloads):
        raise _UnfitError


def _column(kind: FieldType, values: list[Any]) -> Column:
    types = set(map(type, values))
    if kind.is_nullable:
        types.discard(_NONE)
    if not types <= _PYTHON[kind.kind][0]:
        raise _UnfitError
    return _CONVERTERS[kind.kind](kind, values, types)


def _plain(kind: FieldType, values: list[Any], _: set[type]) -> Column:
    return pa.array(values, _ARROW[kind.kind])


def _ints(kind: FieldType, values: list[Any], types: set[type]) -> Column:
    if float in types:
        integers = [integer_or_none(value) for value in values]
        if integers.count(None) != values.count(None):
            raise _UnfitError
        values = integers
    return _plain(kind, values, types)


def _floats(_: FieldType, values: list[Any], types: set[type]) -> Column:
    if int in types:
        values = [None if value is None else float(value) for value in values]
    column = pa.array(values, pa.float64(), from_pandas=False)
    if not np.isfinite(_filled(column)).all():
        raise _UnfitError
    return column


def _filled(column: Column) -> Any:  # noqa: ANN401 - NumPy's array of any width
    return (column.fill_null(0) if column.null_count else column).to_numpy()


def _uuids(_: FieldType, values: list[Any], __: set[type]) -> Column:
    matches = _UUID.match
    if not all(value is None or matches(value) for value in values):
        raise _UnfitError
    return pa.array([value and value.lower() for value in values], pa.string())


def _enums(kind: FieldType, values: list[Any], _: set[type]) -> Column:
    if not set(values) <= {*kind.values, None}:
        raise _UnfitError
    return pa.array(values, pa.string())


def _times(kind: FieldType, values: list[Any], _: set[type]) -> Column:
    read = micros_of if kind.kind == "timestamp" else day_of
    width = pa.int64() if kind.kind == "timestamp" else pa.int32()
    numbers = [None if value is None else read(value) for value in values]
    return pa.array(numbers, width).cast(_ARROW[kind.kind])


_Converter = Callable[[FieldType, list[Any], set[type]], Column]
_CONVERTERS: Final[Mapping[str, _Converter]] = {
    "int": _ints,
    "float": _floats,
    "string": _plain,
    "bool": _plain,
    "uuid": _uuids,
    "timestamp": _times,
    "date": _times,
    "enum": _enums,
}


def _refused(event_type: EventType, payloads: Iterable[Payload]) -> PayloadError:
    payloads = [*payloads]
    for row, payload in enumerate(payloads):
        if (fault := fault_of(event_type, payload)) is not None:
            return PayloadError(row, fault, is_only=len(payloads) == 1)
    message = "a column was refused of which each value is right"
    raise AssertionError(message)


def _why_not(kind: FieldType, value: object) -> str | None:
    """Return why a value is none of a field's; None if it is."""
    if type(value) not in _PYTHON[kind.kind][0]:
        return f"{_excerpt(value)} is no {_called(kind)}; write {_wanted(kind)}"
    return _JUDGES[kind.kind](kind, value)


def _int_fault(kind: FieldType, value: Any) -> str | None:  # noqa: ANN401 - as are those below
    if integer_or_none(value) is not None:
        return None
    if type(value) is float:
        is_whole = value.is_integer()
        wanted = "it with all of its digits" if is_whole else _wanted(kind)
        return f"{_excerpt(value)} is no int; write {wanted}"
    return f"{_excerpt(value)} is beyond 64 bits: from {-_INT64_MAX - 1} to {_INT64_MAX}"


def _float_fault(_: FieldType, value: Any) -> str | None:  # noqa: ANN401
    try:
        is_finite = math.isfinite(float(value))
    except OverflowError:
        is_finite = False
    return None if is_finite else f"{_excerpt(value)} is no finite number"


def _string_fault(_: FieldType, value: Any) -> str | None:  # noqa: ANN401
    try:
        value.encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair is no character"
    return None


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID as fields take it, in either case."""
    return _UUID.match(text) is not None


def _uuid_fault(kind: FieldType, value: Any) -> str | None:  # noqa: ANN401
    if is_uuid(value):
        return None
    return f"{_excerpt(value)} is no uuid; write {_wanted(kind)}"


def _enum_fault(kind: FieldType, value: Any) -> str | None:  # noqa: ANN401
    if value in kind.values:
        return None
    meant = did_you_mean([value], kind.values)
    options = listed_names(kind.values, _LISTED_MAX)
    return f"{_excerpt(value)} is none of its values{meant}; there are {options}"


def _time_fault(kind: FieldType, value: Any) -> str | None:  # noqa: ANN401
    read = micros_of if kind.kind == "timestamp" else day_of
    try:
        read(value)
    except CommandError as error:
        return str(error)
    return None


def _bool_fault(_: FieldType, __: object) -> None:
    return None


_JUDGES: Final[Mapping[str, Callable[[FieldType, Any], str | None]]] = {
    "int": _int_fault,
    "float": _float_fault,
    "string": _string_fault,
    "bool": _bool_fault,
    "uuid": _uuid_fault,
    "timestamp": _time_fault,
    "date": _time_fault,
    "enum": _enum_fault,
}


def _absent(event_type: EventType, name: str, payload: Payload) -> str:
    wanted = _wanted(event_type.fields[name])
    if name in payload:
        return f"is null; write {wanted}"
    others = [other for other in payload if other not in event_type.fields]
    meant = likely_name(name, others)
    hint = f"; is {_excerpt(meant)} meant for it?" if meant else f"; write {wanted}"
    return f"is missing{hint}"


def _unknown(name: str, event_type: EventType) -> str:
    if name in CORE_FIELDS:
        return "every event has it already, and it cannot be set"
    meant = did_you_mean([name], event_type.fields)
    fields = listed_names(event_type.fields, _LISTED_MAX)
    return f'"{event_type.name}" has no such field{meant}; there are {fields}'


def _called(kind: FieldType) -> str:
    return "value of an enum" if kind.kind == "enum" else kind.kind


def _wanted(kind: FieldType) -> str:
    if kind.kind == "enum":
        return f"one of {listed_names(kind.values, _LISTED_MAX)}"
    return _PYTHON[kind.kind][1]


def _excerpt(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        text = value if value.isprintable() else ascii(value)[1:-1]
        return f'"{text[:_SHOWN_MAX]}…"' if len(text) > _SHOWN_MAX else f'"{text}"'
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN_MAX:
        return "a number of many digits"
    if isinstance(value, int | float):
        return str(value)
    return "an object" if isinstance(value, Mapping) else "a list"
