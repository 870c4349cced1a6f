"""The vocabulary of workers with a lake: their settings, the table's rows, and machines.

A machine is a root of its own. `lab.root` is that of the one a test is at.

    at_machine(lab, "second")      from here on workers and looks are at that one
    lose_machine(lab)              its disk is gone, for good
    await_published(target, topic)
    name_other_owner(lab, topic, target)    the table says that a log elsewhere publishes the shard
    expect_states(lab, topic)      rows are as flagged as a single owner's
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from storage_core import StreamReader, UnavailableError
from storage_core.lake.app_id import stream_of
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.broker.worker.test_monitoring import ANY_PORT, metrics
from tests.waiting import WAIT_MAX_S, await_that

# What a busy machine does one after the other: seal, start a process, load, upload, commit.
PUBLISH_MAX_S = 3 * WAIT_MAX_S
LAG_S = 1
# Rows that wait for so long are published when somebody gives them back.
NEVER_S = 86_400


def lake_of(target: LakeTarget, lag_s: float = LAG_S) -> dict[str, Any]:
    """Return the settings of a worker whose streams are published there."""
    return {
        "stream__lake": target.uri,
        "stream__lake_lag_seconds": lag_s,
        "lake__options": json.dumps(dict(target.options)),
        "lake__revoke_wait_seconds": PUBLISH_MAX_S,
        "maintain_every_s": LAG_S,
        "metrics__listen": ANY_PORT,
    }


def published_rows(target: LakeTarget) -> list[tuple[int, int]]:
    """Return shard and address of each row; none where there is no table yet."""
    with suppress(TableNotFoundError):
        table = DeltaTable(target.uri, storage_options=dict(target.options))
        rows = table.to_pyarrow_table(columns=["shard", "address"]).to_pylist()
        return sorted((row["shard"], row["address"]) for row in rows)
    return []


def stored_rows(topic: Topic) -> list[tuple[int, int]]:
    """Return shard and address of each record that the broker has."""
    return sorted((shard, row[0]) for shard, rows in topic.holds().items() for row in rows)


def await_published(target: LakeTarget, topic: Topic) -> None:
    """Wait until the table has what the broker has, each record once."""
    stored = stored_rows(topic)
    await_that(
        lambda: published_rows(target) == stored, f"{len(stored)} rows in the lake", PUBLISH_MAX_S
    )


def figures(worker: WorkerProcess, name: str) -> dict[str, float]:
    """Return a metric of the lake by shard; without a shard by nothing."""
    named = f"shardlog_lake_{name}"
    return {shard: value for (metric, shard), value in metrics(worker).items() if metric == named}


def name_other_owner(lab: Lab, topic: Topic, target: LakeTarget, shard: int) -> None:
    """Let the table say that another log publishes the shard, as one of another root would."""
    with StreamReader.open(lab.root, topic.name) as reader:
        stream = stream_of(reader)

    def is_named() -> bool:
        table = LakeTable.open(target, stream)
        assert table is not None
        # The worker may publish at this moment, which goes first then.
        with suppress(UnavailableError):
            table.commit(shard, [], [], table.published(shard) or 0, owner=1)
            return True
        return False

    await_that(is_named, "another owner")


def at_machine(lab: Lab, name: str) -> None:
    """Be at a machine from here on, whose disk is its own."""
    lab.root = lab.root.with_name(name)


def lose_machine(lab: Lab) -> None:
    """Let the disk of the machine be gone."""
    shutil.rmtree(lab.root)


@contextmanager
def single_owner(lab: Lab, topic: Topic) -> Iterator[None]:
    """Be at a machine of its own, without a lake, that stores all there is of a topic."""
    root = lab.root
    at_machine(lab, "single-owner")
    worker = lab.worker(topic, kafka__group__id=f"{topic.name}-single")
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    yield
    lab.root = root


def flags(lab: Lab, topic: Topic) -> dict[int, list[tuple[int, bool]]]:
    """Return of each row its address and whether it came late, by shard."""
    with StreamReader.open(lab.root, topic.name) as reader:
        return {
            shard: [
                (row["address"], row["late"])
                for batch in reader.tail(shard, columns=["address", "late"])
                for row in batch.to_pylist()
            ]
            for shard in reader.committed()
        }


def expect_as_single_owner(lab: Lab, topic: Topic) -> None:
    """Expect every record once, in order, and as late as one who never moved has it."""
    lab.expect_ledger(topic)
    moved = flags(lab, topic)
    with single_owner(lab, topic):
        assert flags(lab, topic) == moved
    assert any(is_late for rows in moved.values() for _, is_late in rows)
