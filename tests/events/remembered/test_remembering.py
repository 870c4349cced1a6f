"""Goal: queries are remembered by name, answered by SHOW, and forgotten; what cannot be is told."""

import pytest

from tests.events.store.bench import rows_of
from typed_events.answer import Status
from typed_events.event_store import EventStore


def test_show_answers_as_the_query_does(memory):
    memory.store(7)
    clauses = "FOR c-1 WHERE n > 1"
    memory.remember(clauses)
    answer = memory.bench.do("SHOW mine")
    expected = memory.bench.do(f"QUERY order {clauses}")
    assert answer.schema == expected.schema
    assert rows_of(answer) == rows_of(expected) != []


@pytest.mark.parametrize(
    "clauses",
    ["", 'FOR "c-2"', "WHERE n IN (1, 8) OR NOT n < 9", "RETURN [n]", "RETURN [none]", "AFTER 0:4"],
)
def test_rows_that_come_later_are_shown_as_the_query_shows_them(memory, clauses):
    memory.remember(clauses)
    for _ in range(4):
        assert memory.rows() == rows_of(memory.bench.do(f"QUERY order {clauses}"))
        memory.store(3)


def test_show_of_nothing_says_so(memory):
    memory.store(2)
    memory.remember("WHERE n > 5")
    answer = memory.bench.do("SHOW mine")
    assert (answer.message, rows_of(answer)) == ("No matching events found", [])
    assert answer.schema.names[-1] == "n"


def test_type_that_nothing_was_stored_of_is_shown_empty(memory):
    memory.remember()
    assert memory.numbers() == []
    memory.store()
    assert memory.numbers() == [0]


def test_query_that_is_written_otherwise_is_the_same_query(memory):
    memory.remember("WHERE n > 5")
    again = memory.bench.do("REMEMBER query order  where (n > 5) AS mine")
    assert again.message == "mine is this query already"


def test_what_was_forgotten_is_not_there_and_leaves_no_file(memory):
    memory.store(2)
    memory.remember()
    memory.numbers()
    assert memory.frames()
    memory.do("FORGET mine")
    assert memory.files() == []
    for command in ("SHOW mine", "FORGET mine"):
        answer = memory.bench.do(command)
        assert answer.status is Status.NOT_FOUND
        assert "mine" in answer.message


def test_unknown_name_is_answered_with_those_there_are(memory):
    memory.remember(name="yours")
    memory.remember(name="your-own")
    answer = memory.bench.do("SHOW yuors")
    assert answer.status is Status.NOT_FOUND
    assert answer.message == (
        "unknown remembered query yuors; did you mean yours?; there are your-own, yours"
    )


def test_show_without_a_name_tells_the_names(memory):
    memory.remember(name="yours")
    answer = memory.bench.do("SHOW")
    assert answer.status is Status.BAD_REQUEST
    assert answer.message == "SHOW needs a name: there are yours"


def test_name_of_another_query_is_refused_until_it_is_forgotten(memory):
    memory.store(3)
    memory.remember("WHERE n = 1")
    assert "already" in memory.do("REMEMBER QUERY order WHERE n = 1 AS mine").message
    answer = memory.bench.do("REMEMBER QUERY order WHERE n = 2 AS mine")
    assert (answer.status, "FORGET mine" in answer.message) == (Status.BAD_REQUEST, True)
    assert memory.numbers() == [1]
    memory.do("FORGET mine")
    memory.remember("WHERE n = 2")
    assert memory.numbers() == [2]


@pytest.mark.parametrize(
    ("clauses", "left_out"),
    [
        ("COUNT", "figures"),
        ("TOTAL n PER day", "figures"),
        ("ORDER BY n", "ORDER BY"),
        ("LIMIT 5 OFFSET 1", "LIMIT"),
        ("LIMIT 0", "LIMIT"),
        ("FOLLOWED BY pay LINKED BY context_id", "FOLLOWED BY and PRECEDED BY"),
    ],
)
def test_what_no_frame_can_answer_is_refused(memory, clauses, left_out):
    memory.bench.define("pay", n="int")
    answer = memory.bench.do(f"REMEMBER QUERY order {clauses} AS mine")
    assert answer.status is Status.BAD_REQUEST
    assert answer.message.endswith(f"leave out {left_out}")
    assert memory.files() == []


@pytest.mark.parametrize("query", ["order WHERE m = 1", 'order WHERE n = "x"', "order SINCE never"])
def test_query_that_is_wrong_is_not_remembered(memory, query):
    answer = memory.bench.do(f"REMEMBER QUERY {query} AS mine")
    assert answer.status is Status.BAD_REQUEST
    assert memory.files() == []


def test_type_that_is_not_there_is_not_found(memory):
    answer = memory.bench.do("REMEMBER QUERY odrer AS mine")
    assert (answer.status, "order" in answer.message) == (Status.NOT_FOUND, True)


def test_another_store_shows_what_was_remembered_and_needs_no_lock(memory):
    memory.store(3)
    memory.remember()
    with EventStore.open(memory.root) as other:
        assert memory.numbers(by=other) == [0, 1, 2]
        memory.store()
        assert memory.numbers(by=other) == memory.numbers() == [0, 1, 2, 3]


def test_remembered_queries_are_no_streams(memory):
    memory.remember()
    memory.numbers()
    memory.bench.reopen()
    (row,) = rows_of(memory.do("LIST TYPES"))
    assert row["event_type"] == "order"
