"""Rows as Avro container files, which every Avro library reads; bodies are copied as they lie.

A record of a file is a row: first what stands beside its value, then `value`, by the schema that
wrote it, or null for a tombstone. So a file has the rows of one schema. Rows without one, and those
whose value does not decode by theirs, are in a file of their own, with their `payload`.

    row      place (8 bytes), the fields beside the value, 0 for null or 2 and the body
    place    how many bytes the row has, and where in it the value begins: uint32, little-endian

`place` lets rows be found without decoding values; `frame` is what stood before the body. Rows lie
by address.
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

from storage_core.avro import AvroSchema, decode_batch, encode_batch, starts_by, starts_of
from storage_core.errors import InvalidRequestError
from storage_core.export.avro_container import SYNC_BYTES, block_of, blocks_in, head_of
from storage_core.export.bounds import FILE_BYTES_MAX, Room
from storage_core.export.manifest import Codec, ExportedFile
from storage_core.export.plain_rows import filled, plain
from storage_core.export.proven_file import PIECE_ROWS, ProvenFile
from storage_core.parts.typed_columns import Writer

_PLACE_BYTES: Final = 8
# So many bytes of rows are decoded at once, or one row.
_PIECE_BYTES: Final = 8 * 2**20
# What is held of each row, and beside its rows of each block, which has some thousand rows.
_ROW_BYTES: Final = 48
_BLOCK_BYTES: Final = 2**16
_NO_VALUE: Final = b"\x00"
_VALUE: Final = b"\x02"
_RAW: Final = -1
_PLACE: Final = {"type": "fixed", "name": "shardlog_place", "size": _PLACE_BYTES}
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
_BESIDE: Final[tuple[tuple[str, object], ...]] = (
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
_OF_TYPED: Final = (("frame", "bytes"),)
_OF_RAW: Final = (("schema", ["null", "int"]), ("payload", ["null", "bytes"]))
_compute: Any = pc
_untyped: Any = pa
Places = npt.NDArray[np.int64]


class AvroFiles:
    """The form of Avro containers: of a chunk a file for each schema, and one for other bytes."""

    def __init__(
        self,
        writers: Sequence[Writer],
        codec: Codec,
        *,
        has_keys: bool,
        bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        """Write and read rows whose schemas are these, by number.

        `bytes_max` is what the rows of a file that is read may take.
        """
        self._writers = writers
        self._codec = codec
        self._bytes_max = bytes_max
        beside = [one for one in _BESIDE if not (has_keys and one[0] == "secondary")]
        self._typed = _record([*beside, *_OF_TYPED])
        self._raw = _record([*beside, *_OF_RAW])
        self._has_keys = has_keys

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a chunk as files whose names begin alike."""
        rows: Any = plain(batches, has_keys=self._has_keys).combine_chunks()
        starts = starts_of(rows.column("payload"), rows.column("headers").combine_chunks())
        numbers, starts = self._numbers(rows, starts)
        written = []
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            name = "raw" if number == _RAW else str(number)
            some = rows.take(_untyped.array(places))
            with ProvenFile(directory / f"{stem}-{name}.avro") as file:
                self._write(file, number, some, starts[places])
            kind = "" if number == _RAW else self._writers[number].schema.full_name
            first = int(some.column("address")[0].as_py())
            written.append(file.entry(kind, None if number == _RAW else number, first))
        return tuple(written)

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the rows that the first bytes of a file have."""
        packed, room = Room(self._bytes_max), Room(self._bytes_max)
        tables = [filled(pa.table({}), has_keys=self._has_keys)]
        for rows in blocks_in(data, self._codec, packed):
            packed.take(_BLOCK_BYTES)
            for edges in _pieces(_edges(rows, packed)):
                if file.schema is None:
                    (whole,) = _parts(rows, edges)
                    table = _decoded(whole, self._raw, _PLACE_BYTES)
                else:
                    table = self._typed_rows(rows, edges, file.schema)
                room.take(table.nbytes)
                tables.append(filled(table, has_keys=self._has_keys))
        made: pa.Table = _untyped.concat_tables(tables)
        return made

    def _numbers(self, rows: Any, starts: Places) -> tuple[Places, Places]:  # noqa: ANN401 - a table
        """Return the schema of each row, and where its body begins.

        That of a value that does not decode is none.
        """
        starts = starts.copy()
        numbers: Places = rows.column("schema").fill_null(_RAW).to_numpy().astype(np.int64)
        payloads = rows.column("payload").combine_chunks()
        for number in np.unique(numbers[numbers >= 0]).tolist():
            places = np.flatnonzero(numbers == number)
            bodies = payloads.take(_untyped.array(places))
            try:
                writer = self._writers[number]
                begins = starts_by(writer.schema, writer.registry_id, bodies, starts[places])
                starts[places] = begins
                faults = decode_batch(bodies, writer.schema, starts=begins).faults
                self._text(number)
            except InvalidRequestError:
                numbers[places] = _RAW
            else:
                numbers[places[[fault.row for fault in faults]]] = _RAW
        return numbers, starts

    def _write(self, file: ProvenFile, number: int, rows: Any, starts: Places) -> None:  # noqa: ANN401 - a table
        sync = secrets.token_bytes(SYNC_BYTES)
        head = head_of(self._text(number), self._codec, sync)
        for first in range(0, rows.num_rows, PIECE_ROWS):
            some = rows.slice(first, PIECE_ROWS).combine_chunks()
            made = self._rows(number, some, starts[first : first + PIECE_ROWS])
            file.add(head + block_of(made, some.num_rows, self._codec, sync), some.num_rows)
            head = b""

    def _rows(self, number: int, rows: Any, starts: Places) -> bytes:  # noqa: ANN401 - a table
        """Return rows as the file has them, one behind the other."""
        wide = {"version": pa.int32(), "state": pa.int32(), "timestamp_type": pa.int32()}
        for name, kind in wide.items():
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, name, rows.column(name).cast(kind))
        payloads = rows.column("payload").combine_chunks()
        if number == _RAW:
            made = encode_batch(rows, self._raw)
            return _joined(made, _sizes(made), _untyped.array([b""] * len(made), pa.binary()))
        present = payloads.is_valid()
        whole = payloads.fill_null(b"")
        edges, data = _edges_and_data(whole)
        frames, bodies = _parts(data, edges, edges[:-1] + starts)
        rows = rows.drop_columns(["schema", "payload"]).append_column("frame", frames)
        beside = encode_batch(rows, self._typed)
        flags = _compute.if_else(present, _VALUE, _NO_VALUE).cast(pa.binary())
        values = _compute.binary_join_element_wise(flags, bodies, b"")
        return _joined(beside, _sizes(beside), values)

    def _typed_rows(self, rows: npt.NDArray[np.uint8], edges: Places, number: int) -> pa.Table:
        at = rows[edges[:-1, None] + np.arange(4, _PLACE_BYTES)].copy().view("<u4")[:, 0]
        # IMPORTANT: Arrow trusts where parts begin, and would read behind the rows.
        if bool(((at < _PLACE_BYTES) | (at >= np.diff(edges))).any()):
            message = "a value begins outside its row"
            raise ValueError(message)
        values = edges[:-1] + at
        beside, flags, bodies = _parts(rows, edges, values, values + 1)
        decoded: Any = _decoded(beside, self._typed, _PLACE_BYTES)
        frames = decoded.column("frame").combine_chunks()
        payloads = _compute.binary_join_element_wise(frames, bodies, b"")
        is_there, none = _compute.equal(flags, _VALUE), _untyped.scalar(None, pa.binary())
        numbers = _untyped.array(np.full(len(bodies), number, np.int32))
        decoded = decoded.append_column("payload", _compute.if_else(is_there, payloads, none))
        rows_found: pa.Table = decoded.append_column("schema", numbers)
        return rows_found

    def _text(self, number: int) -> str:
        """Return the schema of the file of the rows of a schema.

        Raises:
            InvalidRequestError: There can be none, as that schema cannot be a part of another.
        """
        if number == _RAW:
            text = json.loads(self._raw.text)
        else:
            text = json.loads(self._typed.text)
            value = json.loads(self._writers[number].schema.text)
            text["fields"].append({"name": "value", "type": ["null", value]})
        text["fields"].insert(0, {"name": "place", "type": _PLACE})
        return AvroSchema.stored(json.dumps(text)).text


def _record(fields: Sequence[tuple[str, object]]) -> AvroSchema:
    # IMPORTANT: without a namespace, which names in the values' schemas would inherit.
    named = [{"name": name, "type": kind} for name, kind in fields]
    text = {"type": "record", "name": "shardlog_row", "fields": named}
    return AvroSchema.parse(json.dumps(text))


def _joined(beside: Any, sizes: Places, values: Any) -> bytes:  # noqa: ANN401 - arrays
    """Return rows with their places before them, one behind the other."""
    places = np.empty((len(beside), 2), "<u4")
    places[:, 1] = sizes + _PLACE_BYTES
    places[:, 0] = places[:, 1] + _sizes(values)
    kind = pa.binary(_PLACE_BYTES)
    heads = _untyped.Array.from_buffers(kind, len(beside), [None, pa.py_buffer(places.tobytes())])
    rows = _compute.binary_join_element_wise(heads.cast(pa.binary()), beside, values, b"")
    edges, data = _edges_and_data(rows)
    return data[edges[0] : edges[-1]].tobytes()


def _sizes(column: Any) -> Places:  # noqa: ANN401 - an array
    sizes: Places = _compute.binary_length(column).to_numpy().astype(np.int64)
    return sizes


def _edges_and_data(column: Any) -> tuple[Places, npt.NDArray[np.uint8]]:  # noqa: ANN401 - an array
    edges = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    data = column.buffers()[2]
    return edges.astype(np.int64), np.frombuffer(data if data is not None else b"", np.uint8)


def _parts(data: npt.NDArray[np.uint8], edges: Places, *cuts: Places) -> list[Any]:
    """Return what lies between the edges and some cuts of each row, one array a part."""
    count = len(cuts) + 1
    places = np.empty(count * (len(edges) - 1) + 1, np.int64)
    places[::count] = edges
    for index, cut in enumerate(cuts, 1):
        places[index::count] = cut
    offsets = pa.py_buffer(places.astype(np.int32).tobytes())
    whole = _untyped.py_buffer(data)
    both = _untyped.Array.from_buffers(pa.binary(), len(places) - 1, [None, offsets, whole])
    return [both.take(_untyped.array(np.arange(index, len(both), count))) for index in range(count)]


def _edges(rows: npt.NDArray[np.uint8], room: Room) -> Places:
    """Return where each row begins, and where the last one ends.

    Raises:
        ValueError: They are no rows.
        TooLargeError: They are more than there is room for.
    """
    data, edges = rows.tobytes(), [0]
    while edges[-1] < len(data):
        begin = edges[-1]
        size = int.from_bytes(data[begin : begin + 4], "little")
        if not _PLACE_BYTES <= size <= len(data) - begin:
            message = f"a row of {size} bytes at byte {begin} of {len(data)}"
            raise ValueError(message)
        room.take(_ROW_BYTES)
        edges.append(begin + size)
    return np.array(edges, np.int64)


def _pieces(edges: Places) -> Iterator[Places]:
    """Yield the edges of some neighbouring rows at a time."""
    first = 0
    while first < len(edges) - 1:
        behind = int(np.searchsorted(edges, edges[first] + _PIECE_BYTES, "right"))
        end = max(first + 1, behind - 1)
        yield edges[first : end + 1]
        first = end


def _decoded(rows: Any, schema: AvroSchema, start: int) -> pa.Table:  # noqa: ANN401 - an array
    decoded = decode_batch(rows, schema, starts=start)
    if decoded.faults:
        message = f"a row cannot be read: {decoded.faults[0].reason}"
        raise ValueError(message)
    return decoded.table
