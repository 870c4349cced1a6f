"""Sends records and counts what becomes of them."""

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import confluent_kafka as rdkafka
from confluent_kafka import KafkaError, Message

from connectors.kafka.settings import producer_settings
from connectors.kafka.terms import Headers
from connectors.kafka.translate import translated
from storage_core import BrokerUnavailableError, SystemClock

_QUEUE_WAIT_S: Final = 30.0


class Producer:
    """Sends records and counts what becomes of them. One thread; a context manager."""

    def __init__(self, bootstrap: str, settings: Mapping[str, object] | None = None) -> None:
        with translated("kafka settings"):
            self._client: Any = rdkafka.Producer(producer_settings(bootstrap, settings or {}))
        self._clock = SystemClock()
        self.acknowledged = 0
        self.first_failure: str | None = None

    def send(  # noqa: PLR0913 - the parts of a record
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        on_delivery: Callable[[str | None], object] | None = None,
    ) -> None:
        """Hand over a record; waits, bounded, while the queue is full.

        A later call runs `on_delivery` with why the record was not acknowledged; None if it was.
        """
        optional: dict[str, Any] = {}
        if timestamp_ms is not None:
            optional["timestamp"] = timestamp_ms
        if headers is not None:
            optional["headers"] = headers
        if partition is not None:
            optional["partition"] = partition
        if on_delivery is not None:
            optional["on_delivery"] = partial(self._delivered, on_delivery)
        deadline = None
        while not self._produce(topic, key, value, optional):
            now_s = self._clock.monotonic_s()
            deadline = now_s + _QUEUE_WAIT_S if deadline is None else deadline
            if now_s >= deadline:
                message = f"Kafka took no record for {_QUEUE_WAIT_S:g} s"
                raise BrokerUnavailableError(message)
            # It returns at the first event, which need not be one that makes room.
            self._client.poll(deadline - now_s)

    def poll(self) -> None:
        """Count what was acknowledged meanwhile."""
        self._client.poll(0)

    def flush(self, timeout_s: float) -> int:
        """Wait for acknowledgements; return how many records are still without one."""
        with translated("flushing"):
            return int(self._client.flush(timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for what was handed over."""
        self.flush(_QUEUE_WAIT_S)

    def _produce(
        self, topic: str, key: bytes | None, value: bytes | None, optional: Mapping[str, Any]
    ) -> bool:
        """Hand over a record; tell whether there was room."""
        with translated(f"producing to {topic!r}"):
            try:
                self._client.produce(topic, value, key, **{"on_delivery": self._count, **optional})
            except BufferError:
                return False
        return True

    def _delivered(
        self,
        on_delivery: Callable[[str | None], object],
        error: KafkaError | None,
        message: Message,
    ) -> None:
        self._count(error, message)
        on_delivery(None if error is None else error.str())

    def _count(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
            return
        if self.first_failure is None:
            self.first_failure = error.str()
