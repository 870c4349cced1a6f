"""What a shard's part list says of a part: one Parquet file of some of its sealed rows.

    p <first address u64> <number u32>      the entry
    entry   checksum u64 | last i64 | primary_min i64 | primary_max i64 | rows u64 | bytes u64 |
            sealed_at_ms i64 | level u8 | bits u8 | digest, 16 bytes |
            footer_bytes u32 | footer_digest, 16 bytes | kind

The checksum is the xxh3-64 of all behind it. The number is the part's own and is never used again;
its file is `sealed/part-<number>.rows`, and `parts/part-<number>.parquet` for other programs
(storage_core/tiering/part_directory.py). `kind` is UTF-8: the full name of the schema of its
values, empty for values that no schema wrote. Bit 1 marks a part of out-of-order rows: those that
were late, ahead or expired when they came. The other parts have the rest, in order of time. The
digest is the xxh3-128 of the whole file. The footer, so many bytes at the file's end, is its table
of column chunks (chunk_table.py) and Parquet's own, with this xxh3-128.
"""

import struct
from dataclasses import dataclass, replace
from typing import Final, Self

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_PART
from storage_core.format.shard_state import AddressRange
from storage_core.platform import xxh3

# Sums over entries are below it.
PART_LIST_SUMS: Final = 2**63
# The names of the files of all parts, and those that other programs see.
PART_FILES: Final = f"part-{'[0-9]' * 10}.rows"
VISIBLE_FILES: Final = f"part-{'[0-9]' * 10}.parquet"
_IS_OUT_OF_ORDER: Final = 1
_CHECKSUM: Final = struct.Struct("<Q")
_FIELDS: Final = struct.Struct("<qqqQQqBB16sI16s")
_KEY_BYTES: Final = 13
_ADDRESS_END: Final = 9


@dataclass(frozen=True, slots=True)
class FileProof:
    """What proves the file of a part.

    Attributes:
        size: How large it is.
        digest: The xxh3-128 of all of it.
        footer_bytes: How many bytes at its end tell and prove the others.
        footer_digest: The xxh3-128 of them.
    """

    size: int
    digest: bytes
    footer_bytes: int
    footer_digest: bytes


@dataclass(frozen=True, slots=True)
class PartEntry:
    """One part.

    Attributes:
        first: The least address of its rows.
        number: Its own.
        last: The largest address of its rows.
        primary_min: The least primary.
        primary_max: The largest primary.
        rows: How many rows it has.
        size: How large its file is.
        sealed_at_ms: When it was made.
        level: How often its rows were joined with others'.
        is_out_of_order: Whether its rows were late, ahead or expired when they came.
        digest: The xxh3-128 of its file.
        kind: The full name of its values' schema; empty for values that no schema wrote.
        footer_bytes: How many bytes at the end of its file tell and prove the others.
        footer_digest: The xxh3-128 of them.
    """

    first: int
    number: int
    last: int
    primary_min: int
    primary_max: int
    rows: int
    size: int
    sealed_at_ms: int
    level: int
    is_out_of_order: bool
    digest: bytes
    kind: str
    footer_bytes: int
    footer_digest: bytes

    @property
    def file_name(self) -> str:
        """Its file's name."""
        return part_file_name(self.number)

    @property
    def proof(self) -> FileProof:
        """What proves its file."""
        return FileProof(self.size, self.digest, self.footer_bytes, self.footer_digest)


@dataclass(frozen=True, slots=True)
class ShardParts:
    """The parts of a shard: all its rows below `sealed`, but what has expired, are in them.

    Of their rows those below `floor` by primary, or below `cut` by address, have expired, and those
    of `gaps` were given up: reads pass over them.
    """

    sealed: int
    entries: tuple[PartEntry, ...]
    floor: int
    cut: int
    gaps: tuple[AddressRange, ...]

    def hiding_below(self, floor: int, cut: int) -> Self:
        """Return the same parts at a later moment, of which these are the floor and the cut."""
        if floor <= self.floor and cut <= self.cut:
            return self
        return replace(self, floor=max(self.floor, floor), cut=max(self.cut, cut))


def part_file_name(number: int) -> str:
    """Return the name of the file of the part that has a number; names ascend as numbers do."""
    return f"part-{number:010}.rows"


def visible_file_name(number: int) -> str:
    """Return the name under which other programs see the part that has a number."""
    return f"part-{number:010}.parquet"


def part_key(first: int, number: int) -> bytes:
    """Return where the entry of a part lies."""
    return PREFIX_PART + first.to_bytes(8, "big") + number.to_bytes(4, "big")


def number_of_key(key: bytes) -> int:
    """Return the number of the part whose entry lies there."""
    return int.from_bytes(key[_ADDRESS_END:], "big")


def entry_sum(key: bytes, entry: bytes) -> int:
    """Return what an entry adds to the sum over all, which proves that none is missing."""
    return int(xxh3.xxh3_64_intdigest(key + entry)) % PART_LIST_SUMS


def encode_part(part: PartEntry) -> bytes:
    """Return the bytes of an entry."""
    body = _FIELDS.pack(
        part.last,
        part.primary_min,
        part.primary_max,
        part.rows,
        part.size,
        part.sealed_at_ms,
        part.level,
        _IS_OUT_OF_ORDER if part.is_out_of_order else 0,
        part.digest,
        part.footer_bytes,
        part.footer_digest,
    )
    body += part.kind.encode()
    return _CHECKSUM.pack(xxh3.xxh3_64_intdigest(body)) + body


def decode_part(key: bytes, data: bytes) -> PartEntry:
    """Return what `encode_part` was given.

    Raises:
        CorruptionError: It is damaged, or lies under no key of a part.
    """
    body = data[_CHECKSUM.size :]
    try:
        (checksum,) = _CHECKSUM.unpack_from(data)
        if len(key) != _KEY_BYTES or checksum != xxh3.xxh3_64_intdigest(body):
            raise ValueError  # noqa: TRY301 - told below, with the others
        last, least, most, rows, size, sealed_at_ms, level, bits, *proof = _FIELDS.unpack_from(body)
        digest, footer_bytes, footer_digest = proof
        kind = body[_FIELDS.size :].decode()
    except (struct.error, ValueError) as error:
        message = f"the part list's entry under {key.hex()}, is damaged"
        raise CorruptionError(message) from error
    first, number = key[1:_ADDRESS_END], key[_ADDRESS_END:]
    return PartEntry(
        int.from_bytes(first, "big"),
        int.from_bytes(number, "big"),
        *(last, least, most, rows, size, sealed_at_ms, level, bool(bits & _IS_OUT_OF_ORDER)),
        *(digest, kind, footer_bytes, footer_digest),
    )
