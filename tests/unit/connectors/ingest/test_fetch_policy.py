"""When a round begins: by what was gathered, by how long ago, and now and then without any."""

from types import SimpleNamespace
from typing import Any

import pytest

from connectors.ingest.fetch_policy import CallSize, Pace
from connectors.ingest.pending_batch import Gathering
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from connectors.kafka.python_fetch import stretches_of
from connectors.settings.stream_settings import MappingRules
from tests.unit.connectors.records import record

HERE = Partition("orders", 0)
CALL = CallSize.of(is_native=True)
# Only its rules are asked for.
SHUT: Any = SimpleNamespace(rules=MappingRules())


@pytest.fixture
def pace():
    return Pace(0.02, CALL)


def gathered(count, since_s=100.0, records_max=10):
    made = Gathering(WorkerCounts(), records_max, 2**20)
    for fetched, _ in stretches_of([record(offset) for offset in range(count)]):
        made.add(fetched, {HERE: SHUT}, since_s)
    return made


def fall_behind(pace):
    for _ in range(3):
        pace.note_call(CALL.records, 0.003)


def test_records_wait_for_others_for_a_moment(pace):
    assert not pace.is_due(gathered(1), 100.019)
    assert pace.is_due(gathered(1), 100.021)


def test_records_that_make_a_round_do_not_wait(pace):
    assert pace.is_due(gathered(10), 100.0)


def test_records_wait_longer_while_more_of_them_come(pace):
    fall_behind(pace)
    assert not pace.is_due(gathered(1), 100.1)
    assert pace.is_due(gathered(1), 100.3)


def test_small_rounds_keep_a_distance(pace):
    pace.begun(100.0)
    assert not pace.is_due(gathered(9, since_s=100.0), 100.059)
    assert pace.is_due(gathered(9, since_s=100.0), 100.061)


def test_record_that_comes_alone_waits_for_a_moment_only(pace):
    pace.begun(99.0)
    assert pace.is_due(gathered(1), 100.021)


def test_rounds_that_are_not_small_follow_each_other(pace):
    pace.begun(100.0)
    assert pace.is_due(gathered(256, since_s=100.0, records_max=1000), 100.021)


def test_two_rounds_gather_beside_one_and_then_fetching_waits(pace):
    assert not pace.is_enough(gathered(19))
    assert pace.is_enough(gathered(20))


def next_call(pace, waiting, now_s):
    return pace.next_call(waiting, now_s, is_round_out=False)


def test_idle_worker_waits_for_one_record(pace):
    assert next_call(pace, gathered(0), 100.0) == (1, 0.1)


def test_worker_with_a_round_out_or_records_in_hand_is_not_idle(pace):
    assert pace.next_call(gathered(0), 100.0, is_round_out=True)[0] > 1
    assert next_call(pace, gathered(1), 100.0)[0] > 1


def test_call_collects_until_records_have_waited_for_long_enough(pace):
    pace.note_call(1, 0.001)
    assert next_call(pace, gathered(0), 100.0)[1] == pytest.approx(0.02)
    assert next_call(pace, gathered(1), 100.008)[1] == pytest.approx(0.012)


def test_call_is_short_once_a_round_is_due_and_never_long(pace):
    assert next_call(pace, gathered(1), 100.5)[1] == pytest.approx(0.005)
    assert next_call(Pace(5, CALL), gathered(1), 100)[1] == pytest.approx(0.1)


def test_call_ends_when_a_round_is_not_small_any_more(pace):
    assert next_call(pace, gathered(6), 100.0)[0] == 250
    assert next_call(pace, gathered(256, records_max=1000), 100.0)[0] == CALL.records


def test_worker_that_is_behind_asks_for_much(pace):
    fall_behind(pace)
    assert next_call(pace, gathered(0), 100.0)[0] == CALL.records


def test_full_call_after_a_pause_is_no_backlog(pace):
    pace.note_call(CALL.records, 0.003)
    assert not pace.is_behind


def test_calls_that_fill_slowly_are_no_backlog(pace):
    for _ in range(3):
        pace.note_call(CALL.records, 0.05)
    assert not pace.is_behind


@pytest.mark.parametrize("is_native", [True, False])
def test_backlog_is_told_by_full_calls_of_the_way_records_are_fetched(is_native):
    call = CallSize.of(is_native=is_native)
    pace = Pace(0.02, call)
    for _ in range(3):
        pace.note_call(call.records, 0.9 * call.full_within_s)
    assert pace.is_behind
    assert next_call(pace, gathered(0), 100.0)[0] == call.records


def test_calls_in_python_are_smaller_and_full_as_fast_a_record():
    native, python = (CallSize.of(is_native=each) for each in (True, False))
    assert python.records < native.records
    assert python.full_within_s / python.records == native.full_within_s / native.records


def test_backlog_is_over_with_the_first_call_that_is_not_full(pace):
    fall_behind(pace)
    assert pace.is_behind
    pace.note_call(CALL.records - 1, 0.003)
    assert not pace.is_behind


def test_idle_worker_looks_where_it_stands_once_a_second(pace):
    assert not pace.is_due(gathered(0), 100)
    assert pace.is_look_due(gathered(0), 100)
    pace.is_idle_round_due(100, has_moved=False)
    assert not pace.is_look_due(gathered(0), 100.9)
    assert pace.is_look_due(gathered(0), 101)


def test_idle_worker_that_stands_still_asks_about_its_topics_every_ten_seconds(pace):
    pace.begun(100)
    assert pace.is_idle_round_due(101, has_moved=True)
    assert not pace.is_idle_round_due(109, has_moved=False)
    assert pace.is_idle_round_due(110, has_moved=False)
