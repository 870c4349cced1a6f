"""Streams whose values were written by schemas, and the source's own readers over them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from storage_core import SchemaEntry
from storage_core.avro import AvroSchema
from streaming_jobs.data_source import ShardlogSource
from tests.unit.connectors.framed import written
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, SourceLab, rows_of


def entry_of(registry_id: int, text: str) -> SchemaEntry:
    """Return a schema as a worker keeps it."""
    schema = AvroSchema.parse(text)
    return SchemaEntry(registry_id, schema.identity, schema.text)


def framed_by(registry_id: int, text: str, value: Any) -> bytes:
    return b"\x00" + registry_id.to_bytes(4, "big") + written(text, value)


class TypedLab(SourceLab):
    """A stream of values by schemas, all in one shard unless it is made otherwise."""

    def put_values(
        self,
        values: Sequence[tuple[int | None, bytes | None]],
        schemas: Sequence[SchemaEntry] = (),
        **more: Any,
    ) -> None:
        """Commit rows, each with the place of its schema among those given, and its payload."""
        count = len(values)
        columns = {
            "primary": pa.array([FIRST_MS + at for at in range(count)]),
            "secondary": pa.array(range(count), pa.int32()),
            "payload": pa.array([value for _, value in values], pa.binary()),
            "schema": pa.array([place for place, _ in values], pa.int32()),
            **more,
        }
        if not schemas:
            del columns["schema"]
        self.writer.append_batch(pa.table(columns), schemas=list(schemas))
        self.writer.commit()

    def frame(self, **options: Any) -> list[dict[str, Any]]:
        """Return the rows of a batch read of values by fields."""
        source = ShardlogSource(self.options(valueFormat="avro", **options))
        schema = source.schema()
        reader = source.reader(schema)
        return rows_of(reader, reader.partitions())

    def names(self, **options: Any) -> list[str]:
        return list(ShardlogSource(self.options(valueFormat="avro", **options)).schema().names)
