"""Kept records judged again, as the worker judges those that it fetches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.dlq.record import DeadLetter, decode_dead_letter
from connectors.ingest.dead_letters.selection import StoredDeadLetter, headers_column
from connectors.ingest.mapping import ShardRecords, map_partitions
from connectors.ingest.values.avro_values import FramedValues
from connectors.ingest.values.framing import SchemaName, read_frames
from connectors.ingest.values.json_values import EventValues, framed_texts
from connectors.ingest.values.registered_schemas import kind_of_schemas
from connectors.ingest.values.schema_lookup import SchemaLookup
from connectors.kafka import Fetched, Partition
from connectors.registry import RegistryClient, RegistrySettings
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import MappingRules
from storage_core import Clock, InvalidRequestError, Stream, StreamReader

_ANSWER_STEP_S: Final = 0.2
_MISNAMED: Final = "headers"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of some dead letters.

    Attributes:
        records: Those that can be rows now, by their own offsets.
        reasons: Why the others cannot, by offset.
    """

    records: ShardRecords | None
    reasons: Mapping[int, str]


class Judge:
    """Judges dead letters by a stream's rules and what the registry says now. One thread."""

    def __init__(
        self,
        rules: MappingRules,
        settings: SchemaSettings,
        opened: Stream | StreamReader,
        clock: Clock,
        events: EventValues,
    ) -> None:
        """Ask nobody yet.

        Args:
            rules: How the topic's records become rows.
            settings: Where the registry is, and how long it may be silent.
            opened: Who knows the schemas of rows that were stored.
            clock: Whose time it is.
            events: The event types of the root.

        Raises:
            InvalidRequestError: Values have schemas, and no registry is named.
        """
        self._rules = rules
        self._wait_s = settings.wait_s
        self._clock = clock
        self._events = events
        self._lookup: SchemaLookup | None = None
        if not rules.names_schemas:
            return
        if not settings.registry:
            message = (
                "its values name schemas of a registry, and no registry is named: give the "
                "worker's settings with --config, or --registry http://..."
            )
            raise InvalidRequestError(message)

        def in_store(registry_id: int) -> str | None:
            schemas = opened.schemas(registry_id)
            return schemas[-1].text if schemas else None

        kind = kind_of_schemas(rules.value_format)
        client = RegistryClient(RegistrySettings.parse(settings.registry), clock, kind=kind)
        self._lookup = SchemaLookup(client, in_store, clock)

    def judge(self, partition: Partition, dead_letters: Sequence[StoredDeadLetter]) -> Judged:
        """Judge dead letters of one partition anew.

        Raises:
            ShardlogError: The registry does not answer, or refuses us.
        """
        foreign = "it was not written by a worker, and nobody knows its record"
        reasons = {entry.offset: foreign for entry in dead_letters if entry.dead_letter is None}
        decodable = [
            (entry, entry.dead_letter) for entry in dead_letters if entry.dead_letter is not None
        ]
        if not decodable:
            return Judged(None, reasons)
        fetched = _fetched(partition, decodable)
        framed = None if self._lookup is None else self._framed(self._lookup, fetched)
        if self._rules.event_type is not None:
            framed = self._events.framed(fetched, self._rules.event_type)
        ((_, records),) = map_partitions(fetched, [partition], self._rules, framed)
        for offset, raw in records.dead_letters.items():
            reasons[offset] = decode_dead_letter(raw).reason
        return Judged(records if len(records.offsets) else None, reasons)

    def close(self) -> None:
        """Ask nobody any more."""
        if self._lookup is not None:
            self._lookup.close()

    def _framed(self, lookup: SchemaLookup, fetched: Fetched) -> FramedValues:
        frames = read_frames(fetched.values, fetched.headers)
        self._await(lookup, frames.names)
        answers = dict(lookup.answers)
        if self._rules.value_format == "json":
            return framed_texts(fetched, frames, answers)
        return FramedValues(frames, answers)

    def _await(self, lookup: SchemaLookup, names: Sequence[SchemaName]) -> None:
        """Wait until each schema is known, or known to be none.

        Raises:
            ShardlogError: The registry does not answer in time, or refuses us.
        """
        until_s = self._clock.monotonic_s() + self._wait_s
        lookup.keep(names)
        lookup.ask(lookup.unanswered(names))
        while not lookup.await_answers(names, _ANSWER_STEP_S):
            trouble = lookup.trouble_of(names)
            if trouble is not None:
                raise trouble
            if self._clock.monotonic_s() >= until_s:
                raise lookup.silence_of(lookup.unanswered(names), self._wait_s)


def _fetched(
    partition: Partition, decodable: Sequence[tuple[StoredDeadLetter, DeadLetter]]
) -> Fetched:
    """Return dead letters as their records came from Kafka."""
    count, dead_letters = len(decodable), [dead_letter for _, dead_letter in decodable]
    # A dead letter whose headers could not be read has none, and would be stored without them.
    misnamed = np.array([entry.word == _MISNAMED for entry, _ in decodable], np.bool_)
    keys: Any = pa.array([dead_letter.key for dead_letter in dead_letters], pa.binary())
    values: Any = pa.array([dead_letter.value for dead_letter in dead_letters], pa.binary())
    return Fetched(
        runs={partition: (0, count)},
        epochs={partition: None},
        offsets=np.fromiter((entry.offset for entry, _ in decodable), np.int64, count),
        timestamps=np.fromiter((each.timestamp for each in dead_letters), np.int64, count),
        kinds=np.fromiter((each.timestamp_type + 1 for each in dead_letters), np.int8, count),
        keys=keys,
        values=values,
        headers=headers_column([dead_letter.headers for dead_letter in dead_letters]),
        misnamed=misnamed if misnamed.any() else None,
    )
