"""Checks of the sparse index: each entry against the row that it names.

An entry may be missing; one that is there must be of a normal row with its id and primary, in the
window under which it lies, or of a row that has expired or was lost. Any other could hide rows.

Entries lie by window and id, blocks by address. So entries are taken many at a time and put in
order of address, and the blocks that they name are read once for each such part.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError
from storage_core.format.block import Block
from storage_core.format.keys import (
    INDEX_KEY_BYTES,
    PREFIX_INDEX,
    decode_index_key,
    decode_late_keys,
    prefix_end,
)
from storage_core.format.record import State
from storage_core.format.shard_state import ShardState
from storage_core.format.zone import Zone
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings

ENTRIES_AT_ONCE: Final = 2**17

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]


def check_index(
    view: ShardSnapshot, state: ShardState, findings: Findings, at_once: int = ENTRIES_AT_ONCE
) -> None:
    """Compare the entries with their rows, some at a time."""
    items = view.meta_items(PREFIX_INDEX, prefix_end(PREFIX_INDEX))
    while taken := list(islice(items, at_once)):
        keys = [key for key, _ in taken]
        for key in keys:
            if len(key) != INDEX_KEY_BYTES:
                findings.add("index", "an index key has the wrong length", key=key)
        keys = [key for key in keys if len(key) == INDEX_KEY_BYTES]
        if keys:
            _check_windows(view, keys, findings)
            _check_rows(view, state, keys, findings)


def _check_windows(view: ShardSnapshot, keys: list[bytes], findings: Findings) -> None:
    _, primaries, _ = decode_late_keys(keys)
    for key, window in zip(keys, view.scheme.of_many(primaries).tolist(), strict=True):
        if decode_index_key(key)[0] != window:
            findings.add("index", "an entry is stored under the wrong window", key=key)


def _check_rows(
    view: ShardSnapshot, state: ShardState, keys: list[bytes], findings: Findings
) -> None:
    secondaries, primaries, addresses = decode_late_keys(keys)
    order = np.argsort(addresses, kind="stable")
    gone = (addresses < state.start) | (primaries < state.floor)
    for lost in (*state.lost, *state.gaps):
        gone |= (addresses >= lost.start) & (addresses < lost.end)
    order = order[~gone[order]]
    for part, zone in _by_zone(view, addresses, order):
        if zone is None:
            _add(findings, keys[part[0]], "names an address without a block")
            continue
        with suppress(CorruptionError):
            # The pass over the blocks reports those that cannot be read.
            is_right = np.zeros(len(part), np.bool_)
            begin, end = int(addresses[part[0]]), int(addresses[part[-1]]) + 1
            for _, block in view.pieces(zone, begin, end):
                is_right |= _is_right(block, secondaries[part], primaries[part], addresses[part])
            for wrong in part[~is_right].tolist():
                _add(findings, keys[wrong], "differs from the row that it names")


def _by_zone(
    view: ShardSnapshot, addresses: Int64s, order: Places
) -> Iterator[tuple[Places, Zone | None]]:
    """Yield places of ascending addresses, those in one block together, one without alone."""
    ascending = addresses[order]
    first = 0
    while first < len(order):
        zone, end = None, first + 1
        with suppress(CorruptionError):
            zone = view.zone_at(int(ascending[first]))
            end = int(ascending.searchsorted(zone.end))
        yield order[first:end], zone
        first = end


def _is_right(
    block: Block, secondaries: Int32s, primaries: Int64s, addresses: Int64s
) -> npt.NDArray[np.bool_]:
    rows = np.minimum(block.addresses.searchsorted(addresses), len(block) - 1)
    right: npt.NDArray[np.bool_] = block.addresses[rows] == addresses
    right &= (block.secondaries[rows] == secondaries) & (block.primaries[rows] == primaries)
    return right if block.states is None else right & (block.states[rows] == State.NORMAL)


def _add(findings: Findings, key: bytes, message: str) -> None:
    _, secondary, _, address = decode_index_key(key)
    findings.add("index", f"an entry of id {secondary} {message}", address, address + 1, key)
