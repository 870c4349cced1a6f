"""How a shard takes a staged transaction: all of its rows at once, going on where it stopped.

Each WriteBatch carries the transaction's progress beside its rows; the marker moves once,
behind the last of them. At most one transaction is unfinished in a shard.

The ids of those that are done are looked up in the store by key, one by one, so nothing here
grows with them. Each takes the next place of its kind, and the one that takes a place forgets,
in the same WriteBatch, a few of those whose time is over: of numbered ones all that stood
before and for which the mark of their series speaks; of the others what `transactions_kept` passes.
None is forgotten while it is still staged, since whoever finishes it would ask. A number that
has to stay takes a new place: others need not wait for a series that may never go on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.format.keys import KIND_NAMED, KIND_NUMBERED, done_key, place_key
from storage_core.format.record import Rows
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
from storage_core.store.rocks import Batch
from storage_core.write.entry import Entry

if TYPE_CHECKING:
    from storage_core.write.shard import Shard

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

    def __init__(self, shard: "Shard", ledger: Ledger, load: Load, is_needed: IsNeeded) -> None:
        """Start from what recovery found; `load` looks keys up in the writer's store."""
        self._shard = shard
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

    def stranded(self) -> str | None:
        """Return the unfinished transaction if nobody goes on with it at this moment."""
        if self.unfinished() is None:
            return None
        with self._shard.guard.appending():
            return self.unfinished()

    def append(self, staged: StagedTransaction, batches: Iterator[Rows]) -> None:
        """Append a transaction's rows; all of them are visible and durable on return.

        Raises:
            InvalidRequestError: The shard knows the transaction with another number of rows.
            UnavailableError: Another transaction is unfinished here.
        """
        shard = self._shard
        with shard.guard.appending():
            known = self.progress(staged.name)
            if known is not None:
                self._refuse_other_rows(staged, known)
            if known is not None and known.is_done:
                # Done in the store is not yet durable.
                shard.commit_path(None, durable=True)
                return
            self._refuse_others(staged.name)
            with shard.publishing_at_end():
                progress = known or replace(staged.planned, begin=shard.tail.next)
                self._append_from(staged, progress, batches)

    def _refuse_others(self, transaction: str) -> None:
        if self.unfinished() not in (None, transaction):
            message = f"another transaction than {transaction!r} is unfinished; reopen first"
            raise UnavailableError(message, shard=self._shard.context.number)

    def _refuse_other_rows(self, staged: StagedTransaction, known: TransactionProgress) -> None:
        planned = staged.planned
        numbers = planned.rows_total, planned.rows_of_all_shards
        if numbers != (known.rows_total, known.rows_of_all_shards):
            message = (
                f"transaction {staged.name!r} has {known.rows_total} rows here and "
                f"{known.rows_of_all_shards} in all, and is staged again with {numbers[0]} and "
                f"{numbers[1]}; open with give_up_transactions to forget what is staged"
            )
            raise InvalidRequestError(message, shard=self._shard.context.number)

    def _append_from(
        self, staged: StagedTransaction, progress: TransactionProgress, batches: Iterator[Rows]
    ) -> None:
        if progress.rows_total == 0:
            self._write(staged, None, progress)
        passed = 0
        for rows in batches:
            skipped = max(0, min(len(rows), progress.rows_done - passed))
            passed += len(rows)
            if skipped < len(rows):
                part = rows.slice(skipped, len(rows))
                self._write(staged, part, replace(progress, rows_done=passed))

    def _write(
        self, staged: StagedTransaction, rows: Rows | None, progress: TransactionProgress
    ) -> None:
        beside = Batch()
        if progress.is_done:
            ledger = self._with_done(beside, staged, progress)
        else:
            ledger = replace(self._ledger, begun=(staged.name, progress))
        beside.put(KEY_TRANSACTIONS, encode_ledger(ledger))
        self._shard.commit_path(Entry(rows, beside=beside), durable=False)
        self._ledger = ledger

    def _with_done(
        self, beside: Batch, staged: StagedTransaction, progress: TransactionProgress
    ) -> Ledger:
        """Give a transaction that is done its place, and forget those whose time is over."""
        numbered = staged.is_numbered
        kind = KIND_NUMBERED if numbered else KIND_NAMED
        places = self._ledger.numbered if numbered else self._ledger.named
        kept = 1 if numbered else self._shard.options.transactions_kept
        beside.put(done_key(staged.name), encode_progress(progress))
        beside.put(place_key(kind, places.next), staged.name.encode())
        places = self._forget(beside, kind, Places(places.first, places.next + 1), kept)
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
