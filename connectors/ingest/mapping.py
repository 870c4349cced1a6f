"""From Kafka's records to a shard's rows, in columns: no loop over records that are sound.

Records are mapped as they come, a call's worth at a time; most columns are handed on as they are.

    primary      the record's timestamp, its offset, or a field of an Avro value
    secondary    the key as a 4-byte big-endian integer, or a field of an Avro value; -1 where there
                 is none. In a stream with a key dictionary null: the shard has numbers of its own
                 for its keys
    schema       of Avro values, the number of the schema that wrote it; null of a tombstone
    payload      the value's bytes untouched; null is a tombstone, empty stays empty
    key, headers, timestamp, timestamp_type
                 as Kafka has them; timestamp_type in Java's numbers (-1, 0, 1)

A record that cannot become a row is a dead letter: kept raw under its own offset with the
reason, while its neighbours are stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.dlq.record import (
    KEY_BYTES,
    NO_TIMESTAMP_TYPE,
    dead_letter,
    encode_dead_letter,
)
from connectors.ingest.values.avro_values import (
    NO_SCHEMA,
    FramedValues,
    MappedValues,
    WriterSchema,
    map_values,
)
from connectors.kafka import Fetched, Partition
from connectors.kafka.terms import NULL_KEY_ID
from connectors.settings.stream_settings import MappingRules
from storage_core import HEADERS_TYPE, KEY_BYTES_MAX, InvalidRequestError

_BASE_FIELDS: Final[Any] = [
    pa.field("primary", pa.int64()),
    pa.field("secondary", pa.int32()),
    pa.field("payload", pa.binary()),
    pa.field("key", pa.binary()),
    pa.field("timestamp", pa.int64()),
    pa.field("timestamp_type", pa.int8()),
]
SCHEMA: Final = pa.schema(_BASE_FIELDS)
_SCHEMA_OF_AVRO: Final = SCHEMA.append(pa.field("schema", pa.int32()))
_HEADERS_FIELD: Final[Any] = pa.field("headers", HEADERS_TYPE)

# Of a row without the bytes of its key, payload and headers.
_ROW_BYTES: Final = 8 + 4 + 4 + 4 + 8 + 1

_untyped: Any = pa  # the stubs lack concat_batches
Offsets = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ShardRecords:
    """Records of one partition as its shard takes them, offsets ascending.

    Attributes:
        rows: What can be stored.
        offsets: The offset of each row.
        dead_letters: What cannot, raw, by offset.
        start: The offset of the first record, stored or not.
        end: The offset behind the last record, stored or not.
        epoch: The leader epoch of the last record.
        size: About how many bytes they are.
        schemas: The schemas that rows name in column `schema`, by number.
    """

    rows: pa.RecordBatch
    offsets: Offsets
    dead_letters: Mapping[int, bytes]
    start: int
    end: int
    epoch: int | None
    size: int
    schemas: Mapping[int, WriterSchema] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many records they are, stored or not."""
        return len(self.offsets) + len(self.dead_letters)


def map_partitions(
    fetched: Fetched,
    partitions: Iterable[Partition],
    rules: MappingRules,
    framed: FramedValues | None = None,
) -> Iterator[tuple[Partition, ShardRecords]]:
    """Yield partitions with their records, mapped in one pass over all that was fetched.

    Args:
        fetched: Records of these partitions, and of others.
        partitions: Those that are wanted.
        rules: How their records become rows.
        framed: What is known of their values, where rules say that they have schemas.
    """
    mapped = None
    if rules.value_format != "raw":
        assert framed is not None, "values of a format are framed"
        mapped = map_values(fetched, framed, rules)
    own_keys = fetched.keys
    if mapped is not None and mapped.keys is not None:
        fetched = replace(fetched, keys=mapped.keys)
    secondaries, is_refused = _secondaries(fetched.keys, rules)
    if mapped is not None and mapped.secondary is not None:
        secondaries = mapped.secondary
    is_refused |= _is_unfit(fetched, rules)
    faults: Mapping[int, str] = {} if mapped is None else mapped.faults
    is_refused[list(faults)] = True
    rows = _rows(fetched, secondaries, rules, mapped)
    # A dead letter is the record as it came.
    fetched = replace(fetched, keys=own_keys)
    key_bounds, value_bounds = _bounds(fetched.keys), _bounds(fetched.values)
    for partition in partitions:
        start, end = fetched.runs[partition]
        own, offsets = rows.slice(start, end - start), fetched.offsets[start:end]
        first, last = int(offsets[0]), int(offsets[-1])
        # NOTE: `nbytes` of a slice takes as long as to map it.
        size = int(value_bounds[end] - value_bounds[start] + key_bounds[end] - key_bounds[start])
        size += _ROW_BYTES * (end - start)
        if fetched.headers is not None:
            size += own.column("headers").nbytes
        dead: dict[int, bytes] = {}
        refused = is_refused[start:end]
        if refused.any():
            for row in (np.flatnonzero(refused) + start).tolist():
                dead_record = dead_letter(partition, fetched, row, rules, faults.get(row))
                dead[dead_record.offset] = encode_dead_letter(dead_record)
            accepted = np.flatnonzero(~refused)
            own, offsets = own.take(accepted), offsets[accepted]
            size = own.nbytes + sum(map(len, dead.values()))
        epoch = fetched.epochs[partition]
        schemas = {} if mapped is None else mapped.schemas
        yield partition, ShardRecords(own, offsets, dead, first, last + 1, epoch, size, schemas)


