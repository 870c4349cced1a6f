"""What a part's file says before its footer: where its columns lie, and what proves them.

    table   magic "SLCT" | format u16 | check u16 | groups u32 | columns u32 | schemas u32 |
            decoded u32 | offsets | sizes | digests | bounds | numbers of schemas | blocks
    blocks  count u32 | offsets | sizes | digests
    footer  the table, and behind it the footer of Parquet as its library wrote it

A chunk is what a group of rows has of one column of Parquet; of each there is its offset in the
file (i64), its size (i64) and the xxh3-64 of its bytes (u64), group after group. Bounds are, for
each column of `BOUNDED`, the least value of each group and the largest one (i64); of a column that
the file does not have they are those of all numbers. Numbers of schemas are i32: those of the
schemas that wrote the values. `decoded` is how many KiB all its rows take in memory. To other
readers of Parquet the table is a gap between two things.

The check is of the whole footer, for those who have no digest of it: the low bits of its xxh3-64
with 0 in the place of the check, or 1 if they are 0. A file whose check is 0 says nothing of it.
NOTE: Arrow (26.0) may end the process that lets it read a damaged footer.

Blocks are the bytes outside chunks and before the footer (magic, bloom filters, page index), cut at
64 KiB; each has an offset, a size and a digest as a chunk has.
"""

import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError, UnsupportedFormatError
from storage_core.platform import xxh3

BOUNDED: Final = ("secondary", "primary", "address", "version", "state", "committed_at_ms")
_MAGIC: Final = b"SLCT"
_FORMAT: Final = 1
_KIB: Final = 1024
_KIB_MAX: Final = 2**32 - 1
_FIELDS: Final = struct.Struct("<4sHHIIII")
_COUNT: Final = struct.Struct("<I")
_CHECK_AT: Final = 6
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The bytes outside chunks, ascending as they lie in the file.

    Attributes:
        offsets: Where each block begins.
        sizes: How many bytes it has.
        digests: The xxh3-64 of them.
    """

    offsets: Int64s
    sizes: Int64s
    digests: UInt64s


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The chunks of a file, ascending as they lie in it.

    Attributes:
        groups: How many groups of rows there are.
        offsets: Where each chunk begins.
        sizes: How many bytes it has.
        digests: The xxh3-64 of them.
        bounds: The least and the largest value that each group has of some columns.
        schemas: The numbers of the schemas that wrote its values.
        decoded_bytes: What all its rows take in memory, in whole KiB.
        outside: The bytes outside chunks and before the footer.
    """

    groups: int
    offsets: Int64s
    sizes: Int64s
    digests: UInt64s
    bounds: Mapping[str, tuple[Int64s, Int64s]]
    schemas: tuple[int, ...]
    decoded_bytes: int
    outside: Blocks


def encode_chunk_table(table: ChunkTable) -> bytes:
    """Return the bytes of a table."""
    columns = len(table.offsets) // table.groups if table.groups else 0
    decoded = min(-(-table.decoded_bytes // _KIB), _KIB_MAX)
    counts = table.groups, columns, len(table.schemas), decoded
    fields = _FIELDS.pack(_MAGIC, _FORMAT, 0, *counts)
    bounds = [some.astype("<i8") for name in BOUNDED for some in table.bounds[name]]
    chunks = _encode_places(table)
    numbers = np.array(table.schemas, "<i4").tobytes()
    blocks = _COUNT.pack(len(table.outside.offsets)) + _encode_places(table.outside)
    return fields + chunks + b"".join(some.tobytes() for some in bounds) + numbers + blocks


def _encode_places(table: ChunkTable | Blocks) -> bytes:
    offsets, sizes = table.offsets.astype("<i8"), table.sizes.astype("<i8")
    return offsets.tobytes() + sizes.tobytes() + table.digests.astype("<u8").tobytes()


def decode_chunk_table(footer: bytes) -> ChunkTable:
    """Return the table that a footer begins with.

    Raises:
        UnsupportedFormatError: It begins with one of another format.
        CorruptionError: It begins with none.
    """
    if footer.startswith(_MAGIC) and footer[4:6] != _FORMAT.to_bytes(2, "little"):
        number = int.from_bytes(footer[4:6], "little")
        message = f"format {number} of a part's column chunk table; this shardlog reads {_FORMAT}"
        raise UnsupportedFormatError(message)
    try:
        magic, _, _, groups, columns, count, decoded = _FIELDS.unpack_from(footer)
        chunks = groups * columns
        longs = 3 * chunks + 2 * len(BOUNDED) * groups
        size = _FIELDS.size + 8 * longs + 4 * count
        if magic != _MAGIC or len(footer) < size:
            raise ValueError  # noqa: TRY301 - told below, with the others
        numbers = np.frombuffer(footer, "<i4", count, _FIELDS.size + 8 * longs)
        values = np.frombuffer(footer, "<i8", longs, _FIELDS.size)
        blocks = _decode_blocks(footer, size)
    except (struct.error, ValueError) as error:
        message = "a part's file has no column chunk table before its footer"
        raise CorruptionError(message) from error
    offsets, sizes, digests = values[: 3 * chunks].reshape(3, chunks)
    bounds = values[3 * chunks :].reshape(len(BOUNDED), 2, groups)
    return ChunkTable(
        groups,
        *(offsets, sizes, digests.view("<u8")),
        {name: (least, most) for name, (least, most) in zip(BOUNDED, bounds, strict=True)},
        tuple(numbers.tolist()),
        decoded * _KIB,
        blocks,
    )


def with_check(footer: bytes) -> bytes:
    """Return a footer, whose table has no check yet, with its check."""
    return footer[:_CHECK_AT] + _check_of(footer).to_bytes(2, "little") + footer[_CHECK_AT + 2 :]


def has_right_check(footer: bytes) -> bool:
    """Tell whether a footer is the one that was written, as far as its check says."""
    check = int.from_bytes(footer[_CHECK_AT : _CHECK_AT + 2], "little")
    return check in (0, _check_of(footer))


def _check_of(footer: bytes) -> int:
    rest = footer[:_CHECK_AT] + bytes(2) + footer[_CHECK_AT + 2 :]
    return xxh3.xxh3_64_intdigest(rest) % 2**16 or 1


def find_chunk_table(data: bytes) -> int | None:
    """Return where the table begins that ends with some bytes; None if they do not have all of it.

    Args:
        data: What a file has before the footer of Parquet, as far as it was read.
    """
    head = _MAGIC + _FORMAT.to_bytes(2, "little")
    begin = data.rfind(head)
    while begin >= 0:
        with suppress(CorruptionError):
            if len(encode_chunk_table(decode_chunk_table(data[begin:]))) == len(data) - begin:
                return begin
        # The same bytes may stand in it, or in a page before it.
        begin = data.rfind(head, 0, begin + len(head) - 1)
    return None


def _decode_blocks(footer: bytes, begin: int) -> Blocks:
    (count,) = _COUNT.unpack_from(footer, begin)
    places = np.frombuffer(footer, "<i8", 3 * count, begin + _COUNT.size)
    offsets, sizes, digests = places.reshape(3, count)
    return Blocks(offsets, sizes, digests.view("<u8"))
