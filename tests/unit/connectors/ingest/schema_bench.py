"""Partitions whose values have schemas, by a registry and a Kafka that do as a test says.

A turn is the worker's: fetch, keep what can be mapped, hold what cannot, end and begin a round.
Every record that is stored is compared with the place its partition stands at, so that none is
passed over and none comes twice.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from threading import Semaphore
from typing import Any

from structlog.testing import CapturingLogger
from typing_extensions import override

from connectors.ingest.mapping import ShardRecords, join_records
from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.values.schema_lookup import InStore, SchemaLookup
from connectors.ingest.values.schema_waits import SchemaWaits
from connectors.kafka import Fetched, Partition, Place
from connectors.registry import (
    RegisteredSchema,
    RegistryClient,
    RegistryRefusedError,
    RegistrySettings,
    RegistryUnavailableError,
    SchemaNotFoundError,
)
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import MappingRules
from storage_core import ShardlogError
from storage_core.testing import ManualClock
from tests.unit.connectors.framed import framed, record_schema
from tests.unit.connectors.records import fetched_of, record
from tests.waiting import WAIT_MAX_S

TEXT = record_schema(("at", "long"))
RULES = MappingRules(value_format="avro", key_mode="none")
REFUSALS = {"refuses": RegistryRefusedError, "away": RegistryUnavailableError}


class ScriptedRegistry(RegistryClient):
    """Knows some ids, and answers at once, or as many questions as a test says."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(RegistrySettings.parse({"url": "http://127.0.0.1:1"}), clock)
        self.mood = "well"
        self.known_schemas: set[int] = set()
        self.requests = 0
        self.is_slow = False
        self._may_answer = Semaphore(0)

    def answer(self, most: int) -> None:
        """Answer some questions of those who wait, and of those who come."""
        self._may_answer.release(most)

    @override
    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        self.requests += 1
        if self.is_slow:
            assert self._may_answer.acquire(timeout=WAIT_MAX_S)
        if self.mood in REFUSALS:
            raise REFUSALS[self.mood](self.mood)
        if schema_id not in self.known_schemas:
            message = f"schema id {schema_id}: not there"
            raise SchemaNotFoundError(message)
        return RegisteredSchema(schema_id, None, None, TEXT)


