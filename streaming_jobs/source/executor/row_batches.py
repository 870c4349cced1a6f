"""From stored batches to the batches that Spark is handed: whole columns, no loop over rows.

What has one value in every row is built once and sliced; integers are widened by Arrow; what
lies as Spark wants it is handed on. Small blocks, as quiet shards have them, are joined.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core import StreamReader, Unit
from storage_core.parts.visible_rows import NOT_EXPIRED, as_condition
from streaming_jobs.common.field_columns import CORRUPT_VALUE
from streaming_jobs.common.timestamps import as_timestamps
from streaming_jobs.source.requests import RowRules
from streaming_jobs.source.spark_columns import (
    arrow_schema,
    arrow_type,
    stored_columns,
)

if TYPE_CHECKING:
    # It loads the decoder, which queries of bytes do without.
    from streaming_jobs.source.executor.typed_values import TypedValues

# How many rows a joined batch has at least, and at most where it is made of several.
_JOINED: Final = (2048, 2**31)
# Values are decoded side by side, best as many at once as the decoder takes.
_JOINED_DECODED: Final = (8192, 8192)
_JOIN_BYTES: Final = 16 * 2**20
_CONSTANT_ROWS: Final = 2**12
_TIMESTAMP_TYPE_CREATED: Final = 0
_TIMESTAMP_TYPE_NONE: Final = -1
# Made once: for a Python number Arrow looks for other libraries' types at every call.
_NO_TIME: Final = pa.scalar(_TIMESTAMP_TYPE_NONE, pa.int8())
_CREATED: Final = pa.scalar(_TIMESTAMP_TYPE_CREATED, pa.int8())
_NO_TIME_TYPE: Final = pa.scalar(_TIMESTAMP_TYPE_NONE, pa.int32())
# What the store keeps in place of an id where no registry has the schema.
_NO_REGISTRY: Final = pa.scalar(0, pa.int32())
_STORED_NAMES: Final = {"value": "payload", "offset": "address"}

Array = Any
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What of a stream decides how its rows look.

    Attributes:
        topic: What stands in the column.
        unit: What primaries count.
        is_kafka: Whether rows are a topic's records, which have no time but their own.
        has_ids: Whether secondaries mean something outside their shard.
    """

    topic: str
    unit: Unit
    is_kafka: bool
    has_ids: bool

    @staticmethod
    def of(reader: StreamReader, stream: str) -> "StreamShape":
        """Return the shape of an open stream."""
        origin = reader.origin
        topic = stream if origin is None else origin.topic
        return StreamShape(topic, reader.options.unit, origin is not None, reader.has_ids)


