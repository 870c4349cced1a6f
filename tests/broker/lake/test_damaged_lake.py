"""Goal: a table that has lost rows for good is made whole from Kafka, and goes on.

Method: a worker publishes and its machine is lost; a file of the table goes, of which there is no
copy. Another machine stores the topic without the lake, and takes the table over.
"""

from pathlib import Path

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE
from storage_core.lake.image_names import image_of_path
from storage_core.lake.target import LakeTarget
from tests.broker.lake.lake_lab import (
    PUBLISH_MAX_S,
    at_machine,
    await_published,
    expect_as_single_owner,
    lake_of,
    lose_machine,
    published_rows,
)
from tests.broker.support.lab import Lab, Topic
from tests.lake.support.stores import DirectoryStore
from tests.unit.connectors.command import runner

ROWS = 300


def publish_three_times(lab: Lab, topic: Topic, target: LakeTarget) -> None:
    for _ in range(3):
        lab.produce(topic, ROWS)
        worker = lab.worker(topic, **lake_of(target))
        lab.await_no_lag(topic)
        assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()


def lose_file_above(store: DirectoryStore, target: LakeTarget, address: int) -> None:
    """Let the store lose the first file whose rows are all above an address."""
    files = [path for path in store.paths(target) if path.startswith("shard=")]
    store.delete(target, min(path for path in files if image_of_path(path).first >= address))


@pytest.mark.parametrize("kafka_begins", [0, ROWS - 50])
def test_table_that_lost_rows_is_made_whole_from_kafka(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka_begins: int
) -> None:
    store, shardlog = DirectoryStore(tmp_path), runner(capsys)
    topic, target = lab.topic(partitions=1), store.target()
    publish_three_times(lab, topic, target)
    lose_machine(lab)
    lose_file_above(store, target, ROWS)
    if kafka_begins:
        lab.cluster.delete_records(topic.partitions()[0], kafka_begins)

    at_machine(lab, "second")
    refused = lab.worker(topic, **lake_of(target))
    refused.await_event("quarantined", wait_s=PUBLISH_MAX_S)
    assert refused.exit_code(PUBLISH_MAX_S) == EXIT_DAMAGE
    (line,) = refused.events("quarantined")
    assert "lake check" in line["reason"]

    at_machine(lab, "third")
    storing = lab.worker(topic, kafka__group__id=f"{topic.name}-rescue")
    lab.await_no_lag(topic)
    assert storing.stop() == 0, storing.said()
    for command in (
        ("alter", lab.root, topic.name, f"lake={target.uri}"),
        ("seal", lab.root, topic.name),
        ("lake", "publish", lab.root, topic.name, "--take-over"),
        ("lake", "check", lab.root, topic.name, "--read"),
    ):
        ran = shardlog(*command)
        assert (ran.code, ran.err) == (0, ""), command
    assert published_rows(target) == [(0, address) for address in range(3 * ROWS)]

    lab.produce(topic, ROWS)
    again = lab.worker(topic, **lake_of(target))
    lab.await_no_lag(topic)
    assert again.events("shard begins from the lake") == []
    assert again.stop(PUBLISH_MAX_S) == 0, again.said()
    assert published_rows(target) == [(0, address) for address in range(4 * ROWS)]
    at_machine(lab, "fourth")
    heir = lab.worker(topic, **lake_of(target))
    lab.await_no_lag(topic)
    assert heir.stop(PUBLISH_MAX_S) == 0, heir.said()
    assert [row[0] for row in lab.stored(topic)[0]] == list(range(4 * ROWS))
    # Of rows below those that Kafka had the run told that the log before wrote.
    repaired = shardlog("lake", "repair", lab.root, topic.name, "--read")
    assert (repaired.code, repaired.err) == (0, "")
    if not kafka_begins:
        expect_as_single_owner(lab, topic)
        await_published(target, topic)
