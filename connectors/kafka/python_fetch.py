"""Columns made of librdkafka's messages in Python: one pass a field, no loop over records.

Records become columns as they come, while they lie in the processor's caches, in one pass over
those of all partitions.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.kafka.fetched import Fetched, FetchResults
from connectors.kafka.message_fields import FIELDS, Messages
from connectors.kafka.terms import Headers, Partition
from connectors.kafka.translate import PartitionFault, fault_of
from storage_core import HEADERS_TYPE

# More does not fit the offsets of an Arrow column.
_COLUMN_BYTES_MAX: Final = 2**31 - 1
_KIND: Final = itemgetter(0)
_TIMESTAMP: Final = itemgetter(1)


def fetch_results_of(messages: Messages, topic: str | None = None) -> FetchResults:
    """Return messages as records in columns, each result with the fault that follows it.

    Every record comes once, in its partition's order. Error events that concern no partition
    are left out.

    Args:
        messages: What one call brought.
        topic: The one topic there can be; None when there may be several.

    Raises:
        ShardlogError: The consumer cannot go on.
    """
    if not messages:
        return []
    if not any(map(FIELDS.error, messages)):
        return [(_columns(messages, topic), None)]
    parts = list(_parted(messages))
    return [(_columns(own, topic), fault) for own, fault in parts if own or fault is not None]


def _parted(messages: Messages) -> Iterator[tuple[Messages, PartitionFault | None]]:
    """Yield records with the fault that follows them; behind the last of them there is none."""
    records: Messages = []
    for message in messages:
        if FIELDS.error(message) is None:
            records.append(message)
            continue
        fault = fault_of(message)
        if fault is not None:
            yield records, fault
            records = []
    yield records, None


def _columns(messages: Messages, topic: str | None) -> Fetched:
    partitions = _by_partition(messages, topic) if messages else {}
    ordered = list(chain.from_iterable(partitions.values()))
    ends = [0, *accumulate(map(len, partitions.values()))]
    stamps = list(map(FIELDS.timestamp, ordered))
    headers, misnamed = _headers(ordered)
    return Fetched(
        runs=dict(zip(partitions, pairwise(ends), strict=True)),
        epochs={at: FIELDS.epoch(own[-1]) for at, own in partitions.items()},
        offsets=_joined_offsets(list(partitions.values())),
        timestamps=np.fromiter(map(_TIMESTAMP, stamps), np.int64, len(stamps)),
        kinds=_kinds(stamps),
        keys=_binary(list(map(FIELDS.key, ordered))),
        headers=headers,
        misnamed=misnamed,
        # Values come last: being copied, large ones leave nothing else in the processor's caches.
        values=_binary(list(map(FIELDS.value, ordered))),
    )


def _by_partition(messages: Messages, topic: str | None) -> dict[Partition, Messages]:
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
    by_partition: dict[int, Messages] = {}
    for start, end in pairwise([0, *cuts, len(messages)]):
        by_partition.setdefault(int(numbers[start]), []).extend(messages[start:end])
    return {
        Partition(names[code >> 32], code & 0xFFFFFFFF): own for code, own in by_partition.items()
    }


def _joined_offsets(runs: Sequence[Messages]) -> npt.NDArray[np.int64]:
    return np.concatenate([_offsets(own) for own in runs] or [np.empty(0, np.int64)])


def _offsets(messages: Messages) -> npt.NDArray[np.int64]:
    """Return the offset of each record of a partition.

    Offsets rise, so where the last is as far from the first as there are records, none has to
    be asked.
    """
    first, last = FIELDS.offset(messages[0]), FIELDS.offset(messages[-1])
    if last - first + 1 == len(messages):
        return np.arange(first, last + 1)
    return np.fromiter(map(FIELDS.offset, messages), np.int64, len(messages))


def _kinds(stamps: list[tuple[int, int]]) -> npt.NDArray[np.int8]:
    """Return the kind of each timestamp; a topic mostly has one."""
    present = set(map(_KIND, stamps))
    if len(present) == 1:
        return np.full(len(stamps), present.pop(), dtype=np.int8)
    return np.fromiter(map(_KIND, stamps), np.int8, len(stamps))


def _headers(messages: Messages) -> tuple[Any, npt.NDArray[np.bool_] | None]:
    """Return headers as a column if there are any, and which cannot be read if any cannot.

    NOTE: confluent-kafka (2.16) raises on a name that is no UTF-8 the first time it is asked, and
    answers with a broken list from then on: no record is asked twice.
    """
    headers: list[Headers | None] = []
    misnamed = None
    while len(headers) < len(messages):
        try:
            headers.extend(map(FIELDS.headers, messages[len(headers) :]))
        except (SystemError, UnicodeDecodeError):
            # What came before it is in the list.
            misnamed = np.zeros(len(messages), np.bool_) if misnamed is None else misnamed
            misnamed[len(headers)] = True
            headers.append(None)
    return (pa.array(headers, HEADERS_TYPE) if any(headers) else None), misnamed


def _binary(values: list[bytes | None]) -> Any:  # noqa: ANN401 - of pyarrow's arrays, whose stubs know too few
    """Return values as a column, copied once."""
    joined = _joined(values)
    if joined is None or len(joined) > _COLUMN_BYTES_MAX:
        return pa.array(values, pa.binary())
    sizes = np.fromiter(map(len, values), np.int32, len(values))  # type: ignore[arg-type]  # no null is left
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _joined(values: list[bytes | None]) -> bytes | None:
    """Return all values in a row, or None if one of them is null."""
    try:
        return b"".join(values)  # type: ignore[arg-type]  # a null raises
    except TypeError:
        return None
