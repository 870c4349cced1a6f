"""Which transactions a snapshot of a shard holds, and since when.

A shard remembers the last transactions that it took, by place and by name (write/ledger.py). Their
rows lie side by side. They are committed or not: whoever asks compares with an address of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from storage_core.format.keys import KIND_NAMED, KIND_NUMBERED, done_key, place_key
from storage_core.format.shard_state import AddressRange, Ledger, decode_progress
from storage_core.read.snapshot import ShardSnapshot


@dataclass(frozen=True, slots=True)
class Landed:
    """A transaction of which a shard has all its rows.

    Attributes:
        rows: Its rows in this shard.
        rows_of_all_shards: How many it has in all shards together.
    """

    rows: AddressRange
    rows_of_all_shards: int


@dataclass(frozen=True, slots=True)
class Landings:
    """What a snapshot says of the transactions of its shard.

    Attributes:
        committed: The snapshot's.
        ledger: A later snapshot finds by it what has landed since.
        since: Those that landed since an earlier snapshot, by name.
        named: Those asked for by name that are there.
        is_whole: Whether none that landed since is forgotten already.
        has_forgotten: Whether any was forgotten since.
    """

    committed: int
    ledger: Ledger
    since: Mapping[str, Landed]
    named: Mapping[str, Landed]
    is_whole: bool = True
    has_forgotten: bool = False


def landings_in(
    snapshot: ShardSnapshot, earlier: Ledger | None = None, names: Collection[str] = ()
) -> Landings:
    """Return what a snapshot says of transactions.

    Args:
        snapshot: The snapshot.
        earlier: The ledger of an earlier snapshot; None where nobody asks what landed since.
        names: Transactions to look up.
    """
    ledger = snapshot.state.ledger or Ledger()
    recent: set[str] = set()
    is_whole, has_forgotten = True, False
    if earlier is not None:
        for kind, was, now in (
            (KIND_NAMED, earlier.named, ledger.named),
            (KIND_NUMBERED, earlier.numbered, ledger.numbered),
        ):
            first, end = place_key(kind, was.next), place_key(kind, now.next)
            recent.update(name.decode() for _, name in snapshot.meta_items(first, end))
            is_whole = is_whole and now.first <= was.next
            has_forgotten = has_forgotten or now.first != was.first
    since = _landed_by_name(snapshot, recent)
    is_whole = is_whole and len(since) == len(recent)
    named = _landed_by_name(snapshot, names)
    return Landings(snapshot.committed, ledger, since, named, is_whole, has_forgotten)


def _landed_by_name(snapshot: ShardSnapshot, names: Collection[str]) -> dict[str, Landed]:
    landed = {}
    for name in names:
        data = snapshot.value_at(done_key(name))
        progress = None if data is None else decode_progress(data)
        if progress is not None and progress.is_done:
            rows = AddressRange(progress.begin, progress.begin + progress.rows_total)
            landed[name] = Landed(rows, progress.rows_of_all_shards)
    return landed
