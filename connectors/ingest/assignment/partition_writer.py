"""One partition on its way into its shard: the open shard, and where it stands."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.group.home_mark import HomeMark
from connectors.ingest.mapping import SCHEMA, ShardRecords
from connectors.ingest.status.worker_state import PartitionState
from connectors.ingest.values.avro_values import NO_SCHEMA, WriterSchema
from connectors.kafka import Partition, Place
from connectors.settings.stream_settings import MappingRules
from storage_core import AppendReport, SchemaEntry, Stream

_NO_ROWS: Final = pa.RecordBatch.from_pylist([], schema=SCHEMA)
_NO_OFFSETS: Final = np.empty(0, dtype=np.int64)
_DEFAULT_RULES: Final = MappingRules()


@dataclass(slots=True)
class PartitionWriter:
    """A partition this process owns.

    The worker's thread alone changes it. A round reads it on its own thread, and only `move`
    changes it while one may be under way: once that round is over.

    Attributes:
        partition: The topic's partition; its number is the shard's.
        stream: The stream, open with this one shard.
        topic_id: The topic the stream was made from.
        home: What is left beside the group's offset.
        next: The offset below which everything is durable.
        epoch: The leader epoch of the last record below it, for Kafka to notice a log that was
            cut.
        rules: How its records become rows: the stream's own, whatever the file says by now.
    """

    partition: Partition
    stream: Stream
    topic_id: str
    home: HomeMark
    next: int
    epoch: int | None = None
    rules: MappingRules = _DEFAULT_RULES

    @property
    def place(self) -> Place:
        """Where Kafka is to go on."""
        return Place(self.next, self.epoch)

    @property
    def group_place(self) -> Place:
        """What the group is told."""
        return Place(self.next, metadata=self.home.encode())

    def state(self, end: int | None) -> PartitionState:
        """Return how it stands, where the partition ends there."""
        stats = self.stream.stats(self.partition.number)
        is_sealed = not self.stream.options.never_cold
        unsealed = self.stream.unsealed()[self.partition.number] if is_sealed else None
        return PartitionState(self.partition, self.next, end, stats, unsealed)

    def move(self, place: Place) -> None:
        """Take note that everything below a place is durable."""
        self.next, self.epoch = place.offset, place.epoch

    def append(self, records: ShardRecords, next_offset: int) -> AppendReport:
        """Write rows, their schemas, dead letters and the next offset as one; not yet durable."""
        rows, schemas = stored_rows(records)
        return self.stream.append_batch(
            rows,
            shard=self.partition.number,
            addresses=records.offsets,
            dead_letters=records.dead_letters,
            source={"next": next_offset, "epoch": records.epoch},
            schemas=schemas,
        )

    def schema_text(self, registry_id: int) -> str | None:
        """Return the newest schema of this id of the registry's that the shard has, if any."""
        schemas = self.stream.schemas(registry_id)
        return schemas[-1].text if schemas else None

    def nothing_until(self, next_offset: int) -> ShardRecords:
        """Return what stands for offsets that carry no records."""
        return ShardRecords(_NO_ROWS, _NO_OFFSETS, {}, self.next, next_offset, self.epoch, 0)

    def commit(self) -> int:
        """Make everything appended durable and return the end of it."""
        return self.stream.commit()[self.partition.number]


def stored_rows(records: ShardRecords) -> tuple[pa.RecordBatch, tuple[SchemaEntry, ...]]:
    """Return rows that name their schemas by place, and those schemas."""
    if not records.schemas:
        return records.rows, ()
    field_index = records.rows.schema.get_field_index("schema")
    column: Any = records.rows.column(field_index)
    numbers = column.fill_null(NO_SCHEMA).to_numpy()
    used = [number for number in np.unique(numbers).tolist() if number != NO_SCHEMA]
    entries = tuple(_entry(records.schemas[number]) for number in used)
    places = np.searchsorted(used, numbers).astype(np.int32)
    place_column = (
        pa.array(places, mask=numbers == NO_SCHEMA) if column.null_count else pa.array(places)
    )
    rows = records.rows.set_column(
        field_index, records.rows.schema.field(field_index), place_column
    )
    versions = [records.schemas[number].version for number in used]
    if any(versions):
        of_rows = np.array([*versions, 0], np.uint16)[np.where(numbers == NO_SCHEMA, -1, places)]
        rows = rows.append_column("version", pa.array(of_rows))
    return rows, entries


def _entry(schema: WriterSchema) -> SchemaEntry:
    return SchemaEntry(schema.registry_id, schema.schema.identity, schema.schema.text)
