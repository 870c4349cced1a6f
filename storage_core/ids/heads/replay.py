"""Replaying heads from blocks: what their normal rows make of the heads before them."""

import numpy as np

from storage_core.format.block import Block
from storage_core.format.record import State
from storage_core.ids.heads.grouping import Grouping, Int64s, Judged, States, group
from storage_core.ids.heads.table import Heads, heads_after


def block_groups(block: Block) -> Grouping:
    """Return the distinct secondaries of a block, ascending."""
    return group(block.secondaries)


def replay_block(block: Block, groups: Grouping, before: Heads) -> Heads:
    """Return the heads of a block's secondaries, those before it being of all that stands.

    A late row moves no head, unless the row that it was late against is lost: it is the newest of
    its id then, and what comes is judged by it. So before a normal row none that stands is larger
    by more than the jitter, whatever was given up.
    """
    states, primaries, codes = block.states, block.primaries, groups.codes
    after = replay_rows(states, primaries, block.addresses, groups, before)
    if states is None:
        return after
    newest = (states == State.LATE) & (primaries > after.primary[codes])
    if not newest.any():
        return after
    states = np.where(newest, np.uint8(State.NORMAL), states)
    return replay_rows(states, primaries, block.addresses, groups, before)


def replay_rows(
    states: States | None, primaries: Int64s, addresses: Int64s, groups: Grouping, before: Heads
) -> Heads:
    """Return the heads of rows' secondaries once their stored states (None: normal) have spoken."""
    maxima = before.primary.copy()
    if states is None:
        np.maximum.at(maxima, groups.codes, primaries)
    else:
        normal = states == State.NORMAL
        np.maximum.at(maxima, groups.codes[normal], primaries[normal])
    return heads_after(before, groups, Judged(states, maxima, 0), primaries, addresses)
