"""When a round begins: by what was gathered, by how long ago, and now and then without any."""

from types import SimpleNamespace
from typing import Any

import pytest

from connectors.ingest.fetch_policy import CallSize, FetchPolicy
from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from connectors.kafka.python_fetch import fetch_results_of
from connectors.settings.stream_settings import MappingRules
from tests.unit.connectors.records import record

HERE = Partition("orders", 0)
CALL = CallSize.of(is_native=True)
# Only its rules are asked for.
SHUT: Any = SimpleNamespace(rules=MappingRules())


@pytest.fixture
def fetch_policy():
    return FetchPolicy(0.02, CALL)


def collected(count, since_s=100.0, records_max=10):
    made = PendingBatch(WorkerCounts(), records_max, 2**20)
    for fetched, _ in fetch_results_of([record(offset) for offset in range(count)]):
        made.add(fetched, {HERE: SHUT}, since_s)
    return made


def fall_behind(fetch_policy):
    for _ in range(3):
        fetch_policy.note_call(CALL.records, 0.003)


def test_records_wait_for_others_for_a_moment(fetch_policy):
    assert not fetch_policy.is_due(collected(1), 100.019)
    assert fetch_policy.is_due(collected(1), 100.021)


def test_records_that_make_a_round_do_not_wait(fetch_policy):
    assert fetch_policy.is_due(collected(10), 100.0)


def test_records_wait_longer_while_more_of_them_come(fetch_policy):
    fall_behind(fetch_policy)
    assert not fetch_policy.is_due(collected(1), 100.1)
    assert fetch_policy.is_due(collected(1), 100.3)


def test_small_rounds_keep_a_distance(fetch_policy):
    fetch_policy.begun(100.0)
    assert not fetch_policy.is_due(collected(9, since_s=100.0), 100.059)
    assert fetch_policy.is_due(collected(9, since_s=100.0), 100.061)


def test_record_that_comes_alone_waits_for_a_moment_only(fetch_policy):
    fetch_policy.begun(99.0)
    assert fetch_policy.is_due(collected(1), 100.021)


def test_rounds_that_are_not_small_follow_each_other(fetch_policy):
    fetch_policy.begun(100.0)
    assert fetch_policy.is_due(collected(256, since_s=100.0, records_max=1000), 100.021)


def test_two_rounds_gather_beside_one_and_then_fetching_waits(fetch_policy):
    assert not fetch_policy.is_enough(collected(19))
    assert fetch_policy.is_enough(collected(20))


def next_call(fetch_policy, waiting, now_s):
    return fetch_policy.next_call(waiting, now_s, is_round_out=False)


def test_idle_worker_waits_for_one_record(fetch_policy):
    assert next_call(fetch_policy, collected(0), 100.0) == (1, 0.1)


def test_worker_with_a_round_out_or_records_in_hand_is_not_idle(fetch_policy):
    assert fetch_policy.next_call(collected(0), 100.0, is_round_out=True)[0] > 1
    assert next_call(fetch_policy, collected(1), 100.0)[0] > 1


def test_call_collects_until_records_have_waited_for_long_enough(fetch_policy):
    fetch_policy.note_call(1, 0.001)
    assert next_call(fetch_policy, collected(0), 100.0)[1] == pytest.approx(0.02)
    assert next_call(fetch_policy, collected(1), 100.008)[1] == pytest.approx(0.012)


def test_call_is_short_once_a_round_is_due_and_never_long(fetch_policy):
    assert next_call(fetch_policy, collected(1), 100.5)[1] == pytest.approx(0.005)
    assert next_call(FetchPolicy(5, CALL), collected(1), 100)[1] == pytest.approx(0.1)


def test_call_ends_when_a_round_is_not_small_any_more(fetch_policy):
    assert next_call(fetch_policy, collected(6), 100.0)[0] == 250
    assert next_call(fetch_policy, collected(256, records_max=1000), 100.0)[0] == CALL.records


def test_worker_that_is_behind_asks_for_much(fetch_policy):
    fall_behind(fetch_policy)
    assert next_call(fetch_policy, collected(0), 100.0)[0] == CALL.records


def test_full_call_after_a_pause_is_no_backlog(fetch_policy):
    fetch_policy.note_call(CALL.records, 0.003)
    assert not fetch_policy.is_behind


def test_calls_that_fill_slowly_are_no_backlog(fetch_policy):
    for _ in range(3):
        fetch_policy.note_call(CALL.records, 0.05)
    assert not fetch_policy.is_behind


@pytest.mark.parametrize("is_native", [True, False])
def test_backlog_is_told_by_full_calls_of_the_way_records_are_fetched(is_native):
    call = CallSize.of(is_native=is_native)
    fetch_policy = FetchPolicy(0.02, call)
    for _ in range(3):
        fetch_policy.note_call(call.records, 0.9 * call.full_within_s)
    assert fetch_policy.is_behind
    assert next_call(fetch_policy, collected(0), 100.0)[0] == call.records


def test_calls_in_python_are_smaller_and_full_as_fast_a_record():
    native, python = (CallSize.of(is_native=each) for each in (True, False))
    assert python.records < native.records
    assert python.full_within_s / python.records == native.full_within_s / native.records


def test_backlog_is_over_with_the_first_call_that_is_not_full(fetch_policy):
    fall_behind(fetch_policy)
    assert fetch_policy.is_behind
    fetch_policy.note_call(CALL.records - 1, 0.003)
    assert not fetch_policy.is_behind


def test_idle_worker_looks_where_it_stands_once_a_second(fetch_policy):
    assert not fetch_policy.is_due(collected(0), 100)
    assert fetch_policy.is_look_due(collected(0), 100)
    fetch_policy.is_idle_round_due(100, has_moved=False)
    assert not fetch_policy.is_look_due(collected(0), 100.9)
    assert fetch_policy.is_look_due(collected(0), 101)


def test_idle_worker_that_stands_still_asks_about_its_topics_every_ten_seconds(fetch_policy):
    fetch_policy.begun(100)
    assert fetch_policy.is_idle_round_due(101, has_moved=True)
    assert not fetch_policy.is_idle_round_due(109, has_moved=False)
    assert fetch_policy.is_idle_round_due(110, has_moved=False)
