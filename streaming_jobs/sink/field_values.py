"""The values of rows that bring fields: a schema's columns become what stands in `value` elsewhere.

Columns are named as the source shows fields (field_columns.py). A row all of whose fields are null
is a tombstone, as the source shows one. All others are written by the schema and framed by its id
in the registry, or without one as Avro's single objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, StructField, StructType

from storage_core import InvalidRequestError, SchemaEntry
from storage_core.avro import AvroSchema, encode_batch, frame_of
from streaming_jobs.common.field_columns import CORRUPT_VALUE, OWN_COLUMNS, fields_by_column
from streaming_jobs.common.spark_features import arrow_schema_of

VALUE: Final = "value"
CAME_FROM: Final = frozenset({"topic", "partition", "offset"})
# What the source shows of a row, and the sink leaves out: it is not the row's own to say.
LEFT_OUT: Final = CAME_FROM | {"late", "state", "schema_id"}
# What the store keeps in place of an id where no registry has the schema.
_NO_ID: Final = 0
_SCHEMAS_MAX: Final = 16
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class FieldValues:
    """How fields become values. A plain value, sent to tasks.

    Attributes:
        text: The schema.
        registry_id: Its id in a registry; None where it has none.
    """

    text: str
    registry_id: int | None

    @property
    def entry(self) -> SchemaEntry:
        """What is kept of the schema beside the rows."""
        identity = self._schema.identity
        return SchemaEntry(self.registry_id or _NO_ID, identity, self.text)

    @property
    def name(self) -> str:
        """The schema's name, for errors."""
        return self._schema.full_name

    def plain(self, schema: StructType) -> StructType:
        """Return the columns of rows whose fields have become values.

        Raises:
            InvalidRequestError: A column is none of the schema's and none of the log's, is of
                another type than its field, or one is missing that has no default.
        """
        of_fields = self._fields(schema.fieldNames())
        rest = [each for each in schema.fields if each.name not in of_fields]
        self._refuse_others([each.name for each in rest])
        if not of_fields:
            fields = ", ".join(fields_by_column(self._schema)) or "none"
            message = f"no column is a field of {self.name}, which has {fields}"
            raise InvalidRequestError(message)
        self._refuse_lost_fields(schema.fieldNames())
        arrow = arrow_schema_of(StructType([schema[name] for name in of_fields]))
        try:
            encode_batch(arrow.empty_table().rename_columns(list(of_fields.values())), self._schema)
        except InvalidRequestError as error:
            hints = [_hint(*each) for each in self._taken_by_the_log(schema.fieldNames())]
            if not hints:
                raise
            message = f"{error.message}; {'; '.join(hints)}"
            raise InvalidRequestError(message) from error
        return StructType([*rest, StructField(VALUE, BinaryType())])

    def valued(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with values in place of fields.

        Raises:
            InvalidRequestError: A value does not fit its field; the message names the row.
        """
        of_fields = self._fields(batch.schema.names)
        columns = [batch.column(name) for name in of_fields]
        rows = _untyped.RecordBatch.from_arrays(columns, names=list(of_fields.values()))
        has_fields = _any_valid(columns, batch.num_rows)
        frame = frame_of(self._schema, self.registry_id)
        values = encode_batch(rows, self._schema, valid=has_fields, frame=frame)
        rest = [name for name in batch.schema.names if name not in of_fields]
        made: pa.RecordBatch = _untyped.RecordBatch.from_arrays(
            [*(batch.column(name) for name in rest), values], names=[*rest, VALUE]
        )
        return made

    def numbers(self, values: Any) -> Any:  # noqa: ANN401 - Arrow arrays
        """Return which schema each value has: the one there is, or none where there is no value."""
        return _compute.if_else(
            values.is_valid(), _untyped.scalar(0, pa.int32()), _untyped.scalar(None, pa.int32())
        )

    @property
    def _schema(self) -> AvroSchema:
        return _parsed(self.text)

    def _fields(self, columns: Sequence[str]) -> dict[str, str]:
        """Return which of some columns are fields, and which fields those are."""
        by_column = fields_by_column(self._schema)
        return {name: by_column[name] for name in columns if name in by_column}

    def _taken_by_the_log(self, columns: Sequence[str]) -> list[tuple[str, str]]:
        """Return the fields without a column whose names columns of the log have, and their own."""
        return [
            (field, column)
            for column, field in fields_by_column(self._schema).items()
            if field in columns and column not in columns
        ]

    def _refuse_lost_fields(self, columns: Sequence[str]) -> None:
        """Refuse columns that would be left out where they are likely meant for fields."""
        for field, column in self._taken_by_the_log(columns):
            if field in LEFT_OUT:
                message = f"{_hint(field, column)}; or drop it, since it is left out"
                raise InvalidRequestError(message)

    def _refuse_others(self, names: Sequence[str]) -> None:
        name, fields = self.name, ", ".join(fields_by_column(self._schema))
        if CORRUPT_VALUE in names:
            message = (
                f"column {CORRUPT_VALUE!r} has values that could not be read, and nothing writes "
                f"them by fields: leave those rows out (where {CORRUPT_VALUE} is null), and drop it"
            )
            raise InvalidRequestError(message)
        if VALUE in names:
            message = (
                f"column {VALUE!r} is made of the fields of {name} with valueFormat=avro, and is "
                f"given too: drop it, or leave valueFormat out; fields are {fields}"
            )
            raise InvalidRequestError(message)
        if unknown := [each for each in names if each not in OWN_COLUMNS]:
            message = f"no field of {name} is the column {', '.join(unknown)}; there are {fields}"
            raise InvalidRequestError(message)


@lru_cache(maxsize=_SCHEMAS_MAX)
def _parsed(text: str) -> AvroSchema:
    return AvroSchema.parse(text)


def _hint(field: str, column: str) -> str:
    return f"column {field!r} is the log's own; that of the field {field} is {column!r}"


def _any_valid(columns: Sequence[Any], count: int) -> npt.NDArray[np.bool_]:
    """Return which rows have something in a column."""
    is_valid = np.zeros(count, np.bool_)
    for column in columns:
        if not column.null_count:
            return np.ones(count, np.bool_)
        is_valid |= column.is_valid().to_numpy(zero_copy_only=False)
    return is_valid
