"""The transactions that one shard knows: which is begun, which are done, which it may forget.

The ids of those that are done are looked up in the store by key, one by one, so nothing here
grows with them. Each takes the next place of its kind, and the one that takes a place forgets,
in the same WriteBatch, a few of those whose time is over: of numbered ones all that stood
before and for which the mark of their series speaks; of the others what `transactions_kept` passes.
None is forgotten while it is still staged, since whoever finishes it would ask. A number that
has to stay takes a new place: others need not wait for a series that may never go on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from storage_core.format.keys import KIND_NAMED, KIND_NUMBERED, done_key, place_key
from storage_core.format.shard_state import (
    KEY_TRANSACTIONS,
    Ledger,
    Places,
    TransactionProgress,
    decode_progress,
    encode_ledger,
    encode_progress,
    transaction_key,
)
from storage_core.store.key_value import Batch

_FORGOTTEN_AT_ONCE: Final = 8

Load = Callable[[list[bytes]], list[bytes | None]]


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """A transaction as a shard is asked to take it.

    Attributes:
        name: Its id in the shards.
        planned: How many rows it has.
        is_numbered: Whether the mark of its series speaks for it once it is no longer staged.
    """

    name: str
    planned: TransactionProgress
    is_numbered: bool


class IsNeeded(Protocol):
    """Tells whether a shard will be asked about a transaction again."""

    def __call__(self, transaction: str, *, is_numbered: bool) -> bool:
        """Tell it of one that is done here."""


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
        # The second is where a shard that an earlier version made has it.
        found = self._load([done_key(transaction), transaction_key(transaction)])
        return next((decode_progress(data) for data in found if data is not None), None)

    def unfinished(self) -> str | None:
        """Return the transaction of which only a part is written."""
        begun = self._ledger.begun
        return None if begun is None else begun[0]

    def put(
        self, beside: Batch, staged: StagedTransaction, progress: TransactionProgress, kept: int
    ) -> Ledger:
        """Put how far a transaction comes into the batch that takes it there.

        Args:
            beside: What is written with the rows.
            staged: The transaction.
            progress: How far it has come once the batch is written.
            kept: So many named transactions are remembered.

        Returns:
            What is to be accepted once the batch is written.
        """
        if progress.is_done:
            ledger = self._with_done(beside, staged, progress, kept)
        else:
            ledger = replace(self._ledger, begun=(staged.name, progress))
        beside.put(KEY_TRANSACTIONS, encode_ledger(ledger))
        return ledger

    def accept(self, ledger: Ledger) -> None:
        """Take over what a batch that is written said."""
        self._ledger = ledger

    def _with_done(
        self, beside: Batch, staged: StagedTransaction, progress: TransactionProgress, kept: int
    ) -> Ledger:
        """Give a transaction that is done its place, and forget those whose time is over."""
        numbered = staged.is_numbered
        kind = KIND_NUMBERED if numbered else KIND_NAMED
        places = self._ledger.numbered if numbered else self._ledger.named
        beside.put(done_key(staged.name), encode_progress(progress))
        beside.put(place_key(kind, places.next), staged.name.encode())
        places = self._forget(
            beside, kind, Places(places.first, places.next + 1), 1 if numbered else kept
        )
        if numbered:
            return replace(self._ledger, begun=None, numbered=places)
        return replace(self._ledger, begun=None, named=places)

    def _forget(self, beside: Batch, kind: int, places: Places, kept: int) -> Places:
        first, end = places.first, places.next
        keys = [
            place_key(kind, place)
            for place in range(first, min(first + _FORGOTTEN_AT_ONCE, end - kept))
        ]
        for key, data in zip(keys, self._load(keys) if keys else (), strict=True):
            name = "" if data is None else data.decode()
            if not self._is_needed(name, is_numbered=kind == KIND_NUMBERED):
                beside.delete(done_key(name))
            elif kind == KIND_NUMBERED:
                beside.put(place_key(kind, end), name.encode())
                end += 1
            else:
                break
            beside.delete(key)
            first += 1
        return Places(first, end)
