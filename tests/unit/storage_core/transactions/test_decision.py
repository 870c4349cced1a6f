"""Whether a transaction is done, where its shards say different things and nobody else says more.

It reaches inside: a ledger is written as a finisher leaves it that was interrupted.
"""

import pytest

from storage_core.engine.key_value import Batch
from storage_core.format.record import rows_from_arrow
from storage_core.format.shard_state import TransactionProgress
from storage_core.testing import ManualClock
from storage_core.transactions.decision import decision_of
from storage_core.transactions.manifest import Staging
from storage_core.write.entry import Entry
from storage_core.write.shard import Shard
from tests.log.workbench import batch_of


@pytest.fixture
def bench(make_bench):
    return make_bench(shards=2)


def note(shard: Shard, rows_done: int) -> None:
    """Let a shard have its first or both rows of the transaction."""
    progress, beside = TransactionProgress(rows_done, 2, 4, 0), Batch()
    rows = rows_from_arrow(batch_of([rows_done], secondary=shard.context.number), 100)
    with shard.guard.appending():
        ledger = shard.transactions.put(beside, "t", progress, slots_max=1)
        shard.commit_path.run(Entry(rows, beside=beside), durable=False)
        shard.transactions.accept(ledger)


def test_transaction_is_not_done_while_a_shard_has_a_part_of_it(bench):
    staging = Staging(bench.staging, ManualClock())
    first, second = bench.shards()
    note(first, 2)
    note(second, 1)
    for shards in ({0: first, 1: second}, {1: second, 0: first}):
        assert not decision_of(staging, "t", shards).is_done
    note(second, 2)
    assert decision_of(staging, "t", {0: first, 1: second}).is_done
