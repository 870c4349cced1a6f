"""Rows as files of Parquet with the columns that parts have: typed, sorted by id and time.

A payload is left out where the fields of its value can make it again, bit for bit; so a file has as
much as the log. `schema` is the number of a schema in the manifest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError
from storage_core.exchange.manifest import ExportedFile, Piece
from storage_core.exchange.plain_rows import filled
from storage_core.fields import AvroSchema
from storage_core.parts.part_file import prove_part, write_part
from storage_core.parts.part_rows import part_rows
from storage_core.sealed.part_values import Writer, columns_in, payloads_of, reader_of

_parquet: Any = pq
_untyped: Any = pa


class ParquetFiles:
    """The form of Parquet: of a chunk a file for each kind of value, and one for its late rows."""

    def __init__(self, writers: Sequence[Writer], *, has_keys: bool) -> None:
        """Write and read rows whose schemas are these, by number."""
        self._writers = writers
        self._has_keys = has_keys

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a chunk as files whose names begin alike."""
        made = part_rows(batches, has_keys=self._has_keys, writers=self._writers)
        found = []
        for number, part in enumerate(made):
            path = directory / f"{stem}-{number}.parquet"
            proof = write_part(path, part.rows, part.order)
            prove_part(path, part.rows)
            addresses: Any = part.rows.column("address")
            first, count = int(addresses.to_numpy().min()), part.rows.num_rows
            pieces = (Piece(proof.size, count, proof.digest.hex()),)
            found.append(ExportedFile(path.name, part.kind, None, count, proof.size, first, pieces))
        return tuple(found)

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the rows that the bytes of a whole file have; of a part of one there are none."""
        if not data:
            return filled(pa.table({}), has_keys=self._has_keys)
        try:
            with _parquet.ParquetFile(_untyped.BufferReader(data)) as opened:
                rows = opened.read()
        except pa.ArrowException as error:
            message = f"the file cannot be read: {error}"
            raise CorruptionError(message, path=Path(file.name)) from error
        if file.kind:
            rows = self._with_payloads(rows)
        return filled(rows, has_keys=self._has_keys)

    def _with_payloads(self, rows: pa.Table) -> pa.Table:
        numbers: Any = rows.column("schema")
        writers = dict(enumerate(self._writers))
        reader: AvroSchema = reader_of(writers, np.unique(numbers.to_numpy()).tolist())
        columns = columns_in(reader, rows.schema.names)
        if "payload" not in rows.schema.names:
            rows = rows.append_column("payload", _untyped.nulls(rows.num_rows, pa.binary()))
        payloads = payloads_of(rows, writers, columns, reader)
        at = rows.schema.get_field_index("payload")
        return rows.set_column(at, "payload", payloads)
