"""From Kafka's records to a shard's rows, in columns: one pass a field, no loop over records.

Records are mapped as they come, a call's worth at a time, while they lie in the processor's
caches; what gathers for a round are columns.

    primary      the record's timestamp, or its offset
    secondary    the key as a 4-byte big-endian integer; -1 where there is none
    payload      the value's bytes untouched; null is a tombstone, empty stays empty
    key, headers, timestamp, timestamp_type
                 as Kafka has them; timestamp_type in Java's numbers (-1, 0, 1)

A record that cannot become a row is a dead letter: kept raw under its own offset with the
reason, while its neighbours are stored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.ingest.dead_letter import (
    KEY_BYTES,
    MISNAMED,
    NO_TIMESTAMP_TYPE,
    encode_dead_letter,
    reason_for,
)
from connectors.kafka_client import FIELDS, Headers, Messages, Partition
from connectors.settings.stream_settings import MappingRules
from storage_core import HEADERS_TYPE

# The id of records without a key.
NULL_KEY_ID: Final = -1
# More does not fit the offsets of an Arrow column.
_COLUMN_BYTES_MAX: Final = 2**31 - 1
_KIND: Final = itemgetter(0)
_TIMESTAMP: Final = itemgetter(1)

_BASE_FIELDS: Final[Any] = [
    pa.field("primary", pa.int64()),
    pa.field("secondary", pa.int32()),
    pa.field("payload", pa.binary()),
    pa.field("key", pa.binary()),
    pa.field("timestamp", pa.int64()),
    pa.field("timestamp_type", pa.int8()),
]
SCHEMA: Final = pa.schema(_BASE_FIELDS)
_SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", HEADERS_TYPE))

Offsets = npt.NDArray[np.int64]


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
    """

    rows: pa.RecordBatch
    offsets: Offsets
    dead_letters: Mapping[int, bytes]
    start: int
    end: int
    epoch: int | None

    @property
    def count(self) -> int:
        """How many records they are, stored or not."""
        return len(self.offsets) + len(self.dead_letters)


def map_partitions(
    partitions: Mapping[Partition, Messages], rules: MappingRules
) -> Iterator[tuple[Partition, ShardRecords]]:
    """Yield each partition with its records, mapped in one pass over those of all of them.

    Args:
        partitions: Their records, at least one each, in order.
        rules: How they become rows.
    """
    ordered = list(chain.from_iterable(partitions.values()))
    offsets = np.concatenate([_offsets(own) for own in partitions.values()])
    columns = _Columns(ordered, rules, offsets)
    start = 0
    for partition, own in partitions.items():
        end = start + len(own)
        yield partition, columns.records(start, end)
        start = end


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
        kept = np.flatnonzero(np.concatenate(([True], offsets[1:] > before)))
        rows, offsets = rows.take(kept), offsets[kept]
    return ShardRecords(rows, offsets, dead, parts[0].start, last.end, last.epoch)


