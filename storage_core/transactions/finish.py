"""Finishing staged transactions: a shard takes all rows of one at once, going on where it stopped.

Each WriteBatch carries the transaction's progress beside its rows; the marker moves once,
behind the last of them. At most one transaction is unfinished in a shard.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.format.record import Rows
from storage_core.format.shard_state import TransactionProgress
from storage_core.platform.threads import Threads
from storage_core.transactions.decision import Shards, decision_of
from storage_core.transactions.manifest import (
    Manifest,
    Staging,
    note_done,
    read_staged_rows,
    rows_removed,
    staged_transactions,
)
from storage_core.write.entry import Entry
from storage_core.write.shard import Shard

# One waits for the disk while another makes blocks; each holds a part of staged rows in memory.
_SHARDS_AT_ONCE: Final = 2


def finish(staging: Staging, manifest: Manifest, shards: Shards) -> None:
    """Append a staged transaction to those of its shards that are open.

    Raises:
        CorruptionError: A staged file that is still needed is missing or damaged.
        InvalidRequestError: A shard knows the transaction with another number of rows.
        UnavailableError: Its staged rows were removed, or another is unfinished in a shard.
    """
    concerned = [shards[number] for number in manifest.shards if number in shards]
    Threads(_SHARDS_AT_ONCE).map(partial(_land, staging, manifest), concerned)
    note_done(staging, manifest, [shard.context.number for shard in concerned])


def finish_all(staging: Staging, shards: Shards) -> None:
    """Finish the transactions that earlier owners of these shards did not.

    Raises:
        CorruptionError: One was begun and its staging is gone.
    """
    manifests = list(staged_transactions(staging))
    # IMPORTANT: what a shard has begun goes first; rows behind it would publish half of it.
    for manifest in manifests:
        for number, shard in shards.items():
            if manifest.transaction == shard.transactions.unfinished():
                finish(staging, manifest, {number: shard})
    for manifest in manifests:
        finish(staging, manifest, shards)
    for number, shard in shards.items():
        name = _stranded(shard)
        if name is not None:
            message = (
                f"transaction {name!r} is unfinished and its staged rows are gone; "
                "open with give_up_transactions to forget it"
            )
            raise CorruptionError(message, shard=number, path=staging.directory)


def _stranded(shard: Shard) -> str | None:
    """Return the unfinished transaction if nobody goes on with it at this moment."""
    if shard.transactions.unfinished() is None:
        return None
    with shard.guard.appending():
        return shard.transactions.unfinished()


def _land(staging: Staging, manifest: Manifest, shard: Shard) -> None:
    """Append what a shard lacks of its rows; all are visible and durable on return."""
    with shard.guard.appending():
        # IMPORTANT: looked at under the lock; a shard forgets what it has only once the manifest
        # is gone, and would take the rows a second time.
        if not manifest.is_published:
            _refuse_if_removed(staging, manifest, shard)
            return
        recorded = shard.transactions.progress(manifest.transaction)
        rows_total = sum(part.rows for part in manifest.shards[shard.context.number])
        planned = TransactionProgress(0, rows_total, manifest.rows_total, 0)
        if recorded is not None:
            _refuse_other_rows(manifest, planned, recorded, shard)
        if recorded is not None and recorded.is_done:
            # Done in the store is not yet durable.
            shard.commit_path.run(None, durable=True)
        else:
            _refuse_others(manifest, shard)

            def append() -> None:
                # The tail is asked only here; what stood before is behind it by now.
                _append(manifest, recorded or replace(planned, begin=shard.tail.next), shard)

            shard.publish_at_end(append)


def _refuse_if_removed(staging: Staging, manifest: Manifest, shard: Shard) -> None:
    """Tell rows that somebody removed from rows that have landed and were cleared away."""
    id_, number = manifest.id or manifest.transaction, shard.context.number
    if not decision_of(staging, id_, {number: shard}).is_done:
        raise rows_removed(manifest, number)


def _refuse_other_rows(
    manifest: Manifest, planned: TransactionProgress, recorded: TransactionProgress, shard: Shard
) -> None:
    numbers = planned.rows_total, planned.rows_of_all_shards
    if numbers != (recorded.rows_total, recorded.rows_of_all_shards):
        message = (
            f"transaction {manifest.transaction!r} has {recorded.rows_total} rows here and "
            f"{recorded.rows_of_all_shards} in all, and is staged again with {numbers[0]} and "
            f"{numbers[1]}; open with give_up_transactions to forget what is staged"
        )
        raise InvalidRequestError(message, shard=shard.context.number)


def _refuse_others(manifest: Manifest, shard: Shard) -> None:
    if shard.transactions.unfinished() not in (None, manifest.transaction):
        message = f"another transaction than {manifest.transaction!r} is unfinished; reopen first"
        raise UnavailableError(message, shard=shard.context.number)


def _append(manifest: Manifest, progress: TransactionProgress, shard: Shard) -> None:
    if progress.rows_total == 0:
        _write(manifest, None, progress, shard)
    passed = 0
    for rows in read_staged_rows(manifest, shard.context.number):
        skipped = max(0, min(len(rows), progress.rows_done - passed))
        passed += len(rows)
        if skipped < len(rows):
            rest = rows.slice(skipped, len(rows))
            _write(manifest, rest, replace(progress, rows_done=passed), shard)


def _write(
    manifest: Manifest, rows: Rows | None, progress: TransactionProgress, shard: Shard
) -> None:
    beside = Batch()
    remembered = shard.options.transactions_kept if manifest.id is None else None
    ledger = shard.transactions.put(beside, manifest.transaction, progress, remembered)
    shard.commit_path.run(Entry(rows, beside=beside), durable=False)
    shard.transactions.accept(ledger)
