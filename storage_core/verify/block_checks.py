"""Block by block, beside the zone: the ordered copies of late and ahead rows.

Copies are looked up by the keys that the rows must have, and compared column by column as
readers get them. Where each row has its copy and there are as many of both, there is no copy
without a row.
"""

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from storage_core.engine.key_value import Item
from storage_core.format.block import Block
from storage_core.format.keys import (
    PREFIX_AHEAD,
    PREFIX_LATE,
    ahead_key_of,
    decode_ahead_key,
    decode_late_keys,
    encode_late_keys,
    late_window_key,
    prefix_end,
)
from storage_core.format.late_rows import decode_late_rows, has_whole_values
from storage_core.format.record import State
from storage_core.format.row_columns import ENVELOPE, SCHEMA
from storage_core.ids.heads.grouping import States
from storage_core.read.columns import Positions, block_columns, late_columns
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings

_COPIED: Final = ("version", "state", "payload", "committed_at_ms", *ENVELOPE, SCHEMA)
_KEY_BYTES: Final = 29


class CopyCheck:
    """Compares late and ahead rows with their ordered copies.

    Attributes:
        rows: Late and ahead rows that were compared.
    """

    def __init__(self, view: ShardSnapshot, findings: Findings) -> None:
        """Compare with the copies of a view."""
        self._view = view
        self._findings = findings
        # Copies of windows before the floor's are there until expiry comes to them, or are not.
        window = view.scheme.of(view.state.floor)
        self._begin = view.scheme.first_of(window)
        self._first_copy = late_window_key(window)
        self._matched = 0
        self._ahead = 0
        self.rows = 0

    def compare(self, block: Block) -> None:
        """Look up the copies of a block's late and ahead rows."""
        states = block.states
        if states is None:
            return
        has_copy = (states == State.LATE) | (states == State.AHEAD)
        self.rows += int(has_copy.sum())
        out_of_order = np.flatnonzero(has_copy & (block.primaries >= self._begin))
        if not len(out_of_order):
            return
        primaries, addresses = block.primaries[out_of_order], block.addresses[out_of_order]
        keys = encode_late_keys(
            self._view.scheme.of_many(primaries),
            block.secondaries[out_of_order],
            primaries,
            addresses,
        )
        self._check_ahead_keys(states[out_of_order], keys)
        values = [self._view.value_at(key) for key in keys]
        copies = [value for value in values if value is not None]
        self._matched += len(copies)
        if len(copies) == len(keys) and _are_copies(block, out_of_order, keys, copies):
            return
        for row, key, value in zip(range(len(keys)), keys, values, strict=True):
            address = int(addresses[row])
            if value is None:
                self._add("a late or ahead row has no ordered copy", address, key)
            elif not _are_copies(block, out_of_order[row : row + 1], [key], [value]):
                self._add("a late or ahead row differs from its ordered copy", address, key)

    def finish(self, *, is_whole: bool) -> None:
        """Find copies without a row, if there are any and blocks are whole."""
        copies = sum(1 for _ in self._stored_copies()) if is_whole else 0
        if copies > self._matched:
            self._find_orphans(copies - self._matched)
        keys = (key for key, _ in self._view.meta_items(PREFIX_AHEAD, prefix_end(PREFIX_AHEAD)))
        listed = sum(1 for key in keys if decode_ahead_key(key)[1] >= self._begin)
        if is_whole and listed > self._ahead:
            message = f"{listed} ahead keys are stored, but the log has {self._ahead} ahead rows"
            self._findings.add("ahead key", message, key=PREFIX_AHEAD)

    def _stored_copies(self) -> Iterator[Item]:
        return self._view.meta_items(self._first_copy, prefix_end(PREFIX_LATE))

    def _check_ahead_keys(self, states: States, keys: list[bytes]) -> None:
        for row in np.flatnonzero(states == State.AHEAD).tolist():
            key = ahead_key_of(keys[row])
            if self._view.value_at(key) is None:
                message, address = "an ahead row has no ahead key", int.from_bytes(key[-8:], "big")
                self._findings.add("ahead key", message, address, address + 1, key)
            else:
                self._ahead += 1

    def _find_orphans(self, count: int) -> None:
        for key, _ in self._stored_copies():
            if len(key) != _KEY_BYTES:
                self._findings.add("late copy", "a malformed key of an ordered copy", key=key)
                count -= 1
            elif not self._has_row(key):
                address = int.from_bytes(key[-8:], "big")
                self._add("an ordered copy has no late or ahead row", address, key)
                count -= 1
            if not count:
                return

    def _has_row(self, key: bytes) -> bool:
        secondary, primary, address = (int(one[0]) for one in decode_late_keys([key]))
        (window,) = self._view.scheme.of_many(np.array([primary])).tolist()
        zone = next(self._view.zones(address, address + 1), None)
        if zone is None:
            return False
        _, block = self._view.block_at(zone, address)
        states = block.states
        row = int(np.searchsorted(block.addresses, address))
        is_row = row < len(block) and int(block.addresses[row]) == address and states is not None
        expected = encode_late_keys(*(np.array([v]) for v in (window, secondary, primary, address)))
        return (
            is_row
            and states is not None
            and states[row] in (State.LATE, State.AHEAD)
            and (int(block.secondaries[row]), int(block.primaries[row])) == (secondary, primary)
            and expected == [key]
        )

    def _add(self, message: str, address: int, key: bytes) -> None:
        self._findings.add("late copy", message, address, address + 1, key)


def _are_copies(block: Block, chosen: Positions, keys: list[bytes], values: list[bytes]) -> bool:
    try:
        late = decode_late_rows(keys, values)
        if not has_whole_values(late):
            return False
        copies = late_columns(late, 0, _COPIED, np.arange(len(keys)))
    except (ValueError, struct.error, pa.ArrowException):
        # What was written over a copy may be anything.
        return False
    return copies.equals(block_columns(block, 0, _COPIED, chosen))
