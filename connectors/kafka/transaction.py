"""Records that are produced and offsets that are committed as one, or not at all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka as rdkafka
from confluent_kafka import KafkaException, TopicPartition

from connectors.kafka.consumer import Consumer
from connectors.kafka.settings import REQUEST_TIMEOUT_S, producer_settings
from connectors.kafka.terms import Headers, Partition
from connectors.kafka.translate import translated
from storage_core import ShardlogError

_END_TIMEOUT_S: Final = 60.0
_QUEUE_WAIT_S: Final = 30.0


class TransactionalProducer:
    """Produces in transactions. One thread.

    Whoever takes the same name fences those before: what they had not committed is aborted.
    """

    def __init__(self, settings: Mapping[str, object], name: str) -> None:
        """Take the name; returns once what another had open is decided.

        Raises:
            ShardlogError: The cluster does not answer, or does not let us.
        """
        own_settings = {**settings, "transactional.id": name}
        with translated("kafka settings"):
            self._client: Any = rdkafka.Producer(producer_settings("", own_settings))
        with translated(f"taking the transactional.id {name!r}"):
            self._client.init_transactions(_END_TIMEOUT_S)

    @contextmanager
    def transaction(self, consumer: Consumer) -> Iterator[dict[Partition, int]]:
        """Have what is sent inside, and the offsets put into what is yielded, appear together.

        An error inside aborts it: nothing of it is ever seen.

        Raises:
            ShardlogError: It could not be committed; the next to take the name finds out.
        """
        offsets: dict[Partition, int] = {}
        with translated("beginning a transaction"):
            self._client.begin_transaction()
        try:
            yield offsets
            with translated("committing a transaction"):
                # NOTE: one of which the broker knows no partition yet cannot be aborted (2.16).
                self._client.flush(_END_TIMEOUT_S)
                self._client.send_offsets_to_transaction(
                    [TopicPartition(*at, offset) for at, offset in offsets.items()],
                    consumer.group_metadata(),
                    REQUEST_TIMEOUT_S,
                )
                self._client.commit_transaction(_END_TIMEOUT_S)
        except (ShardlogError, KeyboardInterrupt):
            self._abort()
            raise

    def send(
        self,
        partition: Partition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        """Hand over a record of the transaction.

        Raises:
            ShardlogError: It is refused.
        """
        with translated(f"producing to {partition.topic!r}"):
            while True:
                try:
                    self._client.produce(
                        partition.topic,
                        value,
                        key,
                        partition=partition.number,
                        timestamp=timestamp_ms,
                        headers=headers,
                    )
                except BufferError:
                    self._client.poll(_QUEUE_WAIT_S)
                else:
                    return

    def _abort(self) -> None:
        """Abort what is open; a client that failed for good has nothing to abort."""
        try:
            self._client.abort_transaction(_END_TIMEOUT_S)
        except KafkaException:
            # The broker aborts it once the name is taken again, or its time is over.
            return
