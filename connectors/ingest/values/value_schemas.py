"""What a worker knows of the values that it fetched: by a registry's schemas, by event types.

Values of one format whose schemas a registry has wait by themselves, so that a schema of the other
kind is none to them. Those of event types and raw ones never wait. Belongs to the worker's thread.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.values.avro_values import FramedValues
from connectors.ingest.values.json_values import EventValues
from connectors.ingest.values.schema_lookup import SchemaLookup
from connectors.ingest.values.schema_waits import SchemaWaits, Writers, stored_text
from connectors.kafka import Consumer, Fetched, Partition
from connectors.registry import RegistryClient, RegistrySettings, SchemaKind
from connectors.settings.schema_settings import SchemaSettings
from storage_core import Clock, ShardlogError


class ValueSchemas:
    """The schemas of values, and the partitions that wait for some."""

    def __init__(  # noqa: PLR0913 - what a value concerns
        self,
        settings: SchemaSettings,
        writers: Writers,
        consumer: Consumer,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        events: EventValues,
    ) -> None:
        """Ask nobody yet; `writers` are the shards that the worker has open."""
        self._events = events

        def waits(kind: SchemaKind) -> SchemaWaits:
            client = None
            if settings.registry:
                parsed = RegistrySettings.parse(settings.registry)
                client = RegistryClient(parsed, clock, kind=kind)
            lookup = SchemaLookup(client, partial(stored_text, writers), clock)
            return SchemaWaits(lookup, settings, consumer, clock, log)

        self._avro, self._json = waits("AVRO"), waits("JSON")

    def admit(
        self, fetched: Fetched, writers: Writers
    ) -> Iterator[tuple[Fetched, FramedValues | None]]:
        """Yield what can be mapped, values that have schemas by themselves."""
        for event_type, partitions in _of_events(fetched, writers).items():
            events = fetched.only(partitions)
            fetched = fetched.without(partitions)
            yield events, self._events.framed(events, event_type)
            if not fetched.runs:
                return
        for part, framed in self._json.admit(fetched, writers):
            if framed is None:
                yield from self._avro.admit(part, writers)
            else:
                yield part, framed

    def hold(self) -> None:
        """Stop fetching what was left out of; before anybody asks for positions."""
        self._avro.hold()
        self._json.hold()

    def go_on(self, writers: Writers, pending: PendingBatch) -> dict[Partition, ShardlogError]:
        """Fetch partitions again whose answers have come; while no round is in flight.

        Returns:
            Those that cannot go on, and why.
        """
        return self._avro.go_on(writers, pending) | self._json.go_on(writers, pending)

    def close(self) -> bool:
        """Ask for nothing more; return whether somebody is still asking, and cannot be ended."""
        return any([self._avro.close(), self._json.close()])


def _of_events(fetched: Fetched, writers: Writers) -> dict[str, set[Partition]]:
    """Return partitions whose values are events, by their types."""
    of_types: dict[str, set[Partition]] = {}
    for partition in fetched.runs:
        event_type = writers[partition].rules.event_type if partition in writers else None
        if event_type is not None:
            of_types.setdefault(event_type, set()).add(partition)
    return of_types
