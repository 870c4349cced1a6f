"""Before partitions are given back, or a worker ends: what is committed is sealed and published.

So whoever has them next, on another machine, finds all of it in the table. What was sealed within a
share of the time is published together, then what was sealed behind that, and so on: a shard that
takes long to seal keeps none of those before it. It is bounded, and never fails what it comes
before: what was not published in time is in Kafka still, and the next owner fetches it from there.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.lake.lake_timer import LakeTimer, by_topic, lake_streams
from connectors.ingest.lake.topic_publishing import TopicPublished
from connectors.ingest.maintenance_timer import MaintenanceTimer
from connectors.kafka import Partition
from storage_core import Clock, ShardlogError, Stream

_THREAD_NAME: Final = "shardlog-last-publish"
# What is sealed in so much of the time is published together.
_SEALING_SHARE: Final = 0.25
_Outcome = TopicPublished | ShardlogError | OSError


class LastPublish:
    """Seals and publishes what is about to be closed. Belongs to the worker's thread."""

    def __init__(
        self,
        maintenance: MaintenanceTimer,
        lake: LakeTimer,
        wait_s: float,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Take part in what maintenance and publishing do every so often.

        Args:
            maintenance: Seals.
            lake: Publishes.
            wait_s: How long it may take; 0 for not at all.
            clock: Time.
            log: Where it is logged.
        """
        self._maintenance = maintenance
        self._lake = lake
        self._wait_s = wait_s
        self._clock = clock
        self._log = log

    def publish(self, writers: Mapping[Partition, PartitionWriter]) -> None:
        """Seal and publish what partitions have committed, for as long as it may take."""
        streams = {
            partition: stream
            for partition, stream in lake_streams(writers).items()
            if self._lake.has_unpublished(partition, stream)
        }
        if not streams or not self._wait_s:
            return
        begun_s = self._clock.monotonic_s()
        outcomes: SimpleQueue[tuple[str, _Outcome]] = SimpleQueue()
        is_over = threading.Event()
        ordered = self._lake.oldest_first(streams)
        # A daemon: the end of a process does not wait for a store that hangs.
        publishing = threading.Thread(
            target=self._publish, args=(ordered, outcomes, is_over), name=_THREAD_NAME, daemon=True
        )
        publishing.start()
        publishing.join(self._wait_s)
        is_over.set()
        while not outcomes.empty():
            self._lake.take(*outcomes.get())
        left = sum(self._lake.has_unpublished(*item) for item in streams.items())
        self._log.info(
            "published before giving back",
            shards=len(streams) - left,
            left=left,
            took_s=round(self._clock.monotonic_s() - begun_s, 3),
        )

    def _publish(
        self,
        streams: Mapping[Partition, Stream],
        outcomes: "SimpleQueue[tuple[str, _Outcome]]",
        is_over: threading.Event,
    ) -> None:
        sealed: dict[Partition, Stream] = {}
        sealing_s = self._clock.monotonic_s()
        for partition, stream in streams.items():
            # What cannot be sealed now may have parts that are not published all the same.
            with suppress(ShardlogError, OSError):
                self._maintenance.build_all(stream)
            sealed[partition] = stream
            if self._clock.monotonic_s() - sealing_s >= _SEALING_SHARE * self._wait_s:
                self._publish_all(sealed, outcomes, is_over)
                sealed, sealing_s = {}, self._clock.monotonic_s()
        self._publish_all(sealed, outcomes, is_over)

    def _publish_all(
        self,
        streams: Mapping[Partition, Stream],
        outcomes: "SimpleQueue[tuple[str, _Outcome]]",
        is_over: threading.Event,
    ) -> None:
        """Publish sealed streams, topic after topic, each until nothing is left of it."""
        for topic, of_topic in by_topic(streams).items():
            while not is_over.is_set():
                try:
                    published = self._lake.publish(topic, of_topic)
                except (ShardlogError, OSError) as error:
                    outcomes.put((topic, error))
                    break
                outcomes.put((topic, published))
                if published.is_whole:
                    break