@dataclass
class ScriptedKafka:
    """Values by partition; where each is fetched from, and whether it is."""

    values: dict[Partition, list[bytes]]
    offsets: dict[Partition, int] = field(default_factory=dict)
    paused: set[Partition] = field(default_factory=set)

    def begin(self, partition: Partition, place: Place) -> None:
        self.offsets[partition] = place.offset
        self.paused.discard(partition)

    def release(self, partition: Partition) -> None:
        self.offsets.pop(partition, None)

    def pause(self, partitions: Collection[Partition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self.paused.difference_update(partitions)

    def seek(self, partition: Partition, place: Place) -> None:
        if partition in self.offsets:
            self.offsets[partition] = place.offset

    def fetch(self, most: int) -> Fetched | None:
        messages = []
        for partition in sorted(self.offsets.keys() - self.paused):
            start = self.offsets[partition]
            for offset, value in enumerate(self.values[partition][start : start + most], start):
                topic, number = partition
                messages.append(record(offset, value=value, topic=topic, partition=number))
                self.offsets[partition] = offset + 1
        return fetched_of(messages) if messages else None


@dataclass
class PlainFeed:
    """Where a partition stands."""

    place: Place
    rules: MappingRules = RULES


class Bench:
    """Waits, with all that they concern."""

    def __init__(
        self,
        values: Mapping[Partition, list[bytes]],
        in_store: InStore = lambda _: None,
        **settings: Any,
    ) -> None:
        self.clock, self.log = ManualClock(), CapturingLogger()
        self.registry = ScriptedRegistry(self.clock)
        self.kafka = ScriptedKafka(dict(values))
        self.lookup = SchemaLookup(self.registry, in_store, self.clock)
        kafka: Any = self.kafka
        self.waits = SchemaWaits(
            self.lookup, SchemaSettings(**settings), kafka, self.clock, self.log
        )
        self.pending = PendingBatch(WorkerCounts(), 2**40, 2**40)
        self.in_flight: dict[Partition, list[ShardRecords]] = {}
        self.writers: Any = {}
        # Of each partition, what became of its records: the schema's id, or None of a dead letter.
        self.stored: dict[Partition, list[int | None]] = {at: [] for at in values}
        self.stuck: dict[Partition, ShardlogError] = {}

    def close(self) -> None:
        self.waits.close()
        self.registry.answer(2**16)

    def take(self, partition: Partition) -> None:
        place = Place(len(self.stored[partition]))
        self.writers[partition] = PlainFeed(place)
        self.kafka.begin(partition, place)
        self.stuck.pop(partition, None)

    def release(self, partition: Partition) -> None:
        """Give a partition back, with what was consumed of it."""
        self.end_round()
        self.begin_round()
        self.end_round()
        del self.writers[partition]
        self.kafka.release(partition)

    def fetch(self, most: int, results: int = 1) -> None:
        """Fetch once; a call may bring several results, with faults between them."""
        for _ in range(results):
            fetched = self.kafka.fetch(most)
            if fetched is not None:
                for part, values in self.waits.admit(fetched, self.writers):
                    self.pending.add(part, self.writers, 0.0, values)
        self.waits.hold()

    def begin_round(self) -> None:
        if not self.in_flight:
            self.in_flight = self.pending.take()

    def end_round(self) -> None:
        for partition, parts in self.in_flight.items():
            self._store(partition, join_records(parts))
        self.in_flight = {}

    def go_on(self) -> None:
        """Let those go on that may; set those aside that cannot."""
        if not self.in_flight:
            for partition, error in self.waits.go_on(self.writers, self.pending).items():
                self.pending.drop([partition])
                self.kafka.pause([partition])
                del self.writers[partition]
                self.stuck[partition] = error

    def turn(self, most: int = 1000) -> bool:
        """Do all of it once; return whether all is stored."""
        self.fetch(most)
        self.end_round()
        self.begin_round()
        self.end_round()
        self.go_on()
        return self.is_done()

    def is_done(self) -> bool:
        return all(len(self.stored[at]) == len(all_) for at, all_ in self.kafka.values.items())

    def _store(self, partition: Partition, records: ShardRecords) -> None:
        stored, schemas = self.stored[partition], records.schemas
        rows: list[Any] = records.rows.column("schema").to_pylist()
        became: dict[int, int | None] = dict.fromkeys(records.dead_letters)
        for offset, number in zip(records.offsets.tolist(), rows, strict=True):
            became[offset] = schemas[number].registry_id
        places = sorted(became)
        assert places == list(range(len(stored), len(stored) + len(places))), partition
        stored.extend(became[offset] for offset in places)
        self.writers[partition].place = Place(records.end)


def value_of(schema_id: int) -> bytes:
    value: bytes = framed(schema_id, TEXT, {"at": schema_id})
    return value


def play(bench: Bench, chance: Random, turns: int) -> None:
    """Do anything in any order, partitions that come and go among it."""
    partitions = list(bench.kafka.values)
    for _ in range(turns):
        partition = chance.choice(partitions)
        match chance.randrange(13):
            case 0 | 1 | 2:
                bench.fetch(chance.choice([1, 3, 50]), chance.choice([1, 1, 3]))
            case 3 | 4:
                bench.begin_round()
            case 5 | 6:
                bench.end_round()
            case 7 | 8:
                bench.go_on()
            case 9:
                bench.clock.advance(chance.choice([0.1, 1.5, 7.0, 70.0]))
            case 10:
                bench.registry.mood = chance.choice(["well", "well", *REFUSALS])
            case 11:
                # As after a round that took long.
                bench.kafka.resume(bench.writers)
            case _:
                if partition in bench.writers:
                    bench.release(partition)
                else:
                    bench.take(partition)
