"""What Avro values tell of their rows: that each is what its schema says, its primary, its id.

Values are decoded by schema, those of one side by side, and only the fields that are asked for; any
others are passed over, which proves that they are there. What cannot be decoded or mapped is named,
and costs no neighbour.

    primary      a time in any of Avro's units, converted to the stream's, a coarser one downwards;
                 or a number as it is. Of a null value, a tombstone, the record's own timestamp
    secondary    an integer that fits 32 bits, or the bytes of a text or of bytes as the row's key;
                 of a null value, and of a null field, there is none
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.ingest.values.framing import Frames, SchemaName
from connectors.kafka import Fetched
from connectors.settings.stream_settings import MappingRules, TimeUnit
from storage_core import KEY_BYTES_MAX, InvalidRequestError
from storage_core.avro import AvroSchema, decode_batch

NO_SCHEMA: Final = -1
NO_ID: Final = -1
_PER_SECOND: Final[Mapping[str, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S: Final = 86_400
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_NO_TIMESTAMP: Final = 0

_compute: Any = pc  # the stubs want to know what an array holds
_untyped: Any = pa
_Rows = npt.NDArray[np.int64]
_Longs = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class WriterSchema:
    """A schema that values were written by.

    Attributes:
        number: What stands for it in this process.
        registry_id: Its id in the registry.
        schema: The schema.
        version: The version that its rows have: that of an event type.
    """

    number: int
    registry_id: int
    schema: AvroSchema
    version: int = 0


# Of each name that was asked for: its schema, or why there is none.
Answers = Mapping[SchemaName, WriterSchema | str]


@dataclass(frozen=True, slots=True)
class FramedValues:
    """The values of what was fetched, with what is known of their schemas.

    Attributes:
        frames: What stands before them.
        answers: What is known of each name.
        older: What values may be too that are not what their name says; the first that they are.
        reason_of: Says of a row why its value is not what its name says, better than who reads it.
    """

    frames: Frames
    answers: Answers
    older: Sequence[WriterSchema] = ()
    reason_of: Callable[[int], str | None] | None = None


@dataclass(frozen=True, slots=True)
class MappedValues:
    """What values tell of their rows.

    Attributes:
        numbers: The number of each value's schema; `NO_SCHEMA` where it has none.
        schemas: Those schemas, by number.
        primary: Where it comes from the value.
        secondary: Where it comes from the value and is an integer.
        keys: Where they come from the value.
        faults: Why values cannot be rows, by row.
    """

    numbers: npt.NDArray[np.int32]
    primary: _Longs | None
    secondary: npt.NDArray[np.int32] | None
    keys: Any | None
    faults: dict[int, str]
    schemas: Mapping[int, WriterSchema]


def map_values(fetched: Fetched, framed: FramedValues, rules: MappingRules) -> MappedValues:
    """Return what the values of records tell, those of each schema by itself."""
    count, frames = len(fetched.values), framed.frames
    mapped = _Mapped(rules, fetched, dict(frames.faults))
    numbers = np.full(count, NO_SCHEMA, np.int32)
    schemas: dict[int, WriterSchema] = {}
    for index, name in enumerate(frames.names):
        answer = framed.answers.get(name)
        chosen = frames.indices == index
        rows = np.arange(count) if chosen.all() else np.flatnonzero(chosen)
        if isinstance(answer, WriterSchema):
            mapped.reason_of = framed.reason_of
            for writer in (answer, *framed.older):
                numbers[rows] = writer.number
                schemas[writer.number] = writer
                rows = mapped.decode(writer.schema, rows, frames.starts)
                if not len(rows):
                    break
        elif answer is not None:
            mapped.faults.update(dict.fromkeys(rows.tolist(), f"unknown schema: {answer}"))
    mapped.map_tombstones()
    keys, faults = mapped.joined(), mapped.faults
    return MappedValues(numbers, mapped.primary, mapped.secondary, keys, faults, schemas)


def mapping_problem(schema: AvroSchema, rules: MappingRules) -> str | None:
    """Say why a schema's values cannot be mapped at all; None if they can."""
    try:
        wanted = _wanted(rules)
        types = schema.arrow_schema(wanted)
    except InvalidRequestError as error:
        return error.message
    if rules.primary_field and _scale(types.field(rules.primary_field).type, rules.unit) is None:
        kind = types.field(rules.primary_field).type
        return (
            f"field {rules.primary_field} of {schema.full_name} is {kind}; a primary is a "
            "timestamp, a date, a long or an int"
        )
    if rules.secondary_field:
        kind = types.field(rules.secondary_field).type
        has_keys = rules.key_mode == "dictionary"
        if not (_is_text(kind) if has_keys else _is_integer(kind)):
            fitting = 'string or bytes with key_mode = "dictionary"'
            if not has_keys:
                fitting = f"int or long; {fitting}"
            return (
                f"field {rules.secondary_field} of {schema.full_name} is {kind}; an id is {fitting}"
            )
    return None


