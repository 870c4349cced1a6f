"""Checks of a key dictionary: rows against the entries of their keys, and all entries.

Every row has the number of its key, and lies in the shard that the key routes to. As many keys
have an entry as numbers were given, and no two have the same. Memory is bounded: of numbers so
many are looked at in one pass over the entries.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.format.block import Block
from storage_core.format.keys import (
    INT32_MAX,
    NULL_KEY_NUMBER,
    PREFIX_KEY,
    decode_key_number,
    number_key,
    prefix_end,
)
from storage_core.format.shard_state import KEY_KEYS
from storage_core.ids.dictionaries.routing import shards_of_keys
from storage_core.platform.arrow import distinct, nulls
from storage_core.read.columns import block_columns
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings

NUMBERS_AT_ONCE: Final = 2**26
ENTRIES_AT_ONCE: Final = 2**14
_NOT_THERE: Final = -2


class DictionaryCheck:
    """Compares one shard's dictionary with its rows; nothing of a stream that has none."""

    def __init__(self, view: ShardSnapshot, findings: Findings) -> None:
        """Look at the entries of a view."""
        self._view = view
        self._findings = findings
        self._at_once = NUMBERS_AT_ONCE

    def compare(self, block: Block) -> None:
        """Look at the keys of a block's rows."""
        if not self._view.meta.has_keys:
            return
        column = block_columns(block, self._view.shard, ("key",), None).column(0)
        keys, codes = distinct(column)
        values: list[Any] = keys.to_pylist()
        stored = [self._stored(key) for key in values]
        expected = np.array([*stored, NULL_KEY_NUMBER], dtype=np.int64)[codes]
        self._add_rows(block, expected != block.secondaries, "has a number that is not its key's")
        mask = self._view.meta.shard_mask
        if mask is not None:
            shards = [*shards_of_keys(keys, mask), *shards_of_keys(nulls(1, column.type), mask)]
            is_strange = np.array(shards)[codes] != self._view.shard
            self._add_rows(block, is_strange, "has a key that belongs to another shard")

    def finish(self) -> None:
        """Look at all entries: each number that was given is there, once."""
        assigned, entries = self._view.state.keys, 0
        # More were never assigned; a larger count is reported below.
        for first in range(0, min(max(assigned, 1), INT32_MAX), self._at_once):
            seen = np.zeros(max(0, min(assigned - first, self._at_once)), dtype=np.bool_)
            for keys, numbers in self._entries():
                entries += len(keys) if first == 0 else 0
                if first == 0:
                    for row in np.flatnonzero((numbers < 0) | (numbers >= assigned)).tolist():
                        number = int(numbers[row])
                        message = f"a key has number {number}, but only {assigned} were assigned"
                        self._findings.add("dictionary", message, key=keys[row])
                self._see(seen, keys, numbers - first)
        if entries != assigned:
            message = f"{entries} keys have a number, but {assigned} were assigned"
            self._findings.add("dictionary", message, key=KEY_KEYS)

    def _see(
        self, seen: npt.NDArray[np.bool_], keys: list[bytes], places: npt.NDArray[np.int64]
    ) -> None:
        rows = np.flatnonzero((places >= 0) & (places < len(seen)))
        _, firsts = np.unique(places[rows], return_index=True)
        is_again = np.ones(len(rows), dtype=np.bool_)
        is_again[firsts] = False
        is_again |= seen[places[rows]]
        for row in rows[is_again].tolist():
            message = "two keys have the same number"
            self._findings.add("dictionary", message, key=keys[row])
        seen[places[rows]] = True

    def _entries(self) -> Iterator[tuple[list[bytes], npt.NDArray[np.int64]]]:
        """Yield keys of entries and their numbers, some at a time; -2 stands for what is none."""
        items = self._view.meta_items(PREFIX_KEY, prefix_end(PREFIX_KEY))
        while taken := list(islice(items, ENTRIES_AT_ONCE)):
            numbers = np.fromiter((_number(value) for _, value in taken), np.int64, len(taken))
            yield [key for key, _ in taken], numbers

    def _stored(self, key: bytes) -> int:
        value = self._view.value_at(number_key(key))
        return _NOT_THERE if value is None else _number(value)

    def _add_rows(self, block: Block, is_wrong: npt.NDArray[np.bool_], message: str) -> None:
        if is_wrong.any():
            address = int(block.addresses[int(is_wrong.argmax())])
            self._findings.add("dictionary", f"a row {message}", address, address + 1)


def _number(value: bytes) -> int:
    number = decode_key_number(value)
    return _NOT_THERE if number is None else number
