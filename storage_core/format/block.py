"""A block: some thousand records, the unit of writing and reading.

    block   = header | one Arrow IPC record-batch message
    header  = magic 4s | format u16 | codec u8 | spare u8 | mask u32 | shard u32 | lineage 16s |
              count u32 | first i64 | last i64 | committed_at_ms i64 | schema u32 |
              xxh3-64 of all before                                              (72 bytes)

The message's schema is not stored; it follows from the format version and the mask. The base
columns are secondary, primary and payload; each bit of the mask adds one. A column whose bit is not
set has one value: version and state are zero, addresses are dense, the envelope is absent. Where
all payloads have one schema, its number stands in the header instead of in a column.

A block names its own place (lineage, shard, first address) and its zone holds the checksum
of all its bytes: a swapped, stale or torn block cannot pass. Bytes are handed to Arrow only
after that checksum matched.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.errors import CorruptionError
from storage_core.format.record import Rows
from storage_core.format.row_columns import COMMITTED, SCHEMA, SCHEMA_TYPE, TYPES
from storage_core.platform import xxh3
from storage_core.platform.arrow import Array, alone, int_array, nulls, repeated

Codec = Literal["none", "lz4", "zstd"]

BLOCK_FORMAT: Final = 1
MASK_VERSION: Final = 1
MASK_STATE: Final = 2
MASK_ADDRESS: Final = 4
MASK_ENVELOPE: Final = {"key": 8, "headers": 16, "timestamp": 32, "timestamp_type": 64}
# A column of its own, or one number in the header: of all rows but tombstones, which have none.
MASK_SCHEMA: Final = 128
MASK_ONE_SCHEMA: Final = 256
# Never stored: of a block made again of parts, whose rows were committed at several times.
MASK_COMMITTED: Final = 512
_MASK_ALL: Final = 511

# Of what lies under a block's key where the block is in a segment (reference.py).
REFERENCE_BYTES: Final = 40
_MAGIC: Final = b"SLBK"
_HEADER: Final = struct.Struct("<4sHBBII16sIqqqI")
_CHECKSUM: Final = struct.Struct("<Q")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
_HEADER_DTYPE: Final = np.dtype(
    [
        ("magic", "S4"),
        ("format", "<u2"),
        ("codec", "u1"),
        ("spare", "u1"),
        ("mask", "<u4"),
        ("shard", "<u4"),
        ("lineage", "V16"),
        ("count", "<u4"),
        ("first", "<i8"),
        ("last", "<i8"),
        ("committed_at_ms", "<i8"),
        ("schema", "<u4"),
        ("checksum", "<u8"),
    ]
)
_CODECS: Final[tuple[Codec, ...]] = ("none", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Where a block belongs; a block that names another place is not accepted."""

    lineage: bytes
    shard: int


@dataclass(slots=True, eq=False)
class Block:
    """A decoded block; `None` columns have one value, see the module's text.

    Not frozen, as a zone is not.
    """

    first: int
    last: int
    committed_at_ms: int
    mask: int
    batch: pa.RecordBatch
    one_schema: int = 0

    def __len__(self) -> int:
        return self.batch.num_rows

    @property
    def states(self) -> npt.NDArray[np.uint8] | None:
        """State of each row, or None if all are normal."""
        states: npt.NDArray[np.uint8] | None = self._optional(MASK_STATE, "state")
        return states

    @property
    def secondaries(self) -> npt.NDArray[np.int32]:
        """Secondary of each row."""
        return self.batch.column("secondary").to_numpy()

    @property
    def primaries(self) -> npt.NDArray[np.int64]:
        """Primary of each row."""
        return self.batch.column("primary").to_numpy()

    @property
    def versions(self) -> npt.NDArray[np.uint16] | None:
        """Version of each row, or None if all are zero."""
        versions: npt.NDArray[np.uint16] | None = self._optional(MASK_VERSION, "version")
        return versions

    @property
    def addresses(self) -> npt.NDArray[np.int64]:
        """Address of each row."""
        explicit = self._optional(MASK_ADDRESS, "address")
        return np.arange(self.first, self.last + 1) if explicit is None else explicit

    @property
    def committed_times(self) -> npt.NDArray[np.int64]:
        """When each row was committed, in milliseconds."""
        times: npt.NDArray[np.int64] | None = self._optional(MASK_COMMITTED, "committed_at_ms")
        return np.full(len(self), self.committed_at_ms) if times is None else times

    @property
    def schemas(self) -> Array:
        """Number of each row's schema, null for none."""
        if self.mask & MASK_SCHEMA:
            return self.batch.column(SCHEMA)
        if not self.mask & MASK_ONE_SCHEMA:
            return nulls(len(self), SCHEMA_TYPE)
        payload = self.batch.column("payload")
        if not payload.null_count:
            return repeated(self.one_schema, SCHEMA_TYPE, len(self))
        schema_number: Any = pa.scalar(self.one_schema, SCHEMA_TYPE)
        numbers: Array = pc.if_else(payload.is_valid(), schema_number, pa.scalar(None, SCHEMA_TYPE))
        return numbers

    def _optional(self, bit: int, name: str) -> Any:  # noqa: ANN401 - the column's type
        return self.batch.column(name).to_numpy() if self.mask & bit else None


