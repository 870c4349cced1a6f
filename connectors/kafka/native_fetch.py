"""A consumer's records by the compiled library: queues of partitions, columns filled in C.

The consumer's own queue carries everything else: rebalances, errors of the group, statistics.
They are served by confluent_kafka alone, whose callbacks expect that. A partition's records come
to a queue of ours, to which librdkafka is told to forward the partition's; so no call for records
can run into a callback.

librdkafka itself sends a partition's records to the consumer's queue until it is told otherwise,
and ends the forwarding when a fetch stops, at some later time. So a partition that was taken is
forwarded anew before each call until the first record has come by our queue; and what came to the
consumer's queue meanwhile is handed over first.
"""

import ctypes
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final

import confluent_kafka as rdkafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError

from connectors.kafka.fetched import Fetched, FetchResults
from connectors.kafka.native_library import (
    COLUMNS,
    ERROR_TEXT_MAX,
    LIBRARY,
    FetchResult,
    NativeLibrary,
    Refusal,
    load,
)
from connectors.kafka.settings import FetchWay, quiet_logger
from connectors.kafka.terms import Partition
from connectors.kafka.translate import PartitionFault, fault_from, translated
from storage_core import HEADERS_TYPE, ClosedError, InvalidRequestError

_PLUGINS: Final = "plugin.library.paths"
_COLUMN_INDEX: Final = {name: index for index, name in enumerate(COLUMNS)}
# While a call waits for records nothing else is served.
_WAIT_MS_MAX: Final = 100
# `struct told_run` of fetch.h.
_RUN: Final = Struct("=5q")
_NO_BUFFER: Final = pa.py_buffer(b"")


class NativeFetch:
    """What a consumer fetches, in C. The consumer's thread."""

    def __init__(self, library: NativeLibrary, handle: int) -> None:
        """Belong to a client that was made with the library as its plugin."""
        self._library, self._handle = library, handle
        self._process = os.getpid()
        self._sources: dict[Partition, int] = {}
        # Those of which nothing has come yet since they were taken.
        self._unsettled: set[Partition] = set()
        self._result = FetchResult()
        self._error_text = ctypes.create_string_buffer(ERROR_TEXT_MAX)

    def hold(self, partitions: Iterable[Partition]) -> None:
        """Have these partitions' records come; before they are assigned."""
        library = self._here()
        for partition in partitions:
            self._give_back(partition)
            self._sources[partition] = _held_to(
                library.hold(self._handle, partition.topic.encode(), partition.number)
            )
            self._unsettled.add(partition)

    def give_back(self, partitions: Iterable[Partition]) -> None:
        """Leave these partitions' records to librdkafka again."""
        for partition in partitions:
            self._give_back(partition)

    def _give_back(self, partition: Partition) -> None:
        library = self._here()
        source = self._sources.pop(partition, None)
        self._unsettled.discard(partition)
        if source is not None:
            library.give_back(self._handle, source)

    def _here(self) -> NativeLibrary:
        """Return the library; a fork may not call it, whose copy of a lock nobody may give back."""
        if os.getpid() != self._process:
            message = "this consumer was made by another process; make one here"
            raise ClosedError(message)
        return self._library

    def forward(self) -> None:
        """Forward anew what may have lost it; before the consumer's queue is looked at."""
        library = self._here()
        if self._unsettled:
            sources = np.array([self._sources[each] for each in self._unsettled], np.int64)
            library.forward(self._handle, sources.ctypes.data, len(sources))

    def take(self, records_max: int, wait_s: float) -> FetchResults:
        """Return up to so many records, waiting at most so long for the last of them.

        Raises:
            ShardlogError: The consumer cannot go on.
        """
        wait_ms = min(int(wait_s * 1000), _WAIT_MS_MAX)
        taken = _held_to(self._here().take(self._handle, records_max, wait_ms))
        self._log_error()
        results: FetchResults = []
        while taken:
            self._library.next(self._handle, ctypes.byref(self._result))
            columns = self._filled()
            records, fault = columns.records(), columns.fault()
            self._unsettled.difference_update(records.runs)
            if records.runs or fault is not None:
                results.append((records, fault))
            taken = self._result.left
        return results

    def _log_error(self) -> None:
        """Log what came while records were taken and is no fault of theirs: that a topic is gone.

        Where a partition goes on, and whether its topic is there, others ask the cluster.
        """
        if self._library.error(self._handle, self._error_text):
            text = self._error_text.value.decode(errors="replace")
            # As confluent_kafka hands on librdkafka's own lines: facility, client, text.
            quiet_logger().log(logging.WARNING, "%s [%s] %s", "ERROR", "fetch", text)

    def detach(self) -> None:
        """End every queue; before the client is closed. Nothing else is called from then on."""
        self._here().detach(self._handle)

    def __del__(self) -> None:
        # The client may live on; it holds what it needs.
        if os.getpid() == self._process:
            self._library.free(self._handle)

    def _filled(self) -> "_Columns":
        buffer = pa.allocate_buffer(self._result.bytes)
        if not self._library.fill(self._handle, buffer.address):
            raise _closed()
        return _Columns(buffer, self._result)


