"""One call's messages in columns: every record comes once, whole and in its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka import Partition
from connectors.kafka.python_fetch import fetch_results_of
from storage_core import ClientFailedError, InvalidRequestError
from tests.unit.connectors.records import (
    Plain,
    fencing,
    fetched_of,
    news_of_no_partition,
    plain,
    record,
    refusal,
    refused_join,
)

KINDS = st.lists(st.sampled_from([record, refusal]), max_size=8)
BYTES = st.none() | st.binary(max_size=5)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=3), BYTES), min_size=1, max_size=3)
# Partition, gap before the offset, key, value, timestamp with its kind, headers.
RECORDS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 2)),
        st.integers(1, 3) | st.just(1),
        BYTES,
        BYTES,
        st.tuples(st.integers(0, 2), st.integers(-1, 2**40)),
        HEADERS,
    ),
    min_size=1,
    max_size=20,
)


def offsets(fetched):
    return [each.offset for each in plain(fetched)]


@given(RECORDS)
def test_columns_are_the_records(given_records):
    ends: dict[Partition, int] = {}
    expected: dict[Partition, list[Plain]] = {}
    messages = []
    for place, gap, key, value, (kind, stamp), headers in given_records:
        partition = Partition(*place)
        offset = ends[partition] = ends.get(partition, -1) + gap
        messages.append(
            record(
                offset,
                key,
                value,
                timestamp=(kind, stamp),
                topic=partition.topic,
                partition=partition.number,
                headers=headers,
            )
        )
        row = Plain(partition, offset, key, value, stamp, kind, headers, is_misnamed=False)
        expected.setdefault(partition, []).append(row)
    fetched = fetched_of(messages)
    assert plain(fetched) == [each for own in expected.values() for each in own]
    assert list(fetched.runs) == list(fetched.epochs) == list(expected)
    assert fetched.count == len(messages)
    assert (fetched.headers is None) == (not any(each[-1] for each in given_records))


def test_the_one_topic_there_can_be_is_not_asked_for():
    messages = [record(1), record(7, partition=3), record(2)]
    alone, looked_up = (plain(fetched_of(messages, topic)) for topic in ("orders", None))
    assert alone == looked_up


def test_epoch_is_that_of_the_last_record_of_its_partition():
    messages = [
        record(1, leader_epoch=3),
        record(1, partition=1, leader_epoch=7),
        record(2, leader_epoch=4),
        record(2, partition=1),
    ]
    assert fetched_of(messages).epochs == {("orders", 0): 4, ("orders", 1): None}


def test_records_before_a_refused_offset_come_before_it():
    messages = [record(1), record(2), refusal(3), record(9)]
    (before, fault), (behind, nothing) = fetch_results_of(messages)
    assert (offsets(before), offsets(behind), nothing) == ([1, 2], [9], None)
    assert fault is not None
    assert (fault.partition, fault.offset, fault.is_refused_offset) == (("orders", 0), 3, True)


@given(KINDS)
def test_every_record_and_every_fault_comes_once_in_its_order(kinds):
    messages = [kind(offset) for offset, kind in enumerate(kinds)]
    seen = []
    for fetched, fault in fetch_results_of(messages):
        seen += offsets(fetched) + ([] if fault is None else [fault.offset])
        assert fetched.runs or fault is not None
    assert seen == list(range(len(messages)))


def test_news_of_no_partition_parts_no_records():
    ((fetched, fault),) = fetch_results_of([record(1), news_of_no_partition(), record(2)])
    assert (offsets(fetched), fault) == ([1, 2], None)


def test_join_that_the_group_refuses_for_a_setting_names_it():
    with pytest.raises(InvalidRequestError, match=r"kafka\.session\.timeout\.ms.*JoinGroup failed"):
        fetch_results_of([record(1), refused_join()])


def test_client_that_failed_for_good_is_no_news_to_pass_over():
    with pytest.raises(ClientFailedError, match=r"give each its own"):
        fetch_results_of([record(1), fencing()])


def test_records_are_left_out_by_topic_and_partition():
    fetched = fetched_of([record(1), record(2, partition=1), record(3, topic="others")])
    here, elsewhere = Partition("orders", 0), Partition("elsewhere", 0)
    left = fetched.without({here, elsewhere})
    assert (offsets(left), left.count) == ([2, 3], 2)
