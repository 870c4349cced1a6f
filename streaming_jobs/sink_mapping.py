"""From a job's columns to a stream's rows: which schemas the sink takes, and what it makes of them.

    records    primary, secondary, value [, version]
    Kafka's    key (integers: 4 bytes, big-endian) -> secondary, timestamp -> primary, value
               [, headers]; topic, partition, offset and timestampType say where a record came
               from, and are left out

A value is binary or text, null is a tombstone. Numbers take any whole type that they fit into, a
timestamp the stream's unit. What would lose something is refused: schemas on the driver, values
in the task that meets them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from storage_core import InvalidRequestError
from streaming_jobs.sink_options import Unit

Form = Literal["records", "kafka"]
_FORMS: Final[dict[Form, tuple[frozenset[str], frozenset[str]]]] = {
    "records": (frozenset({"primary", "secondary", "value"}), frozenset({"version"})),
    "kafka": (
        frozenset({"key", "value", "timestamp"}),
        frozenset({"headers", "topic", "partition", "offset", "timestampType"}),
    ),
}
_WHOLE: Final = (IntegralType,)
_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "primary": (IntegralType, TimestampType),
    "secondary": _WHOLE,
    "version": _WHOLE,
    "value": (BinaryType, StringType),
    "key": (BinaryType, IntegralType),
    "timestamp": (TimestampType,),
    "headers": (ArrayType,),
}
_KEY: Final = pa.binary(4)
# Spark's timestamps count microseconds: what a coarser unit is cut to by Spark's date_trunc.
_CUTS: Final[dict[Unit, str]] = {"s": "second", "ms": "millisecond"}


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """How batches of one schema become rows of a stream."""

    form: Form
    unit: Unit
    has_version: bool = False
    has_headers: bool = False

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the columns of the log.

        Raises:
            InvalidRequestError: A value is null where it may not be, or does not fit. The
                message names the column.
        """
        is_kafka = self.form == "kafka"
        columns = {
            "primary": _checked(batch, self._primary, self._as_primary),
            "secondary": _checked(batch, "key", _as_secondary)
            if is_kafka
            else _checked(batch, "secondary", _unchanged),
            "payload": batch.column("value"),
        }
        if self.has_version:
            columns["version"] = _checked(batch, "version", _unchanged)
        if self.has_headers:
            columns["headers"] = batch.column("headers")
        return pa.RecordBatch.from_pydict(columns)

    @property
    def _primary(self) -> str:
        return "timestamp" if self.form == "kafka" else "primary"

    def _as_primary(self, column: Any) -> Any:  # noqa: ANN401 - an Arrow array of any type
        if not pa.types.is_timestamp(column.type):
            return column
        assert self.unit != "sequence", "mapping_of refuses it"
        try:
            times = pc.cast(column, pa.timestamp(self.unit, column.type.tz))
        except pa.ArrowInvalid as error:
            if self.unit not in _CUTS:
                raise
            message = (
                f"{error}; write to a stream made with unit=us, "
                f"or date_trunc('{_CUTS[self.unit]}', {self._primary})"
            )
            raise pa.ArrowInvalid(message) from error
        return pc.cast(times, pa.int64())


def mapping_of(schema: StructType, unit: Unit) -> ColumnMapping:
    """Return how rows of a schema are stored in a stream that counts in a unit.

    Raises:
        InvalidRequestError: The sink does not take such a schema.
    """
    names = schema.fieldNames()
    form = _form_of(names)
    for one in schema.fields:
        accepted = _TYPES.get(one.name)
        if accepted is not None and not isinstance(one.dataType, accepted):
            wanted = " or ".join(kind.typeName() for kind in accepted)
            wanted = wanted.replace("integral", "a whole number")
            message = f"column {one.name!r} is {one.dataType.simpleString()}; it must be {wanted}"
            raise InvalidRequestError(message)
        if one.name == "headers" and not _is_headers(one.dataType):
            message = (
                f"column 'headers' is {one.dataType.simpleString()}; it must be "
                "array<struct<key:string,value:binary>>"
            )
            raise InvalidRequestError(message)
        is_time = one.name in ("primary", "timestamp") and isinstance(one.dataType, TimestampType)
        if is_time and unit == "sequence":
            message = f"column {one.name!r} is a timestamp, and the stream counts a sequence"
            raise InvalidRequestError(message)
    return ColumnMapping(form, unit, "version" in names, form == "kafka" and "headers" in names)


def _is_headers(kind: DataType) -> bool:
    one = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(one, StructType) or sorted(one.names) != ["key", "value"]:
        return False
    is_text = isinstance(one["key"].dataType, StringType)
    return is_text and isinstance(one["value"].dataType, (BinaryType, StringType))


def _form_of(names: list[str]) -> Form:
    given = frozenset(names)
    if len(given) == len(names):
        for form, (required, optional) in _FORMS.items():
            if required <= given <= required | optional:
                return form
    message = (
        f"the sink takes columns primary, secondary, value [, version], or Kafka's key, value, "
        f"timestamp [, headers]; select those, not {', '.join(names)}"
    )
    raise InvalidRequestError(message)


def _checked(batch: pa.RecordBatch, name: str, convert: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - an Arrow array of any type
    column = batch.column(name)
    if column.null_count:
        message = f"column {name!r} holds nulls; each row needs one"
        raise InvalidRequestError(message)
    try:
        return convert(column)
    except pa.ArrowInvalid as error:
        message = f"column {name!r} does not fit the stream without loss: {error}"
        raise InvalidRequestError(message) from error


def _unchanged(column: Any) -> Any:  # noqa: ANN401 - an Arrow array of any type
    return column


def _as_secondary(column: Any) -> Any:  # noqa: ANN401 - an Arrow array of any type
    if pa.types.is_integer(column.type):
        return column
    if not len(column):
        return pa.array([], pa.int32())
    fixed = pc.cast(column, _KEY)
    numbers = np.frombuffer(
        fixed.buffers()[1], dtype=">i4", count=len(fixed), offset=4 * fixed.offset
    )
    return pa.array(numbers.astype(np.int32))
