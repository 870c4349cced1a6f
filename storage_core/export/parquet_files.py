"""Rows as files of Parquet with the columns that parts have: typed, sorted by id and time.

A payload is left out where the fields of its value can make it again, bit for bit; so a file has as
much as the log. `schema` is the number of a schema in the manifest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_core.avro import AvroSchema
from storage_core.export.bounds import FILE_BYTES_MAX, Room
from storage_core.export.manifest import ExportedFile, Piece
from storage_core.export.parquet_bounds import refuse_bloated
from storage_core.export.plain_rows import filled
from storage_core.parts.part_file import write_part
from storage_core.parts.part_proof import prove_part
from storage_core.parts.part_rows import part_rows
from storage_core.parts.payloads import payloads_of
from storage_core.parts.typed_columns import Writer, columns_in, reader_schema

_parquet: Any = pq
_untyped: Any = pa
_compute: Any = pc


class ParquetFiles:
    """The form of Parquet: of a chunk a file for each kind of value, and one for its late rows."""

    def __init__(
        self, writers: Sequence[Writer], *, has_keys: bool, bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        """Write and read rows whose schemas are these, by number.

        `bytes_max` is what the rows of a file that is read may take.
        """
        self._writers = writers
        self._has_keys = has_keys
        self._bytes_max = bytes_max

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a chunk as files whose names begin alike."""
        made = part_rows(batches, has_keys=self._has_keys, writers=self._writers)
        written = []
        for number, part in enumerate(made):
            path = directory / f"{stem}-{number}.parquet"
            proof = write_part(path, part.rows, part.order)
            prove_part(path, part.rows)
            addresses: Any = part.rows.column("address")
            first, count = int(addresses.to_numpy().min()), part.rows.num_rows
            pieces = (Piece(proof.size, count, proof.digest.hex()),)
            written.append(
                ExportedFile(path.name, part.kind, None, count, proof.size, first, pieces)
            )
        return tuple(written)

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the rows that the bytes of a whole file have; of a part of one there are none."""
        if not data:
            return filled(pa.table({}), has_keys=self._has_keys)
        # IMPORTANT: before its library makes room for whatever the file says.
        repeated = refuse_bloated(data, file.rows, self._bytes_max)
        room = Room(self._bytes_max)
        tables = [filled(pa.table({}), has_keys=self._has_keys)]
        source = _untyped.BufferReader(data)
        with _parquet.ParquetFile(source, read_dictionary=repeated) as opened:
            reader = self._reader(opened) if file.kind else None
            for group in range(opened.num_row_groups):
                rows = _without_dictionaries(opened.read_row_group(group), room)
                if reader is not None:
                    rows = self._with_payloads(rows, reader)
                tables.append(filled(rows, has_keys=self._has_keys))
                room.take(tables[-1].nbytes)
        made: pa.Table = _untyped.concat_tables(tables)
        return made

    def _reader(self, opened: Any) -> AvroSchema:  # noqa: ANN401 - the library's
        """Return the schema by which the values of a file are shown."""
        numbers = opened.read(columns=["schema"]).column("schema").to_numpy()
        return reader_schema(dict(enumerate(self._writers)), np.unique(numbers).tolist())

    def _with_payloads(self, rows: pa.Table, reader: AvroSchema) -> pa.Table:
        writers = dict(enumerate(self._writers))
        columns = columns_in(reader, rows.schema.names)
        if "payload" not in rows.schema.names:
            rows = rows.append_column("payload", _untyped.nulls(rows.num_rows, pa.binary()))
        payloads = payloads_of(rows, writers, columns, reader)
        index = rows.schema.get_field_index("payload")
        return rows.set_column(index, "payload", payloads)


def _without_dictionaries(rows: Any, room: Room) -> pa.Table:  # noqa: ANN401 - a table
    """Return rows whose columns have values in the place of dictionaries.

    Raises:
        TooLargeError: They would take more than there is room for.
    """
    for index, field in enumerate(rows.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        for chunk in rows.column(index).chunks:
            sizes = _compute.binary_length(chunk.dictionary).take(chunk.indices)
            room.refuse_beyond(_compute.sum(sizes).as_py() or 0)
        rows = rows.set_column(index, field.name, rows.column(index).cast(field.type.value_type))
    table: pa.Table = rows
    return table
