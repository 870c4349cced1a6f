"""What Kafka says against a partition: told now and then, judged when it is for good."""

import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.assignment.partition_faults import PartitionFaults
from connectors.kafka import Partition, PartitionFault
from storage_core import CorruptionError, ForeignDataError

HERE = Partition("orders", 3)


@pytest.fixture
def log():
    return CapturingLogger()


@pytest.fixture
def faults(log):
    return PartitionFaults(log)


def unreadable(offset):
    return PartitionFault(HERE, offset, False, True, False, "bad checksum")


def refused(offset):
    return PartitionFault(HERE, offset, True, False, False, "out of range")


def test_offsets_that_stem_from_what_cannot_be_read_do_not_hide_where_it_began(faults):
    for now_s in (100, 105):
        faults.report(unreadable(7), now_s)
        # librdkafka goes on behind the damage and takes what lies there for an offset.
        faults.report(unreadable(2**60), now_s)
        faults.judge_refusal(unreadable(2**60), 7, now_s, is_same_place=True)
    with pytest.raises(CorruptionError, match=r"addresses \[7, 8\)"):
        faults.report(unreadable(7), 110)


def test_offset_read_from_damage_does_not_make_a_log_foreign(faults):
    # Sometimes librdkafka does not say first that a batch is damaged.
    for now_s in (100, 101, 109):
        faults.judge_refusal(refused(2**60), 7, now_s, is_same_place=True)
    with pytest.raises(CorruptionError, match=r"cannot be read.*addresses \[7, 8\)"):
        faults.judge_refusal(refused(2**60), 7, 110, is_same_place=True)


def test_offset_that_was_fetched_ahead_of_a_cut_does_not_hide_that_the_next_is_refused(faults):
    faults.judge_refusal(refused(50), 7, 100, is_same_place=True)
    faults.judge_refusal(refused(7), 7, 100, is_same_place=True)
    with pytest.raises(ForeignDataError, match="written anew"):
        faults.judge_refusal(refused(7), 7, 100, is_same_place=True)


def test_partition_that_moved_is_healthy(faults):
    faults.report(unreadable(7), 100)
    faults.judge_refusal(refused(50), 7, 100, is_same_place=True)
    faults.forget([HERE])
    faults.report(unreadable(7), 200)
    faults.forget([HERE])
    faults.judge_refusal(refused(50), 7, 200, is_same_place=True)


def test_same_news_are_told_now_and_then(faults, log):
    for now_s in (100, 101, 109):
        faults.report(unreadable(7), now_s)
    faults.forget([HERE])
    faults.report(unreadable(7), 111)
    assert [call.method_name for call in log.calls] == ["warning", "warning"]


def test_offset_refused_at_another_place_is_judged_anew(faults):
    for is_same_place in (True, False, True):
        faults.judge_refusal(refused(7), 7, 100, is_same_place=is_same_place)