def _never_null(name: str) -> "pa.Field[Any]":
    return pa.field(name, TYPES[name], nullable=False)


@cache
def block_schema(mask: int) -> pa.Schema:
    """Return the schema of a block's message."""
    fields: list[pa.Field[Any]] = [
        _never_null("secondary"),
        _never_null("primary"),
        pa.field("payload", TYPES["payload"]),
    ]
    if mask & MASK_VERSION:
        fields.append(_never_null("version"))
    if mask & MASK_STATE:
        fields.append(_never_null("state"))
    if mask & MASK_ADDRESS:
        fields.append(_never_null("address"))
    for name, bit in MASK_ENVELOPE.items():
        if mask & bit:
            fields.append(pa.field(name, TYPES[name]))
    if mask & MASK_SCHEMA:
        fields.append(pa.field(SCHEMA, TYPES[SCHEMA]))
    if mask & MASK_COMMITTED:
        fields.append(_never_null(COMMITTED))
    return pa.schema(fields)


@cache
def _write_options(codec: Codec) -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)


def encode_block(  # noqa: PLR0913 - a block's parts
    rows: Rows,
    states: npt.NDArray[np.uint8] | None,
    addresses: npt.NDArray[np.int64],
    place: BlockPlace,
    committed_at_ms: int,
    codec: Codec,
) -> bytes:
    """Return the bytes of a block of at least one row (states None: all normal)."""
    columns = [int_array(rows.secondary), int_array(rows.primary), alone(rows.payload)]
    mask = 0
    if rows.version is not None:
        mask |= MASK_VERSION
        columns.append(int_array(rows.version))
    if states is not None:
        mask |= MASK_STATE
        columns.append(int_array(states))
    if int(addresses[-1]) - int(addresses[0]) + 1 != len(rows):
        mask |= MASK_ADDRESS
        columns.append(int_array(addresses))
    for name, bit in MASK_ENVELOPE.items():
        if name in rows.envelope:
            mask |= bit
            columns.append(alone(rows.envelope[name]))
    one_schema = 0
    if SCHEMA in rows.envelope:
        bit, one_schema = _schema_mask(rows)
        mask |= bit
        if bit == MASK_SCHEMA:
            columns.append(alone(rows.envelope[SCHEMA]))
    message = pa.RecordBatch.from_arrays(columns, schema=block_schema(mask))
    header = _HEADER.pack(
        _MAGIC,
        BLOCK_FORMAT,
        _CODECS.index(codec),
        0,
        mask,
        place.shard,
        place.lineage,
        len(rows),
        int(addresses[0]),
        int(addresses[-1]),
        committed_at_ms,
        one_schema,
    )
    checksum = _CHECKSUM.pack(xxh3.xxh3_64_intdigest(header))
    return b"".join((header, checksum, _serialize(message, _begin_of(mask), codec)))


