"""A reset whose shard is not, by then, where it was planned to be."""

from pathlib import Path

import pytest

from connectors.group.reset import Reset, run_reset
from connectors.kafka import Partition
from storage_core import Stream, StreamOptions, StreamOrigin, archived_shards
from tests.unit.connectors.writers import TOPIC

AT = Partition(TOPIC, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a stream of one shard, which stands at 50."""
    origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
    Stream.create(tmp_path, TOPIC, StreamOptions(), origin=origin).close()
    Stream.add_shards(tmp_path, TOPIC, {0: 0})
    move(tmp_path, 50)
    return tmp_path


def move(root: Path, end: int) -> None:
    with Stream.open(root, TOPIC) as stream:
        stream.skip(0, end, source={"next": end, "epoch": 3})


def stands(root: Path) -> tuple[int, object]:
    """Return where the shard stands, and what it knows of its source."""
    with Stream.open(root, TOPIC) as stream:
        return stream.committed()[0], stream.source(0)


def test_shard_that_has_passed_the_target_meanwhile_is_archived(root: Path) -> None:
    move(root, 100)
    outcome = run_reset(root, TOPIC, Reset(AT, 50, 70), None)
    assert (outcome.error, stands(root)[0]) == (None, 70)
    assert [log.lineage for log in archived_shards(root, TOPIC)] == [
        outcome.archived and outcome.archived.lineage
    ]


def test_shard_that_has_come_nearer_meanwhile_has_the_rest_as_a_gap(root: Path) -> None:
    move(root, 60)
    outcome = run_reset(root, TOPIC, Reset(AT, 50, 70), None)
    assert (outcome.error, outcome.archived) == (None, None)
    # The epoch was that of a record below, which the log at the target may not know.
    assert stands(root) == (70, {"next": 70})
