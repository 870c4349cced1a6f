"""Replay: heads rebuilt from a block are the heads the writer had."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.block import BlockPlace, block_checksum, decode_block, encode_block
from storage_core.ids.heads.grouping import group
from storage_core.ids.heads.replay import block_groups, replay_block
from storage_core.ids.heads.table import Heads, heads_after
from storage_core.write.states import StateRules, judge
from tests.unit.storage_core.ids.heads.test_table import dict_of
from tests.unit.storage_core.strategies import few, rows

PLACE = BlockPlace(bytes(16), 0)


@few
@given(rows(), st.integers(0, 5), st.sampled_from([4, 2**62]))
def test_replayed_block_gives_the_heads_that_judging_gave(given_rows, jitter, ahead_limit):
    groups = group(given_rows.secondary)
    before = Heads.none_for(groups.ids)
    in_force = StateRules(-(2**62), ahead_limit, jitter)
    judged = judge(given_rows.primary, groups, before.primary, in_force)
    addresses = np.arange(5, 5 + len(given_rows))
    data = encode_block(given_rows, judged.states, addresses, PLACE, 0, "none")
    block = decode_block(data, PLACE, 5, block_checksum(data))
    replayed = replay_block(block, block_groups(block), Heads.none_for(groups.ids))
    expected = heads_after(before, groups, judged, given_rows.primary, addresses)
    assert dict_of(replayed) == dict_of(expected)
