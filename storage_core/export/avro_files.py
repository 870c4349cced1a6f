"""Rows as Avro container files; bodies are copied without decoding.

A record is a row: first the log's own columns, then `value` by its writer's schema, or null for a
tombstone. So a file has the rows of one schema. Rows without a schema, and those whose value does
not decode by it, are in a file of their own, with their `payload`.

    row      place (8 bytes), the log's columns, 0 for null or 2 and the body
    place    the size of the row, and the offset of the value in it: uint32, little-endian

By `place` rows are found without decoding values; `frame` is the framing before the body. Rows are
in order of address.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro import AvroSchema, body_starts, decode_batch, encode_batch, verified_starts
from storage_core.errors import InvalidRequestError
from storage_core.export.avro_container import (
    SYNC_BYTES,
    blocks_in,
    container_block,
    container_header,
)
from storage_core.export.export_rows import ExportContext, to_export_rows, with_all_columns
from storage_core.export.manifest import Codec, ExportedFile
from storage_core.export.memory_budget import MemoryBudget
from storage_core.export.verified_file import BATCH_ROWS, VerifiedFile

_HEADER_BYTES: Final = 8
# How many bytes of rows are decoded at once, or one row.
_BATCH_BYTES: Final = 8 * 2**20
# Memory of a row, and of a block beside its rows, which are some thousand.
_ROW_BYTES: Final = 48
_BLOCK_BYTES: Final = 2**16
_NO_VALUE: Final = b"\x00"
_VALUE: Final = b"\x02"
_NO_SCHEMA: Final = -1
_HEADER_TYPE: Final = {"type": "fixed", "name": "shardlog_place", "size": _HEADER_BYTES}
_HEADERS: Final = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "shardlog_header",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "value", "type": ["null", "bytes"], "default": None},
        ],
    },
}
_ROW_FIELDS: Final[tuple[tuple[str, object], ...]] = (
    ("shard", "int"),
    ("secondary", "int"),
    ("primary", "long"),
    ("address", "long"),
    ("version", "int"),
    ("state", "int"),
    ("key", ["null", "bytes"]),
    ("headers", ["null", _HEADERS]),
    ("timestamp", ["null", "long"]),
    ("timestamp_type", ["null", "int"]),
)
_TYPED_FIELDS: Final = (("frame", "bytes"),)
_RAW_FIELDS: Final = (("schema", ["null", "int"]), ("payload", ["null", "bytes"]))
_compute: Any = pc
_untyped: Any = pa
Offsets = npt.NDArray[np.int64]


class AvroFiles:
    """Avro containers: a file for each schema of a row range, and one for other payloads."""

    def __init__(self, context: ExportContext, codec: Codec) -> None:
        """Write and read rows of an export."""
        self._context = context
        self._codec = codec
        has_keys = context.has_keys
        columns = [field for field in _ROW_FIELDS if not (has_keys and field[0] == "secondary")]
        self._typed = _record([*columns, *_TYPED_FIELDS])
        self._raw = _record([*columns, *_RAW_FIELDS])

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a range as files with names from `stem`."""
        rows: Any = to_export_rows(batches, has_keys=self._context.has_keys).combine_chunks()
        starts = body_starts(rows.column("payload"), rows.column("headers").combine_chunks())
        numbers, starts = self._numbers(rows, starts)
        written = []
        for number in np.unique(numbers).tolist():
            rows_of_schema = np.flatnonzero(numbers == number)
            name = "raw" if number == _NO_SCHEMA else str(number)
            batch = rows.take(_untyped.array(rows_of_schema))
            with VerifiedFile(directory / f"{stem}-{name}.avro") as file:
                self._write(file, number, batch, starts[rows_of_schema])
            value_schema = (
                "" if number == _NO_SCHEMA else self._context.writers[number].schema.full_name
            )
            first = int(batch.column("address")[0].as_py())
            written.append(
                file.entry(value_schema, None if number == _NO_SCHEMA else number, first)
            )
        return tuple(written)

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the rows in the first bytes of a file."""
        compressed, budget = (
            MemoryBudget(self._context.bytes_max),
            MemoryBudget(self._context.bytes_max),
        )
        tables = [with_all_columns(pa.table({}), has_keys=self._context.has_keys)]
        for rows in blocks_in(data, self._codec, compressed):
            compressed.take(_BLOCK_BYTES)
            for offsets in _batches(_row_offsets(rows, compressed)):
                if file.schema is None:
                    (encoded,) = _split(rows, offsets)
                    table = _decoded(encoded, self._raw, _HEADER_BYTES)
                else:
                    table = self._typed_rows(rows, offsets, file.schema)
                budget.take(table.nbytes)
                tables.append(with_all_columns(table, has_keys=self._context.has_keys))
        rows_read: pa.Table = _untyped.concat_tables(tables)
        return rows_read

    def _numbers(self, rows: Any, starts: Offsets) -> tuple[Offsets, Offsets]:  # noqa: ANN401 - a table
        """Return the schema of each row, and the start of its body.

        A value that does not decode has no schema, nor has one whose body is JSON.
        """
        starts = starts.copy()
        numbers: Offsets = rows.column("schema").fill_null(_NO_SCHEMA).to_numpy().astype(np.int64)
        payloads = rows.column("payload").combine_chunks()
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rows_of_schema = np.flatnonzero(numbers == number)
            bodies = payloads.take(_untyped.array(rows_of_schema))
            writer = self._context.writers[number]
            if writer.schema.has_json_bodies:
                numbers[rows_of_schema] = _NO_SCHEMA
                continue
            try:
                body_offsets = verified_starts(
                    writer.schema, writer.registry_id, bodies, starts[rows_of_schema]
                )
                starts[rows_of_schema] = body_offsets
                faults = decode_batch(bodies, writer.schema, starts=body_offsets).faults
                self._text(number)
            except InvalidRequestError:
                numbers[rows_of_schema] = _NO_SCHEMA
            else:
                numbers[rows_of_schema[[fault.row for fault in faults]]] = _NO_SCHEMA
        return numbers, starts

    def _write(self, file: VerifiedFile, number: int, rows: Any, starts: Offsets) -> None:  # noqa: ANN401 - a table
        sync = secrets.token_bytes(SYNC_BYTES)
        header = container_header(self._text(number), self._codec, sync)
        for first in range(0, rows.num_rows, BATCH_ROWS):
            batch = rows.slice(first, BATCH_ROWS).combine_chunks()
            encoded = self._rows(number, batch, starts[first : first + BATCH_ROWS])
            block = container_block(encoded, batch.num_rows, self._codec, sync)
            file.add(header + block, batch.num_rows)
            header = b""

    def _rows(self, number: int, rows: Any, starts: Offsets) -> bytes:  # noqa: ANN401 - a table
        """Return the records of rows, concatenated."""
        wide = {"version": pa.int32(), "state": pa.int32(), "timestamp_type": pa.int32()}
        for name, wide_type in wide.items():
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, name, rows.column(name).cast(wide_type))
        payloads = rows.column("payload").combine_chunks()
        if number == _NO_SCHEMA:
            raw = encode_batch(rows, self._raw)
            return _concatenated(raw, _sizes(raw), _untyped.array([b""] * len(raw), pa.binary()))
        valid = payloads.is_valid()
        payload_bytes = payloads.fill_null(b"")
        offsets, data = _offsets_and_data(payload_bytes)
        frames, bodies = _split(data, offsets, offsets[:-1] + starts)
        rows = rows.drop_columns(["schema", "payload"]).append_column("frame", frames)
        columns = encode_batch(rows, self._typed)
        flags = _compute.if_else(valid, _VALUE, _NO_VALUE).cast(pa.binary())
        values = _compute.binary_join_element_wise(flags, bodies, b"")
        return _concatenated(columns, _sizes(columns), values)

    def _typed_rows(self, rows: npt.NDArray[np.uint8], offsets: Offsets, number: int) -> pa.Table:
        value_starts = (
            rows[offsets[:-1, None] + np.arange(4, _HEADER_BYTES)].copy().view("<u4")[:, 0]
        )
        # IMPORTANT: Arrow does not check offsets, and would read past the rows.
        if bool(((value_starts < _HEADER_BYTES) | (value_starts >= np.diff(offsets))).any()):
            message = "the value of a row begins outside of it"
            raise ValueError(message)
        values = offsets[:-1] + value_starts
        columns, flags, bodies = _split(rows, offsets, values, values + 1)
        decoded: Any = _decoded(columns, self._typed, _HEADER_BYTES)
        frames = decoded.column("frame").combine_chunks()
        payloads = _compute.binary_join_element_wise(frames, bodies, b"")
        has_value, null = _compute.equal(flags, _VALUE), _untyped.scalar(None, pa.binary())
        numbers = _untyped.array(np.full(len(bodies), number, np.int32))
        decoded = decoded.append_column("payload", _compute.if_else(has_value, payloads, null))
        rows_found: pa.Table = decoded.append_column("schema", numbers)
        return rows_found

    def _text(self, number: int) -> str:
        """Return the schema of the file with the rows of a schema.

        Raises:
            InvalidRequestError: That schema cannot be nested in another.
        """
        if number == _NO_SCHEMA:
            text = json.loads(self._raw.text)
        else:
            text = json.loads(self._typed.text)
            value = json.loads(self._context.writers[number].schema.text)
            text["fields"].append({"name": "value", "type": ["null", value]})
        text["fields"].insert(0, {"name": "place", "type": _HEADER_TYPE})
        return AvroSchema.stored(json.dumps(text)).text


def _record(fields: Sequence[tuple[str, object]]) -> AvroSchema:
    # IMPORTANT: without a namespace, which names in values' schemas would inherit.
    named = [{"name": name, "type": avro_type} for name, avro_type in fields]
    text = {"type": "record", "name": "shardlog_row", "fields": named}
    return AvroSchema.parse(json.dumps(text))


def _concatenated(columns: Any, sizes: Offsets, values: Any) -> bytes:  # noqa: ANN401 - arrays
    """Return rows, each after its place, concatenated."""
    places = np.empty((len(columns), 2), "<u4")
    places[:, 1] = sizes + _HEADER_BYTES
    places[:, 0] = places[:, 1] + _sizes(values)
    buffers = [None, pa.py_buffer(places.tobytes())]
    headers = _untyped.Array.from_buffers(pa.binary(_HEADER_BYTES), len(columns), buffers)
    rows = _compute.binary_join_element_wise(headers.cast(pa.binary()), columns, values, b"")
    offsets, data = _offsets_and_data(rows)
    return data[offsets[0] : offsets[-1]].tobytes()


def _sizes(column: Any) -> Offsets:  # noqa: ANN401 - an array
    sizes: Offsets = _compute.binary_length(column).to_numpy().astype(np.int64)
    return sizes


def _offsets_and_data(column: Any) -> tuple[Offsets, npt.NDArray[np.uint8]]:  # noqa: ANN401 - an array
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    data = column.buffers()[2]
    return offsets.astype(np.int64), np.frombuffer(data if data is not None else b"", np.uint8)


def _split(data: npt.NDArray[np.uint8], offsets: Offsets, *cuts: Offsets) -> list[Any]:
    """Split each row at some cuts; return an array for each part."""
    count = len(cuts) + 1
    bounds = np.empty(count * (len(offsets) - 1) + 1, np.int64)
    bounds[::count] = offsets
    for index, cut in enumerate(cuts, 1):
        bounds[index::count] = cut
    buffers = [None, pa.py_buffer(bounds.astype(np.int32).tobytes()), _untyped.py_buffer(data)]
    parts = _untyped.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    indices = (np.arange(index, len(parts), count) for index in range(count))
    return [parts.take(_untyped.array(index)) for index in indices]


def _row_offsets(rows: npt.NDArray[np.uint8], budget: MemoryBudget) -> Offsets:
    """Return the offsets of rows.

    Raises:
        ValueError: The bytes are not rows.
        TooLargeError: They exceed the memory budget.
    """
    data, offsets = rows.tobytes(), [0]
    while offsets[-1] < len(data):
        begin = offsets[-1]
        size = int.from_bytes(data[begin : begin + 4], "little")
        if not _HEADER_BYTES <= size <= len(data) - begin:
            message = f"a row of {size} bytes at byte {begin} of {len(data)}"
            raise ValueError(message)
        budget.take(_ROW_BYTES)
        offsets.append(begin + size)
    return np.array(offsets, np.int64)


def _batches(offsets: Offsets) -> Iterator[Offsets]:
    """Yield the offsets of some rows at a time."""
    first = 0
    while first < len(offsets) - 1:
        next_row = int(np.searchsorted(offsets, offsets[first] + _BATCH_BYTES, "right"))
        end = max(first + 1, next_row - 1)
        yield offsets[first : end + 1]
        first = end


def _decoded(rows: Any, schema: AvroSchema, start: int) -> pa.Table:  # noqa: ANN401 - an array
    decoded = decode_batch(rows, schema, starts=start)
    if decoded.faults:
        message = f"a row cannot be decoded: {decoded.faults[0].reason}"
        raise ValueError(message)
    return decoded.table
