"""What a worker does about the dead letters its shards keep, by the policy; no broker answers."""

import pytest
from structlog.testing import CapturingLogger

from connectors.dlq.dead_letter_policy import DeadLetterPolicy
from connectors.kafka import Partition
from connectors.settings.dead_letter_settings import DeadLetterSettings
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.writers import NOWHERE, TOPIC, open_writers

A = Partition(TOPIC, 0)
KAFKA: dict[str, object] = {"bootstrap.servers": NOWHERE, "group.id": "g"}


@pytest.fixture
def writers(tmp_path):
    with open_writers(tmp_path, 1) as writers:
        yield writers


def put(writers, count):
    """Commit so many dead letters."""
    ((_, records),) = shard_records([record(offset, key=b"user-1") for offset in range(count)])
    writers[A].append(records, records.end)
    writers[A].stream.commit()


def dead_letter_policy(**settings):
    return DeadLetterPolicy(DeadLetterSettings(**settings), KAFKA, CapturingLogger())


def stored(writers):
    return [address for address, _ in writers[A].stream.dead_letters(0)]


@pytest.mark.parametrize(("records_max", "is_full"), [(2, True), (3, True), (4, False), (0, False)])
def test_worker_waits_for_letters_to_go_from_the_limit_on(
    writers, monkeypatch, records_max, is_full
):
    monkeypatch.setattr("connectors.dlq.dead_letter_policy._HOLD_MAX_S", 0.01)
    put(writers, 3)
    policy = dead_letter_policy(policy="forward", topic="dlq", records_max=records_max)
    policy.tick(writers, 0.0)
    assert policy.is_under_way
    assert policy.is_full == is_full
    # Below the limit the next tick is due in a second, at it with the next step.
    writers[A].stream.clear_dead_letters(0, [0, 1])
    policy.tick(writers, 0.5)
    assert not policy.is_full
    policy.settle(0.0)
    assert stored(writers) == [2]
