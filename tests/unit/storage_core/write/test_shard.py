"""Rows that are held back until a transaction is all in, and what becomes of them if it fails."""

import pytest

from storage_core import ShardPoisonedError
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.write.entry import Entry
from tests.log.workbench import Workbench, batch_of
from tests.log.writing.interruptions import interrupted_everywhere
from tests.thin import rounds

EVERY = rounds("SHARDLOG_INTERRUPT_EVERY", few=19, many=1)


def test_rows_that_another_synced_while_they_were_held_are_shown_once_they_are_not(bench):
    """What is durable already and not yet published is behind too."""
    rows = rows_from_arrow(batch_of([1]), 100)

    def write() -> None:
        bench.shard.commit_path.run(Entry(rows), durable=False)
        bench.shard.commit_path.run(None, durable=True)

    with bench.shard.guard.append_lock:
        bench.shard.publish_at_end(write)
    assert bench.primaries() == [1]


def fail_behind(bench: Workbench, held: list[Rows]) -> None:
    """Let a transaction write these rows and fail before the next ones."""

    def write() -> None:
        for rows in held:
            bench.shard.commit_path.run(Entry(rows), durable=False)
        message = "staged rows cannot be read"
        raise OSError(message)

    try:
        with bench.shard.guard.append_lock:
            bench.shard.publish_at_end(write)
    except OSError:
        pass


def test_transaction_that_fails_at_its_first_row_and_is_interrupted_holds_nothing_back(bench):
    taken = []
    for place in interrupted_everywhere(lambda _: fail_behind(bench, [])):
        bench.keep([place])
        taken.append(place)
        assert bench.primaries() == taken


def test_transaction_that_fails_in_the_middle_and_is_interrupted_is_not_shown_by_half(bench):
    held, reopened = [rows_from_arrow(batch_of([-1]), 100)], 0
    for place in interrupted_everywhere(lambda _: fail_behind(bench, held), EVERY):
        try:
            bench.keep([place])
        except ShardPoisonedError:
            # An opener takes these rows, which no transaction has, for a batch.
            bench.reopen()
            bench.keep([place])
            reopened += 1
        assert bench.primaries().count(-1) == reopened
    assert reopened


def test_transaction_that_fails_in_the_middle_poisons_the_shard(bench):
    fail_behind(bench, [rows_from_arrow(batch_of([-1]), 100)])
    with pytest.raises(ShardPoisonedError, match="staged rows cannot be read"):
        bench.append([1])
    assert bench.primaries() == []
