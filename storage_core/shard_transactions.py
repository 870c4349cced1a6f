"""How a shard takes a staged transaction: all of its rows at once, going on where it stopped.

Each WriteBatch carries the transaction's progress beside its rows; the marker moves once,
behind the last of them. At most one transaction is unfinished in a shard.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from storage_core.entry import Entry
from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.keys import FAMILY_DEFAULT
from storage_core.record import Rows
from storage_core.rocks import Batch
from storage_core.shard_state import TransactionProgress, encode_progress, transaction_key

if TYPE_CHECKING:
    from storage_core.shard import Shard


class ShardTransactions:
    """The transactions one shard knows. Changed under its append lock only; any thread may ask."""

    def __init__(self, shard: "Shard", known: Mapping[str, TransactionProgress]) -> None:
        """Start from what recovery found."""
        self._shard = shard
        self._known = dict(known)

    def progress(self, transaction: str) -> TransactionProgress | None:
        """Return how far a transaction has come here, None if it is unknown."""
        return self._known.get(transaction)

    def unfinished(self) -> list[str]:
        """Return the transactions of which only a part is written."""
        return [name for name, progress in list(self._known.items()) if not progress.is_done]

    def stranded(self) -> list[str]:
        """Return the unfinished transactions that nobody goes on with at this moment."""
        if not self.unfinished():
            return []
        with self._shard.guard.appending():
            return self.unfinished()

    def done(self) -> list[str]:
        """Return the transactions whose rows are all written."""
        return [name for name, progress in list(self._known.items()) if progress.is_done]

    def forget(self, transactions: Iterable[str]) -> None:
        """Drop transactions that cannot come again, so that what is known stays small."""
        names = list(transactions)
        if not names:
            return
        batch = Batch()
        for name in names:
            batch.delete(transaction_key(name))
        with self._shard.guard.appending():
            self._shard.write_beside(batch)
            for name in names:
                self._known.pop(name, None)

    def append(
        self, transaction: str, planned: TransactionProgress, batches: Iterator[Rows]
    ) -> None:
        """Append a transaction's rows; all of them are visible and durable on return.

        Raises:
            InvalidRequestError: The shard knows the transaction with another number of rows.
            UnavailableError: Another transaction is unfinished here.
        """
        shard = self._shard
        with shard.guard.appending():
            known = self._known.get(transaction)
            if known is not None and known.is_done:
                # Done in memory is not yet durable.
                shard.commit_path(None, durable=True)
                return
            self._refuse_others(transaction)
            if known is not None and known.rows_total != planned.rows_total:
                message = f"transaction {transaction!r} has {known.rows_total} rows here"
                raise InvalidRequestError(message, shard=shard.context.number)
            with shard.publishing_at_end():
                progress = known or replace(planned, begin=shard.tail.next)
                self._append_from(transaction, progress, batches)

    def _refuse_others(self, transaction: str) -> None:
        if any(name != transaction for name in self.unfinished()):
            message = f"another transaction than {transaction!r} is unfinished; reopen first"
            raise UnavailableError(message, shard=self._shard.context.number)

    def _append_from(
        self, transaction: str, progress: TransactionProgress, batches: Iterator[Rows]
    ) -> None:
        if progress.rows_total == 0:
            self._write(transaction, None, progress)
        passed = 0
        for rows in batches:
            skipped = max(0, min(len(rows), progress.rows_done - passed))
            passed += len(rows)
            if skipped < len(rows):
                part = rows.slice(skipped, len(rows))
                self._write(transaction, part, replace(progress, rows_done=passed))

    def _write(self, transaction: str, rows: Rows | None, progress: TransactionProgress) -> None:
        attachment = (FAMILY_DEFAULT, transaction_key(transaction), encode_progress(progress))
        self._shard.commit_path(Entry(rows, attachments=(attachment,)), durable=False)
        self._known[transaction] = progress
