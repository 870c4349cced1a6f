"""A head: of a secondary its largest primary, that row's address, its last normal row's address.

    key    h secondary
    value  primary i64 | address i64 | last i64                (24 bytes)

    key    m heads most
    value  primary i64                    no head on disk has a larger one

In memory the values of many are the rows of one array of three columns.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError
from storage_core.format.keys import INT64_MAX, PREFIX_HEAD

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_VALUE_BYTES: Final = 24
_KEY_DTYPE: Final = np.dtype([("prefix", "S1"), ("secondary", ">u4")])
_KEY_BYTES: Final = _KEY_DTYPE.itemsize
_ITEM_DTYPE: Final = np.dtype([*_KEY_DTYPE.descr, ("value", "<i8", (3,))])
_MOST: Final = struct.Struct("<q")
_SIGN: Final = np.uint32(1 << 31)


def encode_heads(ids: Int32s, values: Int64s) -> tuple[list[bytes], list[bytes]]:
    """Return the heads' keys and their values, with no call for each."""
    keys = np.empty(len(ids), dtype=_KEY_DTYPE)
    keys["prefix"] = PREFIX_HEAD
    keys["secondary"] = ids.astype(np.uint32) ^ _SIGN
    columns = np.ascontiguousarray(values, dtype="<i8").reshape(-1)
    return keys.view(f"V{_KEY_BYTES}").tolist(), columns.view(f"V{_VALUE_BYTES}").tolist()


def decode_heads(items: Sequence[tuple[bytes, bytes]]) -> tuple[Int32s, Int64s]:
    """Return the heads that `encode_heads` was given.

    Raises:
        CorruptionError: One is no head.
    """
    table = np.frombuffer(_whole(b"".join(map(b"".join, items)), len(items)), _ITEM_DTYPE)
    ids = (table["secondary"].astype(np.uint32) ^ _SIGN).view(np.int32)
    return ids, table["value"].astype(np.int64)


def decode_head_values(values: Sequence[bytes]) -> Int64s:
    """Return what lies under the keys of heads.

    Raises:
        CorruptionError: One is no head.
    """
    data = _whole(b"".join(values), len(values), key_bytes=0)
    return np.frombuffer(data, np.dtype("<i8")).reshape(-1, 3)


def encode_most(primary: int) -> bytes:
    """Return the bytes under `m heads most`."""
    return _MOST.pack(primary)


def decode_most(data: bytes | None) -> int:
    """Return a primary that no head on disk is above: int64's largest if none is noted."""
    if data is None or len(data) != _MOST.size:
        return INT64_MAX
    primary: int = _MOST.unpack(data)[0]
    return primary


def _whole(data: bytes, count: int, key_bytes: int = _KEY_BYTES) -> bytes:
    if len(data) != count * (key_bytes + _VALUE_BYTES):
        message = "a head has another length than heads have"
        raise CorruptionError(message)
    return data