class RowBatches:
    """Makes the rows of one shard as Spark wants them."""

    def __init__(
        self,
        shape: StreamShape,
        shard: int,
        rules: RowRules,
        values: "TypedValues | None" = None,
    ) -> None:
        """Decide what to read.

        Args:
            shape: The stream's.
            shard: The shard's number.
            rules: Which rows, and with which columns.
            values: Reads values by fields, where the rules ask for fields.
        """
        self._shape = shape
        self._shard = shard
        self._rules = rules
        self._schema = arrow_schema(rules.columns, rules.fields)
        self._values = None if values is None or not _reads_values(rules) else values
        self._same: dict[str, object] = {"topic": shape.topic, "partition": shard}
        hidden = [] if rules.has_expired else ["state"]
        hidden += [] if rules.has_late else ["late"]
        hidden += [] if rules.keys is None else ["key"]
        hidden += [] if self._values is None else self._values.stored
        stored = (*stored_columns(rules.columns, rules.fields), *hidden)
        self.stored = tuple(dict.fromkeys(name for name in stored if self._is_needed(name)))
        self._keys = None if rules.keys is None else pa.array(rules.keys, pa.binary())

    def _is_needed(self, name: str) -> bool:
        return name != "secondary" or self._shape.has_ids

    def of(self, stored: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield stored batches as Spark wants them, small ones joined."""
        for batch in _joined(stored, *(_JOINED if self._values is None else _JOINED_DECODED)):
            made = self._made(self._visible(batch))
            if made.num_rows:
                yield made

    def _visible(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the rules show."""
        mask: npt.NDArray[np.bool_] | None = None
        if not self._rules.has_expired:
            mask = as_condition(NOT_EXPIRED, lambda name: batch.column(name).to_numpy())
        if not self._rules.has_late:
            on_time = ~batch.column("late").to_numpy(zero_copy_only=False)
            mask = on_time if mask is None else mask & on_time
        if self._keys is not None:
            matches = _compute.is_in(batch.column("key"), value_set=self._keys)
            is_among = matches.to_numpy(zero_copy_only=False)
            mask = is_among if mask is None else mask & is_among
        return batch if mask is None or mask.all() else batch.filter(pa.array(mask))

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._values is None:
            arrays = [self._column(name, batch) for name in self._rules.columns]
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        values = self._values.of(batch)
        columns = dict(values.columns)
        if CORRUPT_VALUE in self._rules.columns:
            columns[CORRUPT_VALUE] = _where(values.unread, batch.column("payload"))
        arrays = [
            columns[name] if name in columns else self._column(name, batch)
            for name in self._rules.columns
        ]
        made = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if values.unread is None or not self._values.leaves_out:
            return made
        return made.filter(pa.array(~values.unread))

    def _column(self, name: str, batch: pa.RecordBatch) -> Array:
        if name in ("timestamp", "timestampType"):
            return self._time(name, batch)
        stored = _STORED_NAMES.get(name, name)
        if stored not in self.stored:
            return _constant(name, self._same.get(name), batch.num_rows)
        column: Array = batch.column(stored)
        if name == "schema_id":
            return _without(_NO_REGISTRY, column)
        kind = arrow_type(name)
        return column if column.type == kind else column.cast(kind)

    def _time(self, name: str, batch: pa.RecordBatch) -> Array:
        stamps, kinds = batch.column("timestamp"), batch.column("timestamp_type")
        if self._shape.is_kafka:
            return _stored_time(name, stamps, kinds)
        if stamps.null_count == len(stamps):
            return self._time_of_primary(name, batch)
        # Whoever wrote a timestamp without its kind meant the record's own.
        kinds = _compute.if_else(stamps.is_null(), kinds, _compute.fill_null(kinds, _CREATED))
        own = _stored_time(name, stamps, kinds)
        if stamps.null_count == 0:
            return own
        return _compute.if_else(stamps.is_null(), self._time_of_primary(name, batch), own)

    def _time_of_primary(self, name: str, batch: pa.RecordBatch) -> Array:
        """Return the time of rows that brought none: their primary, where that is a time."""
        if self._shape.unit == "sequence":
            value = None if name == "timestamp" else _TIMESTAMP_TYPE_NONE
            return _constant(name, value, batch.num_rows)
        if name == "timestampType":
            return _constant(name, _TIMESTAMP_TYPE_CREATED, batch.num_rows)
        return as_timestamps(batch.column("primary"), self._shape.unit)


def _reads_values(rules: RowRules) -> bool:
    """Tell whether a column says anything of values."""
    of_values = () if rules.fields is None else (*rules.fields.columns, CORRUPT_VALUE)
    return not set(of_values).isdisjoint(rules.columns)


def _where(rows: npt.NDArray[np.bool_] | None, column: Array) -> Array:
    """Return a column that is null but in some rows."""
    if rows is None:
        return _untyped.nulls(len(column), column.type)
    return _compute.if_else(pa.array(rows), column, pa.scalar(None, column.type))


def _stored_time(name: str, stamps: Array, kinds: Array) -> Array:
    if name == "timestampType":
        return _compute.fill_null(kinds.cast(pa.int32()), _NO_TIME_TYPE)
    return as_timestamps(_timestamps(stamps, kinds), "ms")


def _timestamps(stamps: Array, kinds: Array) -> Array:
    """Return timestamps, null where the record has none."""
    return _null_where(_compute.equal(kinds, _NO_TIME), stamps)


def _without(value: Array, column: Array) -> Array:
    """Return a column with null in place of a value."""
    return _null_where(_compute.equal(column, value), column)


def _null_where(rows: Array, column: Array) -> Array:
    if not _compute.any(rows).as_py():
        return column
    return _compute.if_else(rows, pa.scalar(None, column.type), column)


def _joined(
    stored: Iterable[pa.RecordBatch], rows_min: int, rows_max: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches, small ones as one: what is done to a batch costs more than its few rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in stored:
        if waiting and rows + batch.num_rows > rows_max:
            yield _as_one(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes if rows < rows_min else 0
        if rows >= rows_min or size >= _JOIN_BYTES:
            yield _as_one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    joined: pa.RecordBatch = batches[0] if len(batches) == 1 else _untyped.concat_batches(batches)
    return joined


def _constant(name: str, value: object, count: int) -> Array:
    """Return a column of one value: a slice of one that others share."""
    rows = max(_CONSTANT_ROWS, 1 << (count - 1).bit_length())
    return _repeated(name, value, rows).slice(0, count)


@lru_cache(maxsize=64)
def _repeated(name: str, value: object, count: int) -> Array:
    kind = arrow_type(name)
    if value is None:
        return _untyped.nulls(count, kind)
    return _untyped.repeat(pa.scalar(value, kind), count)
