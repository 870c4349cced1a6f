"""A head: of a secondary its largest primary, that row's address, its last normal row's address.

    key    h secondary
    value  primary i64 | address i64 | last i64                (24 bytes)

In memory the values of many are the rows of one array of three columns.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_HEAD

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_VALUE_BYTES: Final = 24
_ITEM_DTYPE: Final = np.dtype([("prefix", "S1"), ("secondary", ">u4"), ("value", "<i8", (3,))])
_KEY_BYTES: Final = _ITEM_DTYPE.itemsize - _VALUE_BYTES
_SIGN: Final = np.uint32(1 << 31)


def encode_heads(ids: Int32s, values: Int64s) -> list[tuple[bytes, bytes]]:
    """Return key and value of each head, built in one pass."""
    table = np.empty(len(ids), dtype=_ITEM_DTYPE)
    table["prefix"] = PREFIX_HEAD
    table["secondary"] = ids.astype(np.uint32) ^ _SIGN
    table["value"] = values
    data, size = table.tobytes(), _ITEM_DTYPE.itemsize
    return [
        (data[at : at + _KEY_BYTES], data[at + _KEY_BYTES : at + size])
        for at in range(0, len(data), size)
    ]


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


def _whole(data: bytes, count: int, key_bytes: int = _KEY_BYTES) -> bytes:
    if len(data) != count * (key_bytes + _VALUE_BYTES):
        message = "a head has another length than heads have"
        raise CorruptionError(message)
    return data
