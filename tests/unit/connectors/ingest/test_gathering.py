"""One call's messages: whatever lies between them, every record comes once and in its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.ingest.gathering import are_of, holds_faults, stretches, without
from connectors.kafka_client import FIELDS, Partition
from storage_core import ClientFailedError, InvalidRequestError
from tests.unit.connectors.records import (
    fencing,
    news_of_no_partition,
    record,
    refusal,
    refused_join,
)

KINDS = st.lists(st.sampled_from([record, refusal]), max_size=8)


def offsets(records):
    return list(map(FIELDS.offset, records))


def test_records_before_a_refused_offset_come_before_it():
    messages = [record(1), record(2), refusal(3), record(9)]
    (before, fault), (behind, nothing) = stretches(messages)
    assert (offsets(before), offsets(behind), nothing) == ([1, 2], [9], None)
    assert fault is not None
    assert (fault.partition, fault.offset, fault.is_refused_offset) == (("orders", 0), 3, True)


@given(KINDS)
def test_every_record_and_every_fault_comes_once_in_its_order(kinds):
    messages = [kind(offset) for offset, kind in enumerate(kinds)]
    seen = []
    for records, fault in stretches(messages):
        seen += offsets(records) + ([] if fault is None else [fault.offset])
    assert seen == list(range(len(messages)))
    assert holds_faults(messages) == (refusal in kinds)


def test_news_of_no_partition_parts_no_records():
    ((records, fault),) = stretches([record(1), news_of_no_partition(), record(2)])
    assert (offsets(records), fault) == ([1, 2], None)


def test_join_that_the_group_refuses_for_a_setting_names_it():
    with pytest.raises(InvalidRequestError, match=r"kafka\.session\.timeout\.ms.*JoinGroup failed"):
        list(stretches([record(1), refused_join()]))


def test_client_that_failed_for_good_is_no_news_to_pass_over():
    with pytest.raises(ClientFailedError, match=r"give each its own"):
        list(stretches([record(1), fencing()]))


def test_records_are_told_apart_by_topic_and_partition():
    records = [record(1), record(2, partition=1), record(3, topic="others")]
    here, there = Partition("orders", 0), Partition("elsewhere", 0)
    assert are_of(records, {here, there}) == {here}
    assert offsets(without(records, {here})) == [2, 3]
