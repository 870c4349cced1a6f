"""Replaying heads from blocks: what their normal rows make of the heads before them."""

import numpy as np

from storage_core.format.block import Block
from storage_core.heads.grouping import Grouping, Int64s, Judged, States, group
from storage_core.heads.table import Heads, heads_after


def block_groups(block: Block) -> Grouping:
    """Return the distinct secondaries of a block, ascending."""
    return group(block.secondaries)


def replay_block(block: Block, groups: Grouping, before: Heads) -> Heads:
    """Return the heads of a block's secondaries once its stored states have spoken."""
    return replay_rows(block.states, block.primaries, block.addresses, groups, before)


def replay_rows(
    states: States | None, primaries: Int64s, addresses: Int64s, groups: Grouping, before: Heads
) -> Heads:
    """Return the heads of rows' secondaries once their stored states (None: normal) have spoken."""
    maxima = before.primary.copy()
    if states is None:
        np.maximum.at(maxima, groups.codes, primaries)
    else:
        normal = states == 0
        np.maximum.at(maxima, groups.codes[normal], primaries[normal])
    return heads_after(before, groups, Judged(states, maxima, 0), primaries, addresses)
