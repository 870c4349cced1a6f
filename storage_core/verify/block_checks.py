"""What verify compares block by block beside the zone: the ordered copies of flagged rows.

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
    """Compares flagged rows with their ordered copies."""

    def __init__(self, view: ShardSnapshot, findings: Findings) -> None:
        """Compare with the copies of a view."""
        self._view = view
        self._findings = findings
        # Copies of windows before the floor's are there until expiry comes to them, or are not.
        window = view.scheme.of(view.state.floor)
        self._begin = view.scheme.first_of(window)
        self._first_copy = late_window_key(window)
        self._found = 0
        self._ahead = 0
        self.copies = 0

    def compare(self, block: Block) -> None:
        """Look up the copies of a block's late and ahead rows."""
        states = block.states
        if states is None:
            return
        is_flagged = (states == State.LATE) | (states == State.AHEAD)
        flagged = np.flatnonzero(is_flagged & (block.primaries >= self._begin))
        if not len(flagged):
            return
        primaries, addresses = block.primaries[flagged], block.addresses[flagged]
        keys = encode_late_keys(
            self._view.scheme.of_many(primaries), block.secondaries[flagged], primaries, addresses
        )
        self._look_for_ahead_keys(states[flagged], keys)
        values = [self._view.value_at(key) for key in keys]
        there = [value for value in values if value is not None]
        self._found += len(there)
        if len(there) == len(keys) and _are_copies(block, flagged, keys, there):
            return
        for at, key, value in zip(range(len(keys)), keys, values, strict=True):
            address = int(addresses[at])
            if value is None:
                self._tell("a late or ahead row has no copy in order of time", address, key)
            elif not _are_copies(block, flagged[at : at + 1], [key], [value]):
                self._tell("a late or ahead row differs from its copy", address, key)

    def finish(self, *, is_whole: bool) -> None:
        """Count all copies, and find those without a row if there are any and blocks are whole."""
        self.copies = sum(1 for _ in self._copies_kept())
        if is_whole and self.copies > self._found:
            self._find_strangers(self.copies - self._found)
        keys = (key for key, _ in self._view.meta_items(PREFIX_AHEAD, prefix_end(PREFIX_AHEAD)))
        listed = sum(1 for key in keys if decode_ahead_key(key)[1] >= self._begin)
        if is_whole and listed > self._ahead:
            what = f"{listed} keys say where ahead rows are, and there are {self._ahead}"
            self._findings.tell("ahead key", what, key=PREFIX_AHEAD)

    def _copies_kept(self) -> Iterator[Item]:
        return self._view.meta_items(self._first_copy, prefix_end(PREFIX_LATE))

    def _look_for_ahead_keys(self, states: States, keys: list[bytes]) -> None:
        for at in np.flatnonzero(states == State.AHEAD).tolist():
            key = ahead_key_of(keys[at])
            if self._view.value_at(key) is None:
                what, address = "no key says where an ahead row is", int.from_bytes(key[-8:], "big")
                self._findings.tell("ahead key", what, address, address + 1, key)
            else:
                self._ahead += 1

    def _find_strangers(self, count: int) -> None:
        for key, _ in self._copies_kept():
            if len(key) != _KEY_BYTES:
                self._findings.tell("late copy", "a key of no late or ahead row", key=key)
                count -= 1
            elif not self._has_row(key):
                address = int.from_bytes(key[-8:], "big")
                self._tell("a copy belongs to no late or ahead row", address, key)
                count -= 1
            if not count:
                return

    def _has_row(self, key: bytes) -> bool:
        secondary, primary, address = (int(one[0]) for one in decode_late_keys([key]))
        (window,) = self._view.scheme.of_many(np.array([primary])).tolist()
        zone = next(self._view.zones(address, address + 1), None)
        if zone is None:
            return False
        block = self._view.block(zone)
        states = block.states
        at = int(np.searchsorted(block.addresses, address))
        is_row = at < len(block) and int(block.addresses[at]) == address and states is not None
        expected = encode_late_keys(*(np.array([v]) for v in (window, secondary, primary, address)))
        return (
            is_row
            and states is not None
            and states[at] in (State.LATE, State.AHEAD)
            and (int(block.secondaries[at]), int(block.primaries[at])) == (secondary, primary)
            and expected == [key]
        )

    def _tell(self, what: str, address: int, key: bytes) -> None:
        self._findings.tell("late copy", what, address, address + 1, key)


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
