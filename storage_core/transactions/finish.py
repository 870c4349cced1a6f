"""Finishing staged transactions: a shard takes all rows of one at once, going on where it stopped.

Each WriteBatch carries the transaction's progress beside its rows; the marker moves once,
behind the last of them. At most one transaction is unfinished in a shard.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.format.record import Rows
from storage_core.format.shard_state import TransactionProgress
from storage_core.ground.clock import Clock
from storage_core.ground.parallel import Threads
from storage_core.store.key_value import Batch
from storage_core.transactions.manifest import (
    Manifest,
    clear_if_done,
    mark_done,
    read_staged_rows,
    staged_transactions,
)
from storage_core.write.entry import Entry
from storage_core.write.ledger import StagedTransaction
from storage_core.write.shard import Shard

# One waits for the disk while another makes blocks; each holds a part of staged rows in memory.
_SHARDS_AT_ONCE: Final = 2


def finish(manifest: Manifest, shards: Mapping[int, Shard], clock: Clock) -> None:
    """Append a staged transaction to those of its shards that are open.

    Raises:
        CorruptionError: A staged file that is still needed is missing or damaged.
    """
    concerned = [shards[number] for number in manifest.shards if number in shards]
    with Threads(_SHARDS_AT_ONCE) as threads:
        threads.each(partial(_append_staged, manifest, clock), concerned)
    clear_if_done(manifest, clock)


def _append_staged(manifest: Manifest, clock: Clock, shard: Shard) -> None:
    number = shard.context.number
    with shard.guard.appending():
        # IMPORTANT: looked at under the lock; a shard forgets what it has only once the manifest
        # is gone, and would take the rows a second time.
        if not manifest.is_published:
            _refuse_if_removed(manifest, shard)
            return
        rows = read_staged_rows(manifest, number)
        rows_total = sum(part.rows for part in manifest.shards[number])
        planned = TransactionProgress(0, rows_total, manifest.rows_total, shard.tail.next)
        staged = StagedTransaction(manifest.transaction, planned, manifest.is_numbered)
        append(shard, staged, rows)
    mark_done(manifest, number, clock)


def _refuse_if_removed(manifest: Manifest, shard: Shard) -> None:
    """Tell rows that somebody removed from rows that have landed and were cleared away."""
    if manifest.is_numbered:
        # Shards forget these; the mark of their series speaks for them.
        return
    progress = shard.transactions.progress(manifest.transaction)
    if progress is None or not progress.is_done:
        message = f"the staged rows of transaction {manifest.transaction!r} were removed"
        raise UnavailableError(message, shard=shard.context.number, path=manifest.directory)


def finish_all(staging: Path, shards: Mapping[int, Shard], clock: Clock) -> None:
    """Finish the transactions that earlier owners of these shards did not.

    Raises:
        CorruptionError: One was begun and its staging is gone.
    """
    manifests = list(staged_transactions(staging))
    # IMPORTANT: what a shard has begun goes first; rows behind it would publish half of it.
    for manifest in manifests:
        for number, shard in shards.items():
            if manifest.transaction == shard.transactions.unfinished():
                finish(manifest, {number: shard}, clock)
    for manifest in manifests:
        finish(manifest, shards, clock)
    for number, shard in shards.items():
        name = _stranded(shard)
        if name is not None:
            message = (
                f"transaction {name!r} is unfinished and its staged rows are gone; "
                "open with give_up_transactions to forget it"
            )
            raise CorruptionError(message, shard=number, path=staging)


def _stranded(shard: Shard) -> str | None:
    """Return the unfinished transaction if nobody goes on with it at this moment."""
    if shard.transactions.unfinished() is None:
        return None
    with shard.guard.appending():
        return shard.transactions.unfinished()


def append(shard: Shard, staged: StagedTransaction, batches: Iterator[Rows]) -> None:
    """Append a transaction's rows; all of them are visible and durable on return.

    Raises:
        InvalidRequestError: The shard knows the transaction with another number of rows.
        UnavailableError: Another transaction is unfinished here.
    """
    with shard.guard.appending():
        known = shard.transactions.progress(staged.name)
        if known is not None:
            _refuse_other_rows(shard, staged, known)
        if known is not None and known.is_done:
            # Done in the store is not yet durable.
            shard.commit_path(None, durable=True)
            return
        _refuse_others(shard, staged.name)
        with shard.publishing_at_end():
            progress = known or replace(staged.planned, begin=shard.tail.next)
            _append_from(shard, staged, progress, batches)


def _refuse_others(shard: Shard, transaction: str) -> None:
    if shard.transactions.unfinished() not in (None, transaction):
        message = f"another transaction than {transaction!r} is unfinished; reopen first"
        raise UnavailableError(message, shard=shard.context.number)


def _refuse_other_rows(shard: Shard, staged: StagedTransaction, known: TransactionProgress) -> None:
    planned = staged.planned
    numbers = planned.rows_total, planned.rows_of_all_shards
    if numbers != (known.rows_total, known.rows_of_all_shards):
        message = (
            f"transaction {staged.name!r} has {known.rows_total} rows here and "
            f"{known.rows_of_all_shards} in all, and is staged again with {numbers[0]} and "
            f"{numbers[1]}; open with give_up_transactions to forget what is staged"
        )
        raise InvalidRequestError(message, shard=shard.context.number)


def _append_from(
    shard: Shard,
    staged: StagedTransaction,
    progress: TransactionProgress,
    batches: Iterator[Rows],
) -> None:
    if progress.rows_total == 0:
        _write(shard, staged, None, progress)
    passed = 0
    for rows in batches:
        skipped = max(0, min(len(rows), progress.rows_done - passed))
        passed += len(rows)
        if skipped < len(rows):
            part = rows.slice(skipped, len(rows))
            _write(shard, staged, part, replace(progress, rows_done=passed))


def _write(
    shard: Shard, staged: StagedTransaction, rows: Rows | None, progress: TransactionProgress
) -> None:
    beside = Batch()
    kept = shard.options.transactions_kept
    ledger = shard.transactions.put(beside, staged, progress, kept)
    shard.commit_path(Entry(rows, beside=beside), durable=False)
    shard.transactions.accept(ledger)
