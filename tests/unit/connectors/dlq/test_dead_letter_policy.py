"""What a worker does about the dead letters its shards keep, by the policy; no broker answers."""

import pytest
from structlog.testing import CapturingLogger

from connectors.dlq.dead_letter_policy import DeadLetterPolicy
from connectors.kafka import Partition
from connectors.settings.dead_letter_settings import DeadLetterSettings
from storage_core import InvalidRequestError
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.writers import NOWHERE, TOPIC, open_writers
from tests.waiting import await_that

A = Partition(TOPIC, 0)
KAFKA: dict[str, object] = {"bootstrap.servers": NOWHERE, "group.id": "g"}


@pytest.fixture
def writers(tmp_path):
    with open_writers(tmp_path, 1) as writers:
        yield writers


def put(writers, count):
    """Commit so many dead letters."""
    ((_, records),) = shard_records([record(at, key=b"user-1") for at in range(count)])
    writers[A].append(records, records.end)
    writers[A].stream.commit()


def keeper(log=None, **settings):
    return DeadLetterPolicy(DeadLetterSettings(**settings), KAFKA, log or CapturingLogger())


def kept(writers):
    return [address for address, _ in writers[A].stream.dead_letters(0)]


def look_until_idle(keeper, writers, now_s):
    keeper.tick(writers, now_s)
    await_that(lambda: not keeper.is_under_way, "the end of a turn")


def test_shards_without_letters_have_nothing_done(writers):
    for policy in ("keep", "stop", "forward"):
        one = keeper(policy=policy, topic="dlq", records_max=1)
        one.tick(writers, 0.0)
        assert not one.is_under_way
        assert not one.is_full


def test_oldest_beyond_the_limit_go_and_are_counted_once(writers):
    put(writers, 5)
    log = CapturingLogger()
    one = keeper(log, policy="keep", records_max=3)
    for now_s in (0.0, 1.0, 2.0):
        look_until_idle(one, writers, now_s)
    assert kept(writers) == [2, 3, 4]
    assert one.dropped == 2
    stats = writers[A].stream.stats()
    assert (stats.dead_letters_waiting, stats.dead_letters_forwarded) == (3, 0)
    assert stats.dead_letters_dropped == 2
    assert [call.kwargs["count"] for call in log.calls] == [2]
    assert not one.is_full


def test_as_many_as_the_limit_stay_and_any_number_without_one(writers):
    put(writers, 5)
    for records_max in (5, 0):
        look_until_idle(keeper(policy="keep", records_max=records_max), writers, 0.0)
        assert kept(writers) == [0, 1, 2, 3, 4]


def test_any_letter_stops_a_worker_that_is_to_stop(writers):
    put(writers, 1)
    with pytest.raises(InvalidRequestError, match=r"1 dead letters, and dead_letters\.policy"):
        keeper(policy="stop").tick(writers, 0.0)


@pytest.mark.parametrize(("records_max", "is_full"), [(2, True), (3, True), (4, False), (0, False)])
def test_worker_waits_for_letters_to_go_from_the_limit_on(
    writers, monkeypatch, records_max, is_full
):
    monkeypatch.setattr("connectors.dlq.dead_letter_policy._HOLD_MAX_S", 0.01)
    put(writers, 3)
    one = keeper(policy="forward", topic="dlq", records_max=records_max)
    one.tick(writers, 0.0)
    assert one.is_under_way
    assert one.is_full == is_full
    # Below the limit the next look is due in a second, at it with the next step.
    writers[A].stream.clear_dead_letters(0, [0, 1])
    one.tick(writers, 0.5)
    assert not one.is_full
    one.settle(0.0)
    assert kept(writers) == [2]
