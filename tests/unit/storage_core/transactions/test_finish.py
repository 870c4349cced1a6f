"""Finishing at moments that no caller can choose: late, after a removal, beside an interruption.

It reaches inside: the finisher has its manifest in hand while another one ends the transaction.
"""

import pytest

from storage_core import TransactionId, UnavailableError
from storage_core.engine.key_value import Batch
from storage_core.format.record import rows_from_arrow
from storage_core.format.shard_state import STATE_RANGE, TransactionProgress
from storage_core.testing import ManualClock
from storage_core.transactions.finish import finish
from storage_core.transactions.manifest import Staging, remove_transaction, staged_transactions
from storage_core.write.entry import Entry
from tests.log.workbench import Workbench, batch_of, pass_numbers, publish, transact


def read_at_each_refresh(bench: Workbench) -> int:
    """Return how many entries opening a shard, and each refresh of a reader, reads."""
    view = bench.shard.snapshots.committed()
    entries = list(view.meta_items(*STATE_RANGE))
    view.close()
    return len(entries)


def test_refresh_and_open_read_no_more_however_many_transactions_there_were(bench):
    transact(bench, "1")
    before = read_at_each_refresh(bench)
    transact(bench, *map(str, range(2, 20)))
    assert read_at_each_refresh(bench) == before
    bench.reopen()
    assert read_at_each_refresh(bench) == before
    assert all(bench.stream.transaction(str(number), 1).is_replay for number in range(1, 20))


def test_finisher_that_comes_late_adds_nothing_once_the_number_is_forgotten(bench):
    publish(bench, TransactionId("app", 1), [1], [1])
    staging = Staging(bench.staging, ManualClock())
    (manifest,) = staged_transactions(staging)
    bench.stream.finish_transactions()
    names = pass_numbers(bench, "app")
    finish(staging, manifest, {0: bench.shard})
    assert (bench.stream.stats().records, bench.remembered()) == (1 + len(names), names)


def test_finisher_of_rows_that_somebody_removed_is_told(bench):
    publish(bench, TransactionId("once"), [1], [1])
    staging = Staging(bench.staging, ManualClock())
    (manifest,) = staged_transactions(staging)
    remove_transaction(manifest.directory)
    with pytest.raises(UnavailableError, match="'staged:once' were removed"):
        finish(staging, manifest, {0: bench.shard})


def test_replay_makes_durable_what_was_done_without_it(bench):
    once, done, beside = TransactionId("once"), TransactionProgress(1, 1, 1, 0), Batch()
    entry = Entry(rows_from_arrow(batch_of([5]), 100), beside=beside)
    with bench.shard.guard.appending():
        # As a transaction is left that is interrupted between its last row and the sync.
        ledger = bench.shard.transactions.put(beside, once.name, done, slots_max=1)
        bench.shard.commit_path.run(entry, durable=False)
        bench.shard.transactions.accept(ledger)
    assert bench.stream.committed() == {0: 0}
    publish(bench, once, [1], [1])
    bench.stream.finish_transactions()
    assert (bench.stream.committed(), bench.primaries()) == ({0: 1}, [5])
