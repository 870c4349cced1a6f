"""Types of state: how long their rows live, and what a later DEFINE may change."""

from datetime import timedelta

import pytest

from storage_core import StreamReader
from tests.events.state.rows import STATE, TTL_S
from tests.events.store.bench import rows_of
from typed_events.answer import Status


def test_types_say_that_they_are_state(bench):
    assert bench.do(STATE).message == (
        "cursor version 1 has these fields already, state with TTL 30m"
    )
    ttls = {row["event_type"]: row["ttl"] for row in rows_of(bench.well("LIST TYPES"))}
    assert ttls == {"cursor": "30m", "order": None}
    described = bench.well("DESCRIBE cursor").message
    assert described == "cursor, newest version 1, state with TTL 30m"


@pytest.mark.parametrize(
    ("ttl", "width"),
    [("90s", "minute"), ("12h", "hour"), ("7d", "day"), ("30d", "week"), ("60d", "month")],
)
def test_windows_follow_the_ttl(bench, ttl, width):
    bench.well(f'DEFINE seen FIELDS {{ at: "int" }} AS STATE TTL {ttl}')
    with StreamReader.open(bench.root, "seen") as reader:
        assert reader.options.scheme.width == width


def test_new_version_is_of_state_too_and_reads_rows_of_the_one_before(bench):
    bench.put("ann", "a", 1)
    bench.well('DEFINE cursor FIELDS { x: "int | null", y: "int | null" } AS STATE TTL 30m')
    bench.well('STORE cursor FOR ann ROW b PAYLOAD {"x": 2, "y": 3}')
    rows = rows_of(bench.well("QUERY cursor"))
    assert [(row["version"], row["row"], row["y"]) for row in rows] == [(1, "a", None), (2, "b", 3)]


def test_state_cannot_become_events_nor_events_state(bench):
    refusal = bench.refused('DEFINE cursor FIELDS { x: "int | null", y: "int | null" }')
    assert refusal == (
        '"cursor" is a type of state with TTL 30m and cannot become one of events; '
        "write AS STATE TTL 30m"
    )
    refusal = bench.refused('DEFINE order FIELDS { amount: "int" } AS STATE TTL 1h')
    assert "cannot become one of state" in refusal


def test_ttl_may_change_as_long_as_its_windows_stay(bench):
    bench.put("ann", "a", 1)
    answer = bench.well(STATE.replace("30m", "1h"))
    assert answer.message == "defined cursor version 1, state with TTL 1h"
    bench.clock.advance(TTL_S + 1)
    assert bench.rows() == [("ann", "a", 1)]
    bench.reopen()
    bench.clock.advance(TTL_S + 1)
    assert bench.rows() == []
    refusal = bench.refused(STATE.replace("30m", "5m"))
    assert "by the hour" in refusal
    assert "by the minute" in refusal
    assert bench.do("DESCRIBE cursor").message.endswith("TTL 1h")


def test_row_that_was_past_its_time_stays_so_under_a_longer_ttl(bench):
    bench.put("ann", "a", 1)
    bench.clock.advance(TTL_S + 1)
    bench.well(STATE.replace("30m", "2h"))
    assert bench.rows() == []


def test_stream_that_a_crash_left_with_another_ttl_gets_that_of_its_type(bench):
    bench.put("ann", "a", 1)
    bench.well(STATE.replace("30m", "1h"))
    streams = bench.store_of_events._writer._streams
    streams.by_type["cursor"].stream.alter(retention=timedelta(minutes=30))
    bench.crash()
    bench.put("ann", "b", 2)
    with StreamReader.open(bench.root, "cursor") as reader:
        assert reader.options.retention == timedelta(hours=1)


def test_ttl_is_that_of_the_newest_version(bench):
    bench.well('DEFINE cursor FIELDS { x: "int | null", y: "int | null" } AS STATE TTL 1h')
    refusal = bench.refused('DEFINE cursor AS 1 FIELDS { x: "int | null" } AS STATE TTL 2h')
    assert "newest version, 2" in refusal
    bench.well('DEFINE cursor AS 1 FIELDS { x: "int | null" } AS STATE TTL 1h')


@pytest.mark.parametrize("name", ["row", "deleted", "Row", "version"])
def test_field_cannot_be_called_as_those_of_all_rows(bench, name):
    refusal = bench.refused(f'DEFINE a FIELDS {{ {name}: "int" }} AS STATE TTL 1h')
    assert "every row of state has" in refusal


def test_events_may_have_a_field_of_that_name(bench):
    bench.well('DEFINE seat FIELDS { row: "int", deleted: "bool" }')
    bench.well('STORE seat FOR ann PAYLOAD {"row": 5, "deleted": false}')
    assert [row["row"] for row in rows_of(bench.well("QUERY seat WHERE NOT deleted"))] == [5]


def test_remembering_state_is_refused(bench):
    assert "QUERY it" in bench.refused("REMEMBER QUERY cursor AS c")


def test_type_that_is_not_there_is_named(bench):
    answer = bench.do("DELETE nothing FOR ann ROW 1")
    assert answer.status is Status.NOT_FOUND
