"""The transactions that one shard knows: which is begun, which are done, which it may forget.

The ids of those that are done are looked up in the store by key, one by one, so nothing here
grows with them. Each takes the next place of its kind, and the one that takes a place forgets,
in the same WriteBatch, a few of those whose time is over: of numbered ones all but the last
`NUMBERED_KEPT` for which the mark of their series speaks; of the others all but the last
`transactions_kept`. None is forgotten while it is still staged, since whoever finishes it would
ask. A number that has to stay takes a new place: others need not wait for a series that may never
go on.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from storage_core.engine.key_value import Batch
from storage_core.format.keys import KIND_NAMED, KIND_NUMBERED, done_key, place_key
from storage_core.format.shard_state import (
    KEY_TRANSACTIONS,
    Ledger,
    Places,
    TransactionProgress,
    decode_progress,
    encode_ledger,
    encode_progress,
)

_FORGOTTEN_AT_ONCE: Final = 8
# Whoever takes a snapshot of several shards asks for what landed meanwhile.
NUMBERED_KEPT: Final = 16

Load = Callable[[list[bytes]], list[bytes | None]]


# Tells of a transaction of a kind whether the shard, which has its rows, will be asked about it.
IsNeeded = Callable[[str, int], bool]


class ShardTransactions:
    """The transactions one shard knows. Changed under its append lock only; any thread may ask."""

    def __init__(self, ledger: Ledger, load: Load, is_needed: IsNeeded) -> None:
        """Start from what recovery found; `load` looks keys up in the writer's store."""
        self._ledger = ledger
        self._load = load
        self._is_needed = is_needed

    def progress(self, transaction: str) -> TransactionProgress | None:
        """Return how far a transaction has come here, None if it is unknown or forgotten."""
        begun = self._ledger.begun
        if begun is not None and begun[0] == transaction:
            return begun[1]
        (value,) = self._load([done_key(transaction)])
        return None if value is None else decode_progress(value)

    def unfinished(self) -> str | None:
        """Return the transaction of which only a part is written."""
        begun = self._ledger.begun
        return None if begun is None else begun[0]

    def put(
        self, beside: Batch, transaction: str, progress: TransactionProgress, slots_max: int | None
    ) -> Ledger:
        """Put how far a transaction comes into the batch that takes it there.

        Args:
            beside: What is written with the rows.
            transaction: Its id.
            progress: How far it has come once the batch is written.
            slots_max: So many like it are remembered; None if the mark of its series stands for
                it.

        Returns:
            What is to be accepted once the batch is written.
        """
        begun = None if progress.is_done else (transaction, progress)
        ledger = replace(self._ledger, begun=begun)
        if progress.is_done:
            beside.put(done_key(transaction), encode_progress(progress))
            if slots_max is None:
                places = ledger.numbered
                places = self._take_slot(beside, transaction, KIND_NUMBERED, places, NUMBERED_KEPT)
                ledger = replace(ledger, numbered=places)
            else:
                places = self._take_slot(beside, transaction, KIND_NAMED, ledger.named, slots_max)
                ledger = replace(ledger, named=places)
        beside.put(KEY_TRANSACTIONS, encode_ledger(ledger))
        return ledger

    def accept(self, ledger: Ledger) -> None:
        """Take over what a batch that is written said."""
        self._ledger = ledger

    def _take_slot(
        self, beside: Batch, transaction: str, kind: int, places: Places, slots_max: int
    ) -> Places:
        """Give a transaction that is done its place, and forget those whose time is over."""
        beside.put(place_key(kind, places.next), transaction.encode())
        first, end = places.first, places.next + 1
        keys = [
            place_key(kind, place)
            for place in range(first, min(first + _FORGOTTEN_AT_ONCE, end - slots_max))
        ]
        for key, data in zip(keys, self._load(keys) if keys else (), strict=True):
            name = "" if data is None else data.decode()
            if not self._is_needed(name, kind):
                beside.delete(done_key(name))
            elif kind == KIND_NUMBERED:
                beside.put(place_key(kind, end), name.encode())
                end += 1
            else:
                break
            beside.delete(key)
            first += 1
        return Places(first, end)