def concat_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; headers are a column where any of them has one."""
    if len({batch.num_columns for batch in batches}) > 1:
        batches = [_with_headers(batch) for batch in batches]
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined[0] if joined else batches[0]


def _with_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    if "headers" in batch.schema.names:
        return batch
    nothing = pa.nulls(batch.num_rows, HEADERS_TYPE)
    return pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=_SCHEMA_WITH_HEADERS)


def by_partition(messages: Messages, topic: str | None) -> dict[Partition, Messages]:
    """Return each partition's messages, in their order.

    Kafka sends batches of one partition, so messages are taken a run at a time.
    """
    numbers = np.fromiter(map(FIELDS.partition, messages), np.int64, len(messages))
    names = [topic] if topic is not None else sorted(set(map(FIELDS.topic, messages)))
    if len(names) > 1:
        index = {name: at << 32 for at, name in enumerate(names)}
        topics = map(index.__getitem__, map(FIELDS.topic, messages))
        numbers += np.fromiter(topics, np.int64, len(messages))
    cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
    found: dict[int, Messages] = {}
    for start, end in pairwise([0, *cuts, len(messages)]):
        found.setdefault(int(numbers[start]), []).extend(messages[start:end])
    return {Partition(names[code >> 32], code & 0xFFFFFFFF): own for code, own in found.items()}


def _offsets(messages: Messages) -> Offsets:
    """Return the offset of each record of a partition.

    Offsets rise, so where the last is as far from the first as there are records, none has to
    be asked.
    """
    first, last = FIELDS.offset(messages[0]), FIELDS.offset(messages[-1])
    if last - first + 1 == len(messages):
        return np.arange(first, last + 1)
    return np.fromiter(map(FIELDS.offset, messages), np.int64, len(messages))


class _Columns:
    """Records of any partitions in columns, those of a partition side by side."""

    def __init__(self, messages: Messages, rules: MappingRules, offsets: Offsets) -> None:
        count = len(messages)
        self._messages, self._rules, self._offsets = messages, rules, offsets
        stamps = list(map(FIELDS.timestamp, messages))
        timestamps = pa.array(np.fromiter(map(_TIMESTAMP, stamps), np.int64, count))
        kinds = _kinds(stamps)
        secondaries, key, refused = _keys(list(map(FIELDS.key, messages)), rules)
        if rules.primary == "timestamp":
            refused |= kinds == NO_TIMESTAMP_TYPE
        headers, has_misnamed = _headers(messages)
        self._headers, has_headers = headers, any(headers)
        if has_misnamed:
            refused |= np.fromiter((each is MISNAMED for each in headers), np.bool_, count)
        # Values come last: being copied, large ones leave nothing else in the processor's caches.
        payload, sizes = _binary(list(map(FIELDS.value, messages)))
        if int(sizes.max()) > rules.payload_bytes_max:
            refused |= sizes > rules.payload_bytes_max
        self._is_refused = refused
        columns = [
            timestamps if rules.primary == "timestamp" else pa.array(self._offsets),
            pa.array(secondaries),
            payload,
            key,
            timestamps,
            pa.array(kinds - np.int8(1)),
        ]
        schema = SCHEMA
        if has_headers:
            columns.append(pa.array(headers, HEADERS_TYPE))
            schema = _SCHEMA_WITH_HEADERS
        self._rows = pa.RecordBatch.from_arrays(columns, schema=schema)

    def records(self, start: int, end: int) -> ShardRecords:
        """Return a partition's records, those refused as dead letters."""
        offsets, rows = self._offsets[start:end], self._rows.slice(start, end - start)
        first, last = int(offsets[0]), int(offsets[-1])
        refused = self._is_refused[start:end]
        dead: dict[int, bytes] = {}
        if refused.any():
            dead = dict(map(self._dead_letter, (np.flatnonzero(refused) + start).tolist()))
            kept = np.flatnonzero(~refused)
            rows, offsets = rows.take(kept), offsets[kept]
        epoch = FIELDS.epoch(self._messages[end - 1])
        return ShardRecords(rows, offsets, dead, first, last + 1, epoch)

    def _dead_letter(self, at: int) -> tuple[int, bytes]:
        message, headers = self._messages[at], self._headers[at]
        reason = reason_for(message, headers, self._rules)
        return int(self._offsets[at]), encode_dead_letter(message, headers, reason)


def _binary(values: list[bytes | None]) -> tuple[Any, npt.NDArray[np.int32]]:
    """Return values as a column, copied once, and the size of each; a null's is 0."""
    joined = _joined(values)
    if joined is None or len(joined) > _COLUMN_BYTES_MAX:
        column: Any = pa.array(values, pa.binary())
        offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
        return column, np.diff(offsets[: len(values) + 1])
    sizes = np.fromiter(map(len, values), np.int32, len(values))  # type: ignore[arg-type]  # no null is left
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers), sizes


def _headers(messages: Messages) -> tuple[list[Headers | None], bool]:
    """Return each record's headers, `MISNAMED` where a name is no UTF-8; and whether any is.

    NOTE: confluent-kafka (2.16) raises on such a name the first time it is asked, and answers
    with a broken list from then on: no record is asked twice.
    """
    found: list[Headers | None] = []
    has_misnamed = False
    while len(found) < len(messages):
        try:
            found.extend(map(FIELDS.headers, messages[len(found) :]))
        except (SystemError, UnicodeDecodeError):
            # What came before it is in the list.
            found.append(MISNAMED)
            has_misnamed = True
    return found, has_misnamed


def _kinds(stamps: list[tuple[int, int]]) -> npt.NDArray[np.int8]:
    """Return the kind of each timestamp; a topic mostly has one."""
    present = set(map(_KIND, stamps))
    if len(present) == 1:
        return np.full(len(stamps), present.pop(), dtype=np.int8)
    return np.fromiter(map(_KIND, stamps), np.int8, len(stamps))


def _keys(
    keys: list[bytes | None], rules: MappingRules
) -> tuple[npt.NDArray[np.int32], Any, npt.NDArray[np.bool_]]:
    """Return each key's id, the keys as a column, and which of them are poison."""
    count = len(keys)
    refused = np.zeros(count, dtype=np.bool_)
    column, sizes = _binary(keys)
    if rules.key_mode == "none":
        return np.full(count, NULL_KEY_ID, dtype=np.int32), column, refused
    if (sizes == KEY_BYTES).all():
        ids = np.frombuffer(column.buffers()[2], ">i4", count).astype(np.int32)
        return ids, column, refused
    ids = np.full(count, NULL_KEY_ID, dtype=np.int32)
    for at, key in enumerate(keys):
        if key is None:
            refused[at] = rules.null_key == "dead-letter"
        elif len(key) == KEY_BYTES:
            ids[at] = int.from_bytes(key, "big", signed=True)
        else:
            refused[at] = True
    return ids, column, refused


def _joined(values: list[bytes | None]) -> bytes | None:
    """Return all values in a row, or None if one of them is null."""
    try:
        return b"".join(values)  # type: ignore[arg-type]  # a null raises
    except TypeError:
        return None