class _Columns:
    """A filled buffer as numpy and Arrow see it; nothing is copied."""

    def __init__(self, buffer: pa.Buffer, result: FetchResult) -> None:
        self._buffer, self._view, self._result = buffer, memoryview(buffer), result

    def records(self) -> Fetched:
        result, count = self._result, self._result.records
        runs, epochs = self._runs()
        return Fetched(
            runs,
            epochs,
            self._numbers("offsets", np.int64, count),
            self._numbers("timestamps", np.int64, count),
            self._numbers("kinds", np.int8, count),
            self._binary("keys", pa.binary(), count, result.null_keys),
            self._binary("values", pa.binary(), count, result.null_values),
            self._headers() if result.with_headers else None,
            self._numbers("misnamed", np.bool_, count) if result.misnamed else None,
        )

    def fault(self) -> PartitionFault | None:
        """Return what stands behind the records; None if it is about no partition.

        Raises:
            ShardlogError: The consumer cannot go on.
        """
        result = self._result
        if not result.has_fault:
            return None
        error = KafkaError(result.fault_code, self._raw("fault_text").decode(errors="replace"))
        topic = self._raw("fault_topic").decode() or None
        return fault_from(error, topic, result.fault_partition, result.fault_offset)

    def _piece(self, name: str) -> pa.Buffer | None:
        index = _COLUMN_INDEX[name]
        size = self._result.size[index]
        return self._buffer.slice(self._result.starts[index], size) if size else None

    def _raw(self, name: str) -> bytes:
        index = _COLUMN_INDEX[name]
        start = self._result.starts[index]
        return bytes(self._view[start : start + self._result.size[index]])

    def _numbers(self, name: str, kind: type[Any], count: int) -> npt.NDArray[Any]:
        start = self._result.starts[_COLUMN_INDEX[name]]
        numbers: npt.NDArray[Any] = np.frombuffer(self._view, kind, count, start)
        return numbers

    def _runs(self) -> tuple[dict[Partition, tuple[int, int]], dict[Partition, int | None]]:
        runs: dict[Partition, tuple[int, int]] = {}
        epochs: dict[Partition, int | None] = {}
        topics, topic_start = self._raw("topics"), 0
        for topic_end, number, start, end, epoch in _RUN.iter_unpack(self._raw("runs")):
            partition = Partition(topics[topic_start:topic_end].decode(), number)
            runs[partition] = start, end
            epochs[partition] = epoch if epoch >= 0 else None
            topic_start = topic_end
        return runs, epochs

    def _binary(self, name: str, kind: Any, count: int, nulls: int) -> Any:  # noqa: ANN401 - an array
        pieces = [
            self._piece(f"{name}_valid"),
            self._piece(f"{name}_ends"),
            self._piece(name) or _NO_BUFFER,
        ]
        return pa.Array.from_buffers(kind, count, pieces, nulls)

    def _headers(self) -> Any:  # noqa: ANN401 - an array of `HEADERS_TYPE`
        result = self._result
        entries = pa.StructArray.from_arrays(
            [
                self._binary("names", pa.string(), result.headers, 0),
                self._binary("contents", pa.binary(), result.headers, result.null_contents),
            ],
            fields=list(HEADERS_TYPE.value_type),
        )
        pieces = [self._piece("headers_valid"), self._piece("headers_ends")]
        nulls = result.records - result.with_headers
        return pa.Array.from_buffers(
            HEADERS_TYPE, result.records, pieces, nulls, children=[entries]
        )


def _closed() -> ClosedError:
    message = "this consumer is closed"
    return ClosedError(message)


def _held_to(answer: int) -> int:
    """Return what the library answered, where it is no refusal."""
    if answer == -1:
        raise MemoryError
    if answer < 0:
        raise _closed()
    return answer


def open_client(
    settings: Mapping[str, object],
    way: FetchWay,
    load_library: Callable[[], NativeLibrary | Refusal] = load,
) -> tuple[Any, NativeFetch | None, str]:
    """Make a consumer, its fetch by the library unless that is in Python, and tell the way.

    Returns:
        The way that was taken; and why, where it is a second choice.

    Raises:
        InvalidRequestError: The settings are not librdkafka's; or the library is wanted, and cannot
            be had.
    """
    if way == "python":
        return _made(settings), None, "python"
    client, library = _opened(settings, load_library())
    if isinstance(library, NativeFetch):
        return client, library, "native"
    if way == "native":
        client.close()
        message = f'fetch = "native" is not possible: {library.reason}; "auto" goes on without it'
        raise InvalidRequestError(message)
    return client, None, f"python, since {library.reason}"


def _opened(
    settings: Mapping[str, object], library: NativeLibrary | Refusal
) -> tuple[Any, NativeFetch | Refusal]:
    if isinstance(library, Refusal):
        return _made(settings), library
    plugins = ";".join(filter(None, [str(settings.get(_PLUGINS, "")), str(LIBRARY)]))
    try:
        client = _made({**settings, _PLUGINS: plugins})
    except InvalidRequestError as error:
        # If the settings are what is wrong, this says so.
        return _made(settings), Refusal(f"librdkafka takes no plugin: {error}")
    handle = library.open(id(client))
    if handle is None:
        return client, Refusal("this confluent_kafka does not show its consumers' handles")
    return client, NativeFetch(library, handle)


def _made(settings: Mapping[str, object]) -> Any:  # noqa: ANN401 - librdkafka's
    with translated("kafka settings"):
        return rdkafka.Consumer(dict(settings))