def _schema_mask(rows: Rows) -> tuple[int, int]:
    """Return how a block keeps its rows' schemas, and the one it has if that is all."""
    column, payload = rows.envelope[SCHEMA], rows.payload
    if column.null_count == len(column):
        return 0, 0
    if column.null_count != payload.null_count:
        return MASK_SCHEMA, 0
    if column.null_count:
        if not column.is_null().equals(payload.is_null()):
            return MASK_SCHEMA, 0
        column = column.drop_null()
    numbers = column.to_numpy()
    schema_number = int(numbers[0])
    return (
        (MASK_ONE_SCHEMA, schema_number) if (numbers == schema_number).all() else (MASK_SCHEMA, 0)
    )


@cache
def _begin_of(mask: int) -> int:
    """Return where the first batch begins in a stream: behind its schema's message."""
    return block_schema(mask).serialize().size


def _serialize(message: pa.RecordBatch, begin: int, codec: Codec) -> pa.Buffer:
    if codec == "none":
        return message.serialize()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, message.schema, options=_write_options(codec)) as writer:
        writer.write_batch(message)
        end = sink.tell()
    # The stream opens with its schema's message, which is not stored.
    return sink.getvalue().slice(begin, end - begin)


def block_checksum(data: bytes) -> int:
    """Return the checksum a block's zone keeps."""
    return xxh3.xxh3_64_intdigest(data)


def decode_block(data: bytes, place: BlockPlace, first: int, checksum: int) -> Block:
    """Return the block under the key of address `first`, its bytes proven first.

    Raises:
        CorruptionError: The bytes are not the block that belongs here.
    """
    prove_block(data, place, first, checksum)
    return decode_proven(data, place, first)


def is_reference(data: bytes) -> bool:
    """Tell whether bytes under a block's key are a reference to it."""
    return len(data) == REFERENCE_BYTES


def prove_block(data: bytes, place: BlockPlace, first: int, checksum: int) -> None:
    """Refuse bytes that are not those the zone of address `first` speaks of.

    Raises:
        CorruptionError: Their checksum is another.
    """
    if len(data) < HEADER_BYTES or block_checksum(data) != checksum:
        message = "a block's bytes do not match the checksum in its zone"
        raise CorruptionError(message, shard=place.shard, start=first, end=first + 1)


def decode_proven(data: bytes, place: BlockPlace, first: int) -> Block:
    """Return the block of bytes that `prove_block` let pass.

    Raises:
        CorruptionError: It is a whole block, but not the one that belongs here.
    """
    # The header's own checksum is for those who have no zone: the zone's covered it.
    magic, version, codec, _, mask, shard, lineage, count, head, last, committed_at_ms, schema = (
        _HEADER.unpack_from(data)
    )
    is_readable = magic == _MAGIC and version == BLOCK_FORMAT and codec < len(_CODECS)
    is_ours = head == first and shard == place.shard and lineage == place.lineage
    if not is_readable or not is_ours or mask & ~_MASK_ALL:
        message = "a block belongs to another shard or has another format"
        raise CorruptionError(message, shard=place.shard, start=first, end=first + 1)
    body = pa.py_buffer(data).slice(HEADER_BYTES)
    batch = pa.ipc.read_record_batch(body, block_schema(mask))
    if batch.num_rows != count:
        message = "a block's count differs from its rows"
        raise CorruptionError(message, shard=place.shard, start=first, end=last + 1)
    return Block(head, last, committed_at_ms, mask, batch, schema)


def decode_headers(blocks: Sequence[bytes], place: BlockPlace) -> npt.NDArray[np.void] | None:
    """Return the headers of blocks that `prove_block` let pass, as columns.

    None where one of them belongs to another place or format.
    """
    headers = np.frombuffer(b"".join([data[:HEADER_BYTES] for data in blocks]), _HEADER_DTYPE)
    is_ours = (headers["magic"] == _MAGIC) & (headers["format"] == BLOCK_FORMAT)
    is_ours &= (headers["codec"] < len(_CODECS)) & (headers["mask"] & ~np.uint32(_MASK_ALL) == 0)
    is_ours &= headers["shard"] == place.shard
    if not is_ours.all() or headers["lineage"].tobytes() != place.lineage * len(blocks):
        return None
    return headers
