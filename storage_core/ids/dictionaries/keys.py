"""The key dictionary: a shard's own numbers of the keys that its rows belong to.

    k <key>    the key's number, i32; rows without a key have -1, and no entry
    m keys     how many keys have one: those from 0 to before it

Blocks, zones, heads and late rows know the numbers, as they know the ids of other streams. A
row's key stands in its block too, so there is no way back from a number: none is needed.

An entry is written with the first rows of its key, in their WriteBatch, and never changed or
removed: a number is given once, whatever becomes of the rows. Where rows fall away before they
are written (they are expired), their key may have a number and no row.

`KeyNumbers` is the writer's; the shard's append lock guards it. Readers look keys up in their own
view, so that all of a read is of one moment.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.keys import (
    INT32_MAX,
    NULL_KEY_NUMBER,
    PREFIX_KEY,
    decode_key_number,
    number_key,
)
from storage_core.format.record import Rows
from storage_core.format.shard_state import KEY_KEYS, decode_int, encode_int
from storage_core.platform.arrow import Array, distinct

RECENT_KEYS_MAX: Final = 2**15
RECENT_BYTES_MAX: Final = 2**22
_FEW_ROWS: Final = 64
# In place of a row's key: the last of all numbers is that of rows without one.
_NO_KEY: Final = -1


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows whose keys have numbers, and the keys among them that had none before."""

    rows: Rows
    new: Mapping[bytes, int] = field(default_factory=dict)


class KeyNumbers:
    """The numbers of keys, as the writer of a shard gives them."""

    def __init__(
        self, load: Callable[[list[bytes]], list[bytes | None]], stream: str, shard: int
    ) -> None:
        """Look up in the writer's store, by `load`, what is not remembered."""
        self._load = load
        self._stream = stream
        self._shard = shard
        self._recent = _RecentKeys()

    def number(self, rows: Rows, count: int) -> Numbered:
        """Return rows with their keys' numbers; nothing changes before `accept`.

        Args:
            rows: Rows with a column of keys.
            count: How many keys have a number.

        Raises:
            InvalidRequestError: There is no number left for a key.
            CorruptionError: An entry is not an assigned number.
        """
        keys, codes = _distinct_keys(rows.envelope["key"])
        numbered = self._recent.find(keys)
        unknown = [position for position, number in enumerate(numbered) if number is None]
        new: dict[bytes, int] = {}
        if unknown:
            stored = self._stored([keys[position] for position in unknown], count)
            for position, number in zip(unknown, stored, strict=True):
                if number is None:
                    number = new[keys[position]] = count + len(new)  # noqa: PLW2901 - its own from here
                numbered[position] = number
            if count + len(new) > INT32_MAX:
                message = f"the shard has numbered {count} keys, and can number no more"
                raise InvalidRequestError(message, stream=self._stream, shard=self._shard)
        # The last is that of rows without a key, whose code is -1.
        numbers = np.array([*numbered, NULL_KEY_NUMBER], dtype=np.int32)
        return Numbered(rows.with_secondary(numbers[codes]), new)

    def accept(self, new: Mapping[bytes, int]) -> None:
        """Remember keys whose entries were written."""
        if new:
            self._recent.put(new)

    def _stored(self, keys: list[bytes], count: int) -> list[int | None]:
        values = self._load([PREFIX_KEY + key for key in keys])
        try:
            numbers = [
                None if value is None else _assigned_number(key, value, count)
                for key, value in zip(keys, values, strict=True)
            ]
        except CorruptionError as error:
            raise error.placed(self._stream, self._shard) from error
        self._recent.put({k: n for k, n in zip(keys, numbers, strict=True) if n is not None})
        return numbers


def put_new_keys(batch: Batch, new: Mapping[bytes, int], assigned: int) -> int:
    """Add the entries of new keys to a batch; return how many keys have a number then."""
    if not new:
        return assigned
    # Not by calls: of many new keys each takes longer than what it is for.
    numbers = np.fromiter(new.values(), "<i4", len(new))
    batch.put_many([PREFIX_KEY + key for key in new], numbers.view("V4").tolist())
    batch.put(KEY_KEYS, encode_int(assigned + len(new)))
    return assigned + len(new)


def numbers_of(
    keys: Iterable[bytes | None], value_at: Callable[[bytes], bytes | None]
) -> tuple[int, ...]:
    """Return the numbers of those keys that have one.

    Args:
        keys: Keys, None for that of rows without one.
        value_at: Looks an entry up in one moment of the store.

    Raises:
        CorruptionError: An entry is not an assigned number.
    """
    numbers, count = [], _numbers_assigned(value_at(KEY_KEYS))
    for key in keys:
        if key is None:
            numbers.append(NULL_KEY_NUMBER)
        elif (value := value_at(number_key(key))) is not None:
            numbers.append(_assigned_number(key, value, count))
    return tuple(numbers)


def _distinct_keys(column: Array) -> tuple[list[Any], npt.NDArray[np.integer[Any]]]:
    """Return the keys of rows as they come, each once, and which each row has; -1 is none."""
    if len(column) > _FEW_ROWS:
        values, codes = distinct(column)
        return values.to_pylist(), codes
    # Of few rows Arrow's own way takes longer than to look at each.
    places: dict[Any, int] = {}
    of_rows = [
        _NO_KEY if key is None else places.setdefault(key, len(places))
        for key in column.to_pylist()
    ]
    return list(places), np.array(of_rows, np.intp)


class _RecentKeys:
    """Numbers of the keys that came last, bounded in count and bytes.

    Two generations: what is asked for lies in the young one then, and once that is full the old
    one is let go.
    """

    def __init__(self) -> None:
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self._young_bytes = 0

    def find(self, keys: list[bytes]) -> list[int | None]:
        """Return the number of each key, None where it is not known here."""
        numbers = list(map(self._young.get, keys))
        if None in numbers and self._old:
            unknown = [
                (position, keys[position])
                for position, number in enumerate(numbers)
                if number is None
            ]
            old = self._old
            again = {key: old[key] for _, key in unknown if key in old}
            if again:
                for position, key in unknown:
                    numbers[position] = again.get(key)
                self.put(again)
        return numbers

    def put(self, numbers: Mapping[bytes, int]) -> None:
        """Remember numbers; of very many only some."""
        remembered = dict(islice(numbers.items(), RECENT_KEYS_MAX))
        size = sum(map(len, remembered))
        if (
            len(self._young) + len(remembered) > RECENT_KEYS_MAX
            or self._young_bytes + size > RECENT_BYTES_MAX
        ):
            self._old, self._young, self._young_bytes = self._young, {}, 0
        if size <= RECENT_BYTES_MAX:
            self._young |= remembered
            self._young_bytes += size


def _assigned_number(key: bytes, value: bytes, count: int) -> int:
    number = decode_key_number(value)
    if number is None or not 0 <= number < count:
        reported = f"{_key_text(value)}, which is none" if number is None else number
        message = f"the key {_key_text(key)} has number {reported}, but only {count} were assigned"
        raise CorruptionError(message)
    return number


def _numbers_assigned(value: bytes | None) -> int:
    return 0 if value is None else decode_int(value)


def _key_text(key: bytes) -> str:
    return repr(key if len(key) <= 40 else key[:40] + b"...")  # noqa: PLR2004 - for a line