def join_records(parts: Sequence[ShardRecords]) -> ShardRecords:
    """Return parts of one partition as one, without what was fetched twice after going back."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: part.start)
    offsets = np.concatenate([part.offsets for part in parts])
    rows = concat_rows([part.rows for part in parts])
    dead = {offset: raw for part in parts for offset, raw in part.dead_letters.items()}
    last = max(parts, key=lambda part: part.end)
    if not (offsets[1:] > offsets[:-1]).all():
        before = np.maximum.accumulate(offsets)[:-1]
        first_times = np.flatnonzero(np.concatenate(([True], offsets[1:] > before)))
        rows, offsets = rows.take(first_times), offsets[first_times]
    size = sum(part.size for part in parts)
    schemas = {number: schema for part in parts for number, schema in part.schemas.items()}
    return ShardRecords(rows, offsets, dead, parts[0].start, last.end, last.epoch, size, schemas)


def concat_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; headers are a column where any of them has one.

    Raises:
        InvalidRequestError: They do not fit into one.
    """
    if len({batch.num_columns for batch in batches}) > 1:
        batches = [_with_headers(batch) for batch in batches]
    try:
        joined: pa.RecordBatch = _untyped.concat_batches(batches)
    except pa.ArrowInvalid as error:
        message = "a round has 2 GiB of one partition, more than a batch; lower round_bytes_max"
        raise InvalidRequestError(message) from error
    return joined


def _with_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    if "headers" in batch.schema.names:
        return batch
    nothing = pa.nulls(batch.num_rows, HEADERS_TYPE)
    schema = batch.schema.append(_HEADERS_FIELD)
    return pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=schema)


def _rows(
    fetched: Fetched,
    secondaries: npt.NDArray[np.int32],
    rules: MappingRules,
    mapped: MappedValues | None,
) -> pa.RecordBatch:
    timestamps = _numbers(fetched.timestamps)
    if mapped is not None and mapped.primary is not None:
        primary = _numbers(mapped.primary)
    else:
        primary = timestamps if rules.primary == "timestamp" else _numbers(fetched.offsets)
    columns: list[Any] = [
        primary,
        pa.nulls(len(secondaries), pa.int32())
        if rules.key_mode == "dictionary"
        else _numbers(secondaries),
        fetched.values,
        fetched.keys,
        timestamps,
        _numbers(fetched.kinds - np.int8(1)),
    ]
    schema = SCHEMA
    if mapped is not None:
        schema = _SCHEMA_OF_AVRO
        is_none = mapped.numbers == NO_SCHEMA
        numbers: Any = _numbers(mapped.numbers)
        columns.append(_untyped.array(mapped.numbers, mask=is_none) if is_none.any() else numbers)
    if fetched.headers is not None:
        columns.append(fetched.headers)
        schema = schema.append(_HEADERS_FIELD)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(values: Any) -> Any:  # noqa: ANN401 - a numpy array; an array of its type
    """Return numbers as a column, not copied.

    NOTE: `pa.array` of a numpy array imports numpy.ma, which is 50 ms of a worker's first round.
    """
    buffers = [None, pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def _is_unfit(fetched: Fetched, rules: MappingRules) -> _Mask:
    """Tell which records cannot become rows, whatever their keys are."""
    bounds = _bounds(fetched.values)
    unfit = bounds[1:] - bounds[:-1] > rules.payload_bytes_max
    if rules.primary == "timestamp":
        unfit |= fetched.kinds == NO_TIMESTAMP_TYPE
    if fetched.misnamed is not None:
        unfit |= fetched.misnamed
    return unfit


def _secondaries(keys: pa.BinaryArray, rules: MappingRules) -> tuple[npt.NDArray[np.int32], _Mask]:
    """Return each key's id, and which of the keys are poison."""
    count = len(keys)
    if rules.key_mode == "none":
        return np.full(count, NULL_KEY_ID, dtype=np.int32), np.zeros(count, dtype=np.bool_)
    bounds = _bounds(keys)
    starts = bounds[:-1]
    if rules.key_mode == "dictionary":
        is_refused = bounds[1:] - starts > KEY_BYTES_MAX
        if rules.null_key == "dead-letter" and keys.null_count:
            is_refused |= keys.is_null().to_numpy(zero_copy_only=False)
        return np.full(count, NULL_KEY_ID, dtype=np.int32), is_refused
    has_no_id = bounds[1:] - starts != KEY_BYTES
    if not has_no_id.any():
        packed = np.frombuffer(_buffers(keys)[2], ">i4", count, int(starts[0]))
        return packed.astype(np.int32), has_no_id
    ids = np.full(count, NULL_KEY_ID, dtype=np.int32)
    has_id = ~has_no_id
    if has_id.any():
        data = np.frombuffer(_buffers(keys)[2], dtype=np.uint8)
        packed = data[starts[has_id, np.newaxis] + np.arange(KEY_BYTES)].view(">i4")
        ids[has_id] = packed.ravel()
    if rules.null_key == "keep" and keys.null_count:
        has_no_id &= keys.is_valid().to_numpy(zero_copy_only=False)
    return ids, has_no_id


def _bounds(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where each value begins, and behind them where the last ends."""
    ends = np.frombuffer(_buffers(column)[1], dtype=np.int32)
    return ends[column.offset : column.offset + len(column) + 1]


def _buffers(column: pa.BinaryArray) -> list[Any]:
    return column.buffers()
