"""Giving up by name, when a shard is opened, what cannot be had back.

Without a marker nobody knows what was committed: another one is made that takes what the store
holds. Of an unfinished transaction whose staged rows are gone what there is is removed.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storage_core.engine.commit_marker import MarkerWriter, create_marker
from storage_core.engine.key_value import Batch, KeyValueStore
from storage_core.format.counters import Counters
from storage_core.format.keys import (
    FAMILY_LOG,
    PREFIX_LATE,
    ahead_key_of,
    log_key,
    prefix_end,
    zone_key,
)
from storage_core.format.marker_slot import MarkerState
from storage_core.format.shard_state import (
    KEY_NEXT,
    KEY_REMOVED,
    KEY_TRANSACTIONS,
    ShardState,
    Tail,
    encode_ledger,
    encode_tail,
    generation_after,
)
from storage_core.read.view import ShardView
from storage_core.write.opened_shard import ShardContext

# A lost marker may have been ahead of the store's generation by as many crashed openings.
_GENERATION_JUMP: Final = 2**20


@dataclass(frozen=True, slots=True)
class GiveUp:
    """What an opener gives up by name, because it cannot be had back."""

    marker: bool = False
    transactions: Collection[str] = ()


def make_marker_anew(context: ShardContext, path: Path, state: ShardState) -> MarkerWriter:
    """Make a marker that takes for committed what a store's state says."""
    assert state.ledger is not None, "a shard that is opened has a ledger"
    begun = state.ledger.begun
    end = state.tail.next if begun is None else min(state.tail.next, begun[1].begin)
    create_marker(path, end, context.lineage)
    marker, _ = context.environment.open_marker(path)
    assert marker is not None
    marker.write_both(next_generation(marker.state, state.generation + _GENERATION_JUMP))
    return marker


def next_generation(state: MarkerState, at_least: int) -> MarkerState:
    """Return a marker of the generation after its own and another."""
    return replace(state, generation=generation_after(state.generation, at_least))


def remove_unfinished(
    view: ShardView, store: KeyValueStore, state: ShardState, committed: int
) -> ShardState:
    """Remove the rows of the transaction that is given up: all above what is committed.

    Args:
        view: All that is written.
        store: Where it is written.
        state: What it says of the shard.
        committed: The end of what is known to be committed.
    """
    assert state.ledger is not None, "a shard that is opened has a ledger"
    tail, ledger = state.tail, replace(state.ledger, begun=None)
    batch = Batch()
    removed = Counters()
    blocks_end = tail.blocks_end
    for zone in view.zones(committed, tail.next):
        blocks_end = min(blocks_end, zone.previous_end)
        batch.delete(log_key(zone.first), FAMILY_LOG)
        batch.delete(zone_key(zone.first))
        removed = removed.plus(
            Counters(
                records=zone.count,
                late_arrivals=zone.late,
                ahead=zone.ahead,
                expired=zone.expired,
                blocks=1,
            )
        )
    for key, _ in view.meta_items(PREFIX_LATE, prefix_end(PREFIX_LATE)):
        if int.from_bytes(key[-8:], "big") >= committed:
            batch.delete(key)
            batch.delete(ahead_key_of(key))
    tail = Tail(min(tail.next, committed), blocks_end, tail.counters.minus(removed))
    batch.put(KEY_TRANSACTIONS, encode_ledger(ledger))
    batch.put(KEY_REMOVED, b"")
    batch.put(KEY_NEXT, encode_tail(tail))
    store.write(batch)
    store.sync()
    return replace(state, tail=tail, ledger=ledger)
