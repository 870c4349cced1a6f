"""Where rows go that no caller and no origin places: by the bits of a secondary or of a key's hash.

A key goes to the shard that the low bits of its xxh3-64 name, rows without a key to shard 0.
Whoever routes must do it in the same way for ever, readers too: stream.json says which it is.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import InvalidRequestError
from storage_core.format.record import Rows
from storage_core.platform import xxh3
from storage_core.platform.arrow import Array, distinct

_SHARD_OF_NO_KEY: Final = 0

Int32s = npt.NDArray[np.int32]


def shard_of_key(key: bytes | None, mask: int) -> int:
    """Return the shard of the rows of a key."""
    return _SHARD_OF_NO_KEY if key is None else xxh3.xxh3_64_intdigest(key) & mask


def shards_of_keys(keys: Array, mask: int) -> Int32s:
    """Return the shard of each row by its key."""
    if not mask:
        return np.zeros(len(keys), dtype=np.int32)
    values, codes = distinct(keys)
    named = [shard_of_key(key, mask) for key in values.to_pylist()]
    # The last is that of rows without a key, whose code is -1.
    shards: Int32s = np.array([*named, _SHARD_OF_NO_KEY], dtype=np.int32)[codes]
    return shards


def shards_of_rows(rows: Rows, mask: int, *, has_keys: bool) -> Int32s:
    """Return the shard of each row, by its key or by its secondary."""
    if has_keys:
        return shards_of_keys(rows.envelope["key"], mask)
    return rows.secondary & np.int32(mask)


def rows_by_shard(rows: Rows, mask: int, *, has_keys: bool) -> list[tuple[int, Rows]]:
    """Return each shard that has some of the rows, with those, by number."""
    numbers = shards_of_rows(rows, mask, has_keys=has_keys)
    present = np.unique(numbers).tolist()
    return [(number, rows.take(np.flatnonzero(numbers == number))) for number in present]


def refuse_strange_keys(rows: Rows, mask: int, shard: int) -> None:
    """Refuse rows of which one has a key that routes to another shard, where reads would miss it.

    A stream whose rows are not routed has no mask.

    Raises:
        InvalidRequestError: One has; the message names its place and that shard.
    """
    if not mask:
        return
    numbers = shards_of_keys(rows.envelope["key"], mask)
    if (numbers != shard).any():
        row = int((numbers != shard).argmax())
        message = f"the key of row {row} belongs to shard {int(numbers[row])}, not {shard}"
        raise InvalidRequestError(message)
