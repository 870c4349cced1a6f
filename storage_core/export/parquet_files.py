"""Rows as Parquet files with the columns of parts: typed, sorted by id and time.

A payload is left out if the typed columns rebuild it bit for bit, so nothing is lost. `schema` is
the number of a schema in the manifest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_core.avro import AvroSchema
from storage_core.export.export_rows import ExportContext, with_all_columns
from storage_core.export.manifest import ExportedFile, Prefix
from storage_core.export.memory_budget import MemoryBudget
from storage_core.export.parquet_memory import check_memory
from storage_core.parts.part_file import write_part
from storage_core.parts.part_proof import prove_part
from storage_core.parts.part_rows import part_rows
from storage_core.parts.payloads import payloads_of
from storage_core.parts.typed_columns import columns_in, reader_schema

_parquet: Any = pq
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """Parquet: a file for each value schema of a row range, and one for its late rows."""

    context: ExportContext

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a range as files with names from `stem`."""
        parts = part_rows(batches, has_keys=self.context.has_keys, writers=self.context.writers)
        written = []
        for number, part in enumerate(parts):
            path = directory / f"{stem}-{number}.parquet"
            proof = write_part(path, part.rows, part.order)
            prove_part(path, part.rows)
            addresses: Any = part.rows.column("address")
            first, count = int(addresses.to_numpy().min()), part.rows.num_rows
            prefixes = (Prefix(proof.size, count, proof.digest.hex()),)
            written.append(
                ExportedFile(path.name, part.kind, None, count, proof.size, first, prefixes)
            )
        return tuple(written)

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the rows of a whole file; a prefix of one has none."""
        if not data:
            return with_all_columns(pa.table({}), has_keys=self.context.has_keys)
        # IMPORTANT: before Arrow allocates whatever the file claims.
        repeated = check_memory(data, file.rows, self.context.bytes_max)
        budget = MemoryBudget(self.context.bytes_max)
        tables = [with_all_columns(pa.table({}), has_keys=self.context.has_keys)]
        source = _untyped.BufferReader(data)
        with _parquet.ParquetFile(source, read_dictionary=repeated) as parquet:
            reader = self._reader(parquet) if file.value_schema else None
            for row_group in range(parquet.num_row_groups):
                rows = _without_dictionaries(parquet.read_row_group(row_group), budget)
                if reader is not None:
                    rows = self._with_payloads(rows, reader)
                tables.append(with_all_columns(rows, has_keys=self.context.has_keys))
                budget.take(tables[-1].nbytes)
        parts: pa.Table = _untyped.concat_tables(tables)
        return parts

    def _reader(self, parquet: Any) -> AvroSchema:  # noqa: ANN401 - the library's
        """Return the schema of the typed columns of a file."""
        numbers = parquet.read(columns=["schema"]).column("schema").to_numpy()
        return reader_schema(dict(enumerate(self.context.writers)), np.unique(numbers).tolist())

    def _with_payloads(self, rows: pa.Table, reader: AvroSchema) -> pa.Table:
        writers = dict(enumerate(self.context.writers))
        columns = columns_in(reader, rows.schema.names)
        if "payload" not in rows.schema.names:
            rows = rows.append_column("payload", _untyped.nulls(rows.num_rows, pa.binary()))
        payloads = payloads_of(rows, writers, columns, reader)
        index = rows.schema.get_field_index("payload")
        return rows.set_column(index, "payload", payloads)


def _without_dictionaries(rows: Any, budget: MemoryBudget) -> pa.Table:  # noqa: ANN401 - a table
    """Return rows with dictionary columns decoded.

    Raises:
        TooLargeError: They would exceed the memory budget.
    """
    for index, field in enumerate(rows.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        for chunk in rows.column(index).chunks:
            sizes = _compute.binary_length(chunk.dictionary).take(chunk.indices)
            budget.check(_compute.sum(sizes).as_py() or 0)
        rows = rows.set_column(index, field.name, rows.column(index).cast(field.type.value_type))
    table: pa.Table = rows
    return table
