"""Goal: whatever an operator does to a group, in any order, each lineage has its records once.

Method: while records are produced, operations that chance picks follow each other: pauses, resumes,
retries, resets to both sides, retries and discards of dead letters, kills of commands and of
workers. What is paused stands still; in the end all is resumed, and each shard is compared with the
broker from where its lineage began: each record is a row, a retried row, a dead letter that waits
or one that was discarded, by reads, by SQL and by counters.
"""

from pathlib import Path

import pytest

from tests.broker.support.lab import Lab
from tests.broker.support.operations import RandomOperator
from tests.thin import rounds

# More than are produced until the operations are done.
RECORDS = 1_000_000
PAUSE_S = 0.05
OPERATIONS_A_ROUND = 12


@pytest.mark.parametrize("number", range(rounds("SHARDLOG_BROKER_OPERATIONS", 2, 20)))
def test_operations_in_any_order_keep_the_ledger_of_each_lineage(
    lab: Lab, tmp_path: Path, number: int
) -> None:
    topic = lab.topic(partitions=3)
    lab.alternate_ways()
    # So that the first way to fetch is not the same in each round.
    lab.chance.seed(lab.chance.random() + number)
    operator = RandomOperator(lab, topic, tmp_path)
    with lab.producing(topic, RECORDS, PAUSE_S) as stop:
        operator.start_worker()
        operator.await_all_stored()
        try:
            for _ in range(OPERATIONS_A_ROUND):
                operator.act()
        except BaseException as error:
            error.add_note(operator.story())
            raise
        finally:
            stop.set()
    rows, read, queried = operator.finish()
    assert (read, queried) == (rows, rows)
