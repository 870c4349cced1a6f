"""From a job's columns to a stream's rows: which schemas the sink takes, and what it makes of them.

    records    primary, secondary, value [, version] [, key, headers, timestamp, timestampType],
               which are kept beside
    Kafka's    key (integers: 4 bytes, big-endian) -> secondary, timestamp -> primary, value
               [, headers, timestampType]; without timestamp the time of writing is the primary

Into a stream with a key dictionary rows bring the key that they belong to, binary or text, null for
none: `records` are primary, key, value there, and a secondary, as the source shows it, is null.

With valueFormat=avro the fields of a schema stand in place of value (field_values.py).

topic, partition, offset, late, state and schema_id say where a row came from or stood, and are
left out: what the source shows is taken as it comes. A value is binary or text, null is a
tombstone. Numbers take any whole type that they fit into, a timestamp the stream's unit. What
would lose something is refused: schemas on the driver, values in the task that meets them.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from storage_core import InvalidRequestError, SchemaEntry, Unit
from streaming_jobs.sink.field_values import CAME_FROM, LEFT_OUT, FieldValues
from streaming_jobs.sink.values import (
    as_headers,
    as_secondary,
    as_time,
    checked,
    fitted,
    now_in,
    own_times,
)

Form = Literal["records", "kafka"]
_FORMS: Final[dict[Form, tuple[frozenset[str], frozenset[str]]]] = {
    "records": (
        frozenset({"primary", "secondary", "value"}),
        frozenset({"version", "key", "headers", "timestamp", "timestampType"}) | LEFT_OUT,
    ),
    "kafka": (
        frozenset({"key", "value"}),
        frozenset({"timestamp", "timestampType", "headers"}) | CAME_FROM,
    ),
}
_RECORDS_WITH_KEYS: Final = (
    frozenset({"primary", "key", "value"}),
    (_FORMS["records"][1] - {"key"}) | {"secondary"},
)
_WHOLE: Final = (IntegralType,)
_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "primary": (IntegralType, TimestampType),
    "secondary": _WHOLE,
    "version": _WHOLE,
    "value": (BinaryType, StringType),
    "key": (BinaryType, StringType, IntegralType),
    "timestamp": (TimestampType,),
    "timestampType": _WHOLE,
    "headers": (ArrayType,),
}


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """How batches of one schema become rows of a stream.

    Attributes:
        form: Which columns say id and time.
        unit: What the stream's primaries count.
        carried: What else of the batch is stored.
        has_time: Whether rows bring their primary; else it is the time of writing.
        has_keys: Whether rows belong to keys, and not to secondaries.
        fields: How fields become values; None where rows bring values.
    """

    form: Form
    unit: Unit
    carried: frozenset[str] = frozenset()
    has_time: bool = True
    has_keys: bool = False
    fields: FieldValues | None = None

    @property
    def schemas(self) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have."""
        return () if self.fields is None else (self.fields.entry,)

    def valued(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch whose rows have values.

        Raises:
            InvalidRequestError: A value does not fit its field; the message names the row.
        """
        return batch if self.fields is None else self.fields.valued(batch)

    def taken(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of which something is stored."""
        place = {"key", "timestamp"} if self.form == "kafka" else {"primary", "secondary"}
        wanted = place | {"value"} | self.carried
        wanted |= {"timestampType"} if "timestamp" in self.carried else set()
        return batch.select([name for name in batch.schema.names if name in wanted])

    def rows(self, batch: pa.RecordBatch, now_ns: int) -> pa.RecordBatch:
        """Return a batch with the columns of the log.

        Raises:
            InvalidRequestError: A value is null where it may not be, or does not fit. The
                message names the column.
        """
        primary = self._primary(batch, now_ns)
        columns = {"primary": primary}
        if not self.has_keys:
            is_kafka = self.form == "kafka"
            columns["secondary"] = (
                checked(batch, "key", as_secondary) if is_kafka else checked(batch, "secondary")
            )
        elif "secondary" in batch.schema.names:
            # The log refuses one that is not null.
            columns["secondary"] = batch.column("secondary")
        columns["payload"] = batch.column("value")
        if self.fields is not None:
            columns["schema"] = self.fields.numbers(columns["payload"])
        if "version" in self.carried:
            columns["version"] = checked(batch, "version")
        if "key" in self.carried:
            columns["key"] = batch.column("key")
        if "headers" in self.carried:
            columns["headers"] = fitted(batch, "headers", as_headers)
        if "timestamp" in self.carried:
            columns["timestamp"], columns["timestamp_type"] = own_times(batch, primary, self.unit)
        return pa.RecordBatch.from_pydict(columns)

    def _primary(self, batch: pa.RecordBatch, now_ns: int) -> Any:  # noqa: ANN401 - an Arrow array
        if not self.has_time:
            return now_in(self.unit, now_ns, batch.num_rows)
        name = "timestamp" if self.form == "kafka" else "primary"
        return checked(batch, name, as_time(name, self.unit))


def mapping_of(
    schema: StructType, unit: Unit, *, has_keys: bool = False, fields: FieldValues | None = None
) -> ColumnMapping:
    """Return how rows of a schema are stored in a stream that counts in a unit.

    With `has_keys` the stream has a key dictionary; with `fields` these are columns of their own.
    """
    columns = schema.fieldNames()
    if fields is not None:
        schema = fields.plain(schema)
    names = schema.fieldNames()
    form = _form_of(names, has_keys=has_keys)
    if form is None:
        value = "value" if fields is None else f"the fields of {fields.name}"
        raise _no_form(columns, value, has_keys=has_keys)
    for field in schema.fields:
        accepted = _TYPES.get(field.name)
        if accepted is not None and not isinstance(field.dataType, accepted):
            wanted = " or ".join(kind.typeName() for kind in accepted)
            wanted = wanted.replace("integral", "a whole number")
            message = (
                f"column {field.name!r} is {field.dataType.simpleString()}; it must be {wanted}"
            )
            raise InvalidRequestError(message)
        if field.name == "headers" and not _is_headers(field.dataType):
            message = (
                f"column 'headers' is {field.dataType.simpleString()}; it must be "
                "array<struct<key:string,value:binary>>"
            )
            raise InvalidRequestError(message)
        holds_primary = field.name == ("timestamp" if form == "kafka" else "primary")
        is_time = holds_primary and isinstance(field.dataType, TimestampType)
        if is_time and unit == "sequence":
            message = f"column {field.name!r} is a timestamp, and the stream counts a sequence"
            raise InvalidRequestError(message)
        _refuse_key(form, field.name, field.dataType, has_keys=has_keys)
    has_time = form == "records" or "timestamp" in names
    if not has_time and unit == "sequence":
        message = (
            "the stream counts a sequence, so that rows without a primary have no place in it; "
            "select primary, secondary, value"
        )
        raise InvalidRequestError(message)
    return ColumnMapping(form, unit, _carried(form, schema), has_time, has_keys, fields)


def _carried(form: Form, schema: StructType) -> frozenset[str]:
    """Return the columns that are stored beside primary, secondary and value."""
    names = frozenset(schema.fieldNames())
    carried = names & {"version", "headers"}
    if "key" in names and not isinstance(schema["key"].dataType, IntegralType):
        carried |= {"key"}
    # Kafka's time is the primary, and is kept beside it only where its kind has to be.
    if "timestamp" in names and (form == "records" or "timestampType" in names):
        carried |= {"timestamp"}
    return carried


def _refuse_key(form: Form, name: str, kind: DataType, *, has_keys: bool) -> None:
    if name != "key":
        return
    if has_keys:
        if isinstance(kind, IntegralType):
            message = (
                f"column 'key' is {kind.simpleString()}; in a stream with a key dictionary it must "
                "be binary or string: cast it to string"
            )
            raise InvalidRequestError(message)
        return
    if form == "kafka" and isinstance(kind, StringType):
        message = (
            "column 'key' is string, and this stream knows integer ids only: make it with option "
            "keyMode=dictionary, cast the key to int, or select primary, secondary, value and the "
            "key beside them"
        )
        raise InvalidRequestError(message)
    if form == "records" and isinstance(kind, IntegralType):
        message = (
            f"column 'key' is {kind.simpleString()}; beside primary and secondary it must be "
            "binary or string"
        )
        raise InvalidRequestError(message)


def _is_headers(kind: DataType) -> bool:
    element = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(element, StructType) or sorted(element.names) != ["key", "value"]:
        return False
    is_text = isinstance(element["key"].dataType, StringType)
    return is_text and isinstance(element["value"].dataType, (BinaryType, StringType))


def _form_of(names: list[str], *, has_keys: bool) -> Form | None:
    columns = frozenset(names)
    forms = _FORMS | {"records": _RECORDS_WITH_KEYS} if has_keys else _FORMS
    if len(columns) == len(names):
        for form, (required, optional) in forms.items():
            if required <= columns <= required | optional:
                return form
    return None


def _no_form(columns: list[str], value: str, *, has_keys: bool) -> InvalidRequestError:
    own = f"key, {value} [, version" if has_keys else f"secondary, {value} [, version, key"
    message = (
        f"the sink takes columns primary, {own}, headers, timestamp], "
        f"or Kafka's key, {value} [, timestamp, headers]; select those, not {', '.join(columns)}"
    )
    return InvalidRequestError(message)
