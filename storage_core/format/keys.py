"""Every key in a shard's RocksDB, encoded so that byte order is the order of meaning.

Integers are big-endian; signed ones have their sign bit flipped, so that -1 sorts before 0.

    family   key                                            value
    log      address                                        block (block.py)
    default  z address                                      zone (zone.py)
             l window secondary primary address             late or ahead record (late_rows.py)
             i window secondary primary address             empty: a normal row (the sparse index)
             w window                                       window (window.py)
             h secondary                                    head (table.py)
             f secondary primary address                    ahead record's place (ahead_places.py)
             d address                                      dead letter, in the caller's encoding
             g number                                       segment (shard_state.py)
             m name                                         shard state (shard_state.py)
             t name                                         a transaction that is done
             o kind place                                   the name that came at this place
             a key                                          what a caller attached to rows
             k key                                          the key's number, i32 (dictionary)
             s kind number|schema                           schema, and its number (schema_entry.py)
             p address number                               part of sealed rows (part_entry.py)

A family's name is part of the format. Two families, no more: blocks are written in address
order and must never be rewritten by the compaction of small random keys.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

FAMILY_LOG: Final = "log"
FAMILY_DEFAULT: Final = "default"

PREFIX_ZONE: Final = b"z"
PREFIX_LATE: Final = b"l"
PREFIX_WINDOW: Final = b"w"
PREFIX_INDEX: Final = b"i"
PREFIX_SEGMENT: Final = b"g"
PREFIX_HEAD: Final = b"h"
PREFIX_AHEAD: Final = b"f"
PREFIX_DEAD: Final = b"d"
PREFIX_META: Final = b"m"
PREFIX_DONE: Final = b"t"
PREFIX_PLACE: Final = b"o"
# Of which kind a transaction is: by its place among its kind it is forgotten in the end.
KIND_NAMED: Final = 0
KIND_NUMBERED: Final = 1
PREFIX_ATTACHMENT: Final = b"a"
PREFIX_KEY: Final = b"k"
PREFIX_SCHEMA: Final = b"s"
PREFIX_PART: Final = b"p"
# What every key of the default family begins with one of.
PREFIXES: Final = b"adfghiklmopstwz"

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
# Far below int64's end, so that a tail can always grow.
ADDRESS_MAX: Final = 2**62
INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
# The number of rows without a key; keys have those from 0 on.
NULL_KEY_NUMBER: Final = -1
KEY_BYTES_MAX: Final = 2**16 - 1
KEY_NUMBER_BYTES: Final = 4
INDEX_KEY_BYTES: Final = 29

_SIGN_64: Final = 1 << 63
_SIGN_32: Final = 1 << 31

# Late records and entries of the index have keys of one kind.
_ROW_KEY: Final = np.dtype(
    [
        ("prefix", "S1"),
        ("window", ">u8"),
        ("secondary", ">u4"),
        ("primary", ">u8"),
        ("address", ">u8"),
    ]
)


def saturating_add(value: int, delta: int) -> int:
    """Return the sum, held inside int64."""
    return max(INT64_MIN, min(INT64_MAX, value + delta))


def encode_int64(value: int) -> bytes:
    """Return eight bytes that sort like the signed integer."""
    return (value + _SIGN_64).to_bytes(8, "big")


def decode_int64(data: bytes) -> int:
    """Return what `encode_int64` was given."""
    return int.from_bytes(data, "big") - _SIGN_64


def encode_int32(value: int) -> bytes:
    """Return four bytes that sort like the signed integer."""
    return (value + _SIGN_32).to_bytes(4, "big")


def decode_int32(data: bytes) -> int:
    """Return what `encode_int32` was given."""
    return int.from_bytes(data, "big") - _SIGN_32


def log_key(address: int) -> bytes:
    """Return the key of the block whose first address this is."""
    return address.to_bytes(8, "big")


def decode_log_key(key: bytes) -> int:
    """Return the first address of the block under this key."""
    return int.from_bytes(key, "big")


def zone_key(address: int) -> bytes:
    """Return the key of the zone whose first address this is."""
    return PREFIX_ZONE + address.to_bytes(8, "big")


def dead_letter_key(address: int) -> bytes:
    """Return the key of a dead letter; of rows and dead letters one has an address."""
    return PREFIX_DEAD + address.to_bytes(8, "big")


def decode_dead_letter_key(key: bytes) -> int:
    """Return the address of the dead letter under this key."""
    return int.from_bytes(key[1:], "big")


def window_key(window: int) -> bytes:
    """Return the key of a window."""
    return PREFIX_WINDOW + encode_int64(window)


def decode_window_key(key: bytes) -> int:
    """Return the window under this key."""
    return decode_int64(key[1:])


def head_key(secondary: int) -> bytes:
    """Return the key of a secondary's head."""
    return PREFIX_HEAD + encode_int32(secondary)


def decode_head_key(key: bytes) -> int:
    """Return the secondary whose head is under this key."""
    return decode_int32(key[1:])


def meta_key(name: str) -> bytes:
    """Return the key of a piece of shard state."""
    return PREFIX_META + name.encode()


def done_key(transaction: str) -> bytes:
    """Return the key of a transaction that is done."""
    return PREFIX_DONE + transaction.encode()