class _Mapped:
    """What is found, a schema at a time."""

    def __init__(self, rules: MappingRules, fetched: Fetched, faults: dict[int, str]) -> None:
        count = len(fetched.values)
        self._rules = rules
        self._fetched = fetched
        self._keys: list[tuple[_Rows, Any]] = []
        self.faults = faults
        self.reason_of: Callable[[int], str | None] | None = None
        self.primary = np.zeros(count, np.int64) if rules.primary_field else None
        has_ids = rules.secondary_field is not None and rules.key_mode != "dictionary"
        self.secondary = np.full(count, NO_ID, np.int32) if has_ids else None

    def decode(self, schema: AvroSchema, rows: _Rows, starts: npt.NDArray[np.int32]) -> _Rows:
        """Decode the values of some rows, all of one schema; return those that are not of it.

        Rows that another schema was tried on before keep the reason that it gave.
        """
        before = {row: self.faults.pop(row) for row in rows.tolist() if row in self.faults}
        complaint = mapping_problem(schema, self._rules)
        if complaint is not None:
            self.faults.update(dict.fromkeys(rows.tolist(), f"mapping: {complaint}") | before)
            return rows
        is_all = len(rows) == len(self._fetched.values)
        bodies: Any = self._fetched.values
        if not is_all:
            bodies = bodies.take(pa.array(rows))
        decoded = decode_batch(
            bodies,
            schema,
            columns=_wanted(self._rules),
            starts=(starts if is_all else starts[rows]).astype(np.int64),
        )
        is_read = np.ones(len(rows), np.bool_)
        for fault in decoded.faults:
            is_read[fault.row] = False
            row = int(rows[fault.row])
            if row in before:
                self.faults[row] = before[row]
                continue
            reason = self.reason_of(row) if self.reason_of is not None else None
            self.faults[row] = f"body: {schema.full_name}: {reason or fault.reason}"
        if self.primary is not None:
            column = _column_of(decoded.table, self._rules.primary_field)
            self.primary[rows] = self._numbers(
                column, rows, is_read, self._rules.primary_field or "", self._rules.unit
            )
        if self._rules.secondary_field is not None:
            self._map_ids(_column_of(decoded.table, self._rules.secondary_field), rows, is_read)
        return rows[~is_read]

    def _numbers(
        self,
        column: Any,  # noqa: ANN401 - an array of any type
        rows: _Rows,
        is_read: _Mask,
        field: str,
        unit: TimeUnit,
    ) -> _Longs:
        """Return primaries of a column; where there are none is noted."""
        scale = _scale(column.type, unit)
        assert scale is not None, "the schema was looked at"
        times, per = scale
        usable = is_read
        if column.null_count:
            is_there = column.is_valid().to_numpy(zero_copy_only=False)
            self._note(rows, is_read & ~is_there, lambda _row: f"field {field} is null")
            usable = is_read & is_there
        wide = pa.int64() if column.type.bit_width == 64 else pa.int32()  # noqa: PLR2004 - of a long
        plain = column.view(wide).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if times > 1:
            most = _INT64_MAX // times
            too_far = usable & ((plain > most) | (plain < -most))
            self._note(
                rows, too_far, lambda row: f"field {field} is {plain[row]}, beyond any {unit}"
            )
            plain = np.where(too_far, 0, plain)
        primaries: _Longs = plain * times // per
        return primaries

    def _map_ids(self, column: Any, rows: _Rows, is_read: _Mask) -> None:  # noqa: ANN401
        field = self._rules.secondary_field
        if column.null_count:
            is_there = column.is_valid().to_numpy(zero_copy_only=False)
            if self._rules.null_key == "dead-letter":
                why = f"field {field} is null, and null_key is dead-letter"
                self._note(rows, is_read & ~is_there, lambda _row: why)
        else:
            is_there = is_read
        if self.secondary is None:
            sizes = _compute.fill_null(_compute.binary_length(column), 0)
            sizes = sizes.to_numpy(zero_copy_only=False)
            self._note(
                rows,
                is_read & (sizes > KEY_BYTES_MAX),
                lambda row: (
                    f"field {field} has {sizes[row]} bytes; a key has {KEY_BYTES_MAX} at most"
                ),
            )
            self._keys.append((rows, column.cast(pa.binary())))
            return
        ids = _compute.fill_null(column, NO_ID).to_numpy(zero_copy_only=False)
        if ids.dtype != np.int32:
            unfit = is_read & is_there & ((ids > _INT32_MAX) | (ids < -_INT32_MAX - 1))
            self._note(rows, unfit, lambda row: f"field {field} is {ids[row]}; an id fits 32 bits")
            ids = np.where(unfit, NO_ID, ids)
        self.secondary[rows] = ids

    def map_tombstones(self) -> None:
        """Give null values the record's own time, and no id."""
        values: Any = self._fetched.values
        if not values.null_count:
            return
        rows = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
        if self._rules.secondary_field and self._rules.null_key == "dead-letter":
            why = f"a tombstone has no field {self._rules.secondary_field}; null_key is dead-letter"
            self._note(rows, np.ones(len(rows), np.bool_), lambda _at: why)
        if self.primary is None:
            return
        unit = self._rules.unit
        per_second = _PER_SECOND.get(unit)
        is_timeless = self._fetched.kinds[rows] == _NO_TIMESTAMP
        if per_second is None:
            is_timeless[:] = True
        why = f"a tombstone has no field {self._rules.primary_field}, nor a timestamp instead"
        self._note(rows, is_timeless, lambda _at: why)
        stamps = np.where(is_timeless, 0, self._fetched.timestamps[rows])
        self.primary[rows] = stamps * (per_second or 1000) // 1000

    def joined(self) -> Any | None:  # noqa: ANN401 - an array of binary
        """Return the key of each row, where they come from values."""
        if self._rules.secondary_field is None or self.secondary is not None:
            return None
        count = len(self._fetched.values)
        if len(self._keys) == 1 and len(self._keys[0][0]) == count:
            return self._keys[0][1]
        where = np.full(count, -1, np.int64)
        first, columns = 0, [pa.array([], pa.binary())]
        for rows, column in self._keys:
            where[rows] = np.arange(first, first + len(rows))
            columns.append(column)
            first += len(rows)
        positions = _untyped.array(where, mask=where < 0)
        return _untyped.concat_arrays(columns).take(positions)

    def _note(self, rows: _Rows, chosen: _Mask, why: Callable[[int], str]) -> None:
        for row in np.flatnonzero(chosen).tolist():
            self.faults.setdefault(int(rows[row]), f"mapping: {why(row)}")


def _wanted(rules: MappingRules) -> Sequence[str]:
    return [name for name in (rules.primary_field, rules.secondary_field) if name is not None]


def _column_of(table: pa.Table, name: str | None) -> Any:  # noqa: ANN401 - an array of any type
    column: Any = table.column(name or "")
    return column.chunk(0) if column.num_chunks == 1 else _untyped.concat_arrays(column.chunks)


def _scale(kind: pa.DataType, unit: TimeUnit) -> tuple[int, int] | None:
    """Return by what to multiply and then divide numbers of a type; None if it has none."""
    if _is_integer(kind):
        return 1, 1
    to = _PER_SECOND.get(unit)
    if pa.types.is_timestamp(kind):
        # As they are in a sequence, which has no time.
        own = _PER_SECOND[kind.unit]
        return (1, 1) if to is None else (max(to // own, 1), max(own // to, 1))
    if pa.types.is_date32(kind):
        return (1, 1) if to is None else (_DAY_S * to, 1)
    return None


def _is_integer(kind: pa.DataType) -> bool:
    return kind in (pa.int32(), pa.int64())


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)
