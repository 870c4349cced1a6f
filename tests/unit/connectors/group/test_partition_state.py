"""Which word an operator is told for a partition, by what is known of it."""

from dataclasses import replace

import pytest

from connectors.group import Pause, QuarantineNote
from connectors.group.partition_state import STALLED_AFTER_MS, PartitionFacts, state_of
from connectors.group.rewinds import Rewind
from storage_core import ShardOwner

NOW_MS = 10**12
LONG_AGO_MS = NOW_MS - STALLED_AFTER_MS
OWNER = ShardOwner(7, "h", LONG_AGO_MS - 1)
NOTE = QuarantineNote("t", 0, 5, "damage", "a block is damaged")
REWIND = Rewind("t", 0, 8, 11, "")
PAUSE = Pause("t", 0, 6, "a disk is replaced")


@pytest.mark.parametrize(
    ("state", "since_ms", "facts"),
    [
        ("ok", None, {"owner": OWNER, "readable_end": 10}),
        ("ok", None, {"owner": OWNER}),
        ("behind", None, {"owner": OWNER, "readable_end": 11, "committed_ms": LONG_AGO_MS + 1}),
        (
            "stalled",
            LONG_AGO_MS,
            {"owner": OWNER, "readable_end": 11, "committed_ms": LONG_AGO_MS},
        ),
        ("behind", None, {"owner": ShardOwner(7, "h", NOW_MS), "readable_end": 11}),
        (
            "rewinding",
            OWNER.since_ms,
            {"owner": OWNER, "readable_end": 11, "group_offset": 11, "committed_ms": NOW_MS},
        ),
        ("rewinding", OWNER.since_ms, {"owner": OWNER, "group_offset": 11}),
        ("rewinding", 8, {"owner": OWNER, "group_offset": 10, "rewind": REWIND}),
        (
            "stalled",
            LONG_AGO_MS,
            {
                "owner": OWNER,
                "readable_end": 11,
                "committed_ms": LONG_AGO_MS,
                "rewind": REWIND,
            },
        ),
        ("ok", None, {"owner": OWNER, "rewind": replace(REWIND, until=10)}),
        ("ok", None, {"owner": OWNER, "readable_end": 10, "group_offset": 9}),
        ("stopped", 4, {"committed_ms": 4, "readable_end": 11}),
        ("quarantined", 5, {"note": NOTE, "committed_ms": 4}),
        ("quarantined", 5, {"note": NOTE, "owner": OWNER}),
        ("paused", 6, {"pause": PAUSE, "committed_ms": 4}),
        ("paused", 6, {"pause": PAUSE, "note": NOTE}),
    ],
)
def test_state_of_a_partition(state, since_ms, facts):
    state_now = state_of(PartitionFacts(next=10, **facts), NOW_MS)
    assert (state_now.state, state_now.since_ms) == (state, since_ms)


def test_reason_of_a_pause_has_the_fault_too():
    reason = state_of(PartitionFacts(next=0, pause=PAUSE, note=NOTE), NOW_MS).reason
    assert reason == "a disk is replaced; quarantined too, damage: a block is damaged"