def place_key(kind: int, place: int) -> bytes:
    """Return the key of the name that was the so-many-th of its kind to be done."""
    return PREFIX_PLACE + bytes([kind]) + place.to_bytes(8, "big")


def attachment_key(key: bytes) -> bytes:
    """Return where a caller's key lies: among callers' keys alone."""
    return PREFIX_ATTACHMENT + key


def number_key(key: bytes) -> bytes:
    """Return where the number of a row's key lies."""
    return PREFIX_KEY + key


def encode_key_number(number: int) -> bytes:
    """Return what lies under a `number_key`."""
    return number.to_bytes(KEY_NUMBER_BYTES, "little", signed=True)


def decode_key_number(data: bytes) -> int | None:
    """Return what `encode_key_number` was given; None where it made no such bytes."""
    if len(data) != KEY_NUMBER_BYTES:
        return None
    return int.from_bytes(data, "little", signed=True)


def late_key(window: int, secondary: int, primary: int, address: int) -> bytes:
    """Return the key of one late or ahead record."""
    return (
        PREFIX_LATE
        + encode_int64(window)
        + encode_int32(secondary)
        + encode_int64(primary)
        + address.to_bytes(8, "big")
    )


def segment_key(number: int) -> bytes:
    """Return the key of a segment."""
    return PREFIX_SEGMENT + number.to_bytes(8, "big")


def decode_segment_key(key: bytes) -> int:
    """Return the number of the segment under this key."""
    return int.from_bytes(key[1:], "big")


def late_window_key(window: int) -> bytes:
    """Return the least key that a late record of this window can have."""
    return PREFIX_LATE + encode_int64(window)


def index_key(window: int, secondary: int, primary: int, address: int) -> bytes:
    """Return the key of the index's entry for one normal row."""
    return index_keys_of(window, secondary) + encode_int64(primary) + address.to_bytes(8, "big")


def index_keys_of(window: int, secondary: int) -> bytes:
    """Return what the index's keys of one secondary in a window begin with."""
    return index_window_key(window) + encode_int32(secondary)


def index_window_key(window: int) -> bytes:
    """Return the least key that an entry of the index can have in this window."""
    return PREFIX_INDEX + encode_int64(window)


def decode_index_key(key: bytes) -> tuple[int, int, int, int]:
    """Return window, secondary, primary and address."""
    return (
        decode_int64(key[1:9]),
        decode_int32(key[9:13]),
        decode_int64(key[13:21]),
        int.from_bytes(key[21:], "big"),
    )


def ahead_key(secondary: int, primary: int, address: int) -> bytes:
    """Return the key that says where an ahead record is."""
    place = encode_int32(secondary) + encode_int64(primary) + address.to_bytes(8, "big")
    return PREFIX_AHEAD + place


def ahead_key_of(late: bytes) -> bytes:
    """Return the `ahead_key` of the record under a `late_key`: the same without the window."""
    return PREFIX_AHEAD + late[9:]


def decode_ahead_key(key: bytes) -> tuple[int, int, int]:
    """Return secondary, primary and address."""
    return decode_int32(key[1:5]), decode_int64(key[5:13]), int.from_bytes(key[13:], "big")


def encode_late_keys(
    windows: npt.NDArray[np.int64],
    secondaries: npt.NDArray[np.int32],
    primaries: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.int64],
) -> list[bytes]:
    """Return `late_key` of every row, built in one pass."""
    return _encode_row_keys(PREFIX_LATE, windows, secondaries, primaries, addresses)


def encode_index_keys(
    windows: npt.NDArray[np.int64],
    secondaries: npt.NDArray[np.int32],
    primaries: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.int64],
) -> list[bytes]:
    """Return `index_key` of every row, built in one pass."""
    return _encode_row_keys(PREFIX_INDEX, windows, secondaries, primaries, addresses)


def _encode_row_keys(
    prefix: bytes,
    windows: npt.NDArray[np.int64],
    secondaries: npt.NDArray[np.int32],
    primaries: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.int64],
) -> list[bytes]:
    table = np.empty(len(windows), dtype=_ROW_KEY)
    table["prefix"] = prefix
    table["window"] = windows.astype(np.uint64) ^ np.uint64(_SIGN_64)
    table["secondary"] = secondaries.astype(np.uint32) ^ np.uint32(_SIGN_32)
    table["primary"] = primaries.astype(np.uint64) ^ np.uint64(_SIGN_64)
    table["address"] = addresses.astype(np.uint64)
    data = table.tobytes()
    size = _ROW_KEY.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def decode_late_keys(
    keys: list[bytes],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the secondaries, primaries and addresses of late keys, or of the index's."""
    table = np.frombuffer(b"".join(keys), dtype=_ROW_KEY)
    secondary = (table["secondary"].astype(np.uint32) ^ np.uint32(_SIGN_32)).view(np.int32)
    primary = (table["primary"].astype(np.uint64) ^ np.uint64(_SIGN_64)).view(np.int64)
    return secondary, primary, table["address"].astype(np.int64)


def prefix_end(prefix: bytes) -> bytes:
    """Return the least key above every key with this one-byte prefix."""
    return bytes([prefix[0] + 1])
