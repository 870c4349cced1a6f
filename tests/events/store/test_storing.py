"""STORE: what an event becomes, where it lies, and what is refused."""

import threading

import pytest

from storage_core import StreamReader
from tests.events.store.bench import position_in, rows_of, stored
from typed_events.answer import Status
from typed_events.language.commands import Store
from typed_events.language.parse import parse_commands


def test_event_is_a_row_of_its_types_stream(bench):
    assert bench.must("order", "ann", amount=1, note="x") == "0:0"
    assert bench.must("order", "bob", amount=2) == "0:1"
    assert bench.events("order") == [
        ("ann", 1, {"amount": 1, "note": "x"}),
        ("bob", 1, {"amount": 2, "note": None}),
    ]


def test_times_rise_over_all_types_whatever_the_clock_does(bench):
    bench.must("order", "ann", amount=1)
    bench.must("pay", "ann", amount=1)
    bench.clock.wall_ns -= 3 * 86_400 * 10**9
    bench.must("order", "ann", amount=2)
    bench.reopen()
    bench.must("pay", "ann", amount=2)
    (first, third), (second, fourth) = bench.times("order"), bench.times("pay")
    assert first < second < third < fourth
    with StreamReader.open(bench.root, "order") as reader:
        stats = reader.stats()
        assert (stats.late_arrivals, stats.ahead) == (0, 0)


def test_clock_that_was_far_ahead_makes_no_event_late_behind_it(bench):
    bench.clock.wall_ns += 30 * 86_400 * 10**9
    bench.must("order", "ann", amount=1)
    bench.clock.wall_ns -= 30 * 86_400 * 10**9
    bench.must("order", "ann", amount=2)
    with StreamReader.open(bench.root, "order") as reader:
        assert reader.read(keys=[b"ann"]).column("late").to_pylist() == [False, False]


def test_events_of_many_threads_are_each_stored_once(bench):
    positions: list[str] = []

    def run(number: int) -> None:
        positions.extend(bench.must("order", f"c{number}", amount=n) for n in range(10))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(positions, key=lambda text: int(text[2:])) == [f"0:{n}" for n in range(80)]
    events = bench.events("order")
    for number in range(8):
        mine = [fields["amount"] for context, _, fields in events if context == f"c{number}"]
        assert mine == list(range(10))


def test_event_too_large_for_the_log_takes_no_other_of_its_group_with_it(bench):
    large = Store("order", "bob", {"amount": 1, "note": "x" * (17 * 2**20)})
    events = [Store("order", context, {"amount": 1}) for context in ("ann", "cid")]
    answers = bench.store_of_events.execute_all([events[0], large, events[1]])
    assert [answer.status for answer in answers] == [Status.OK, Status.BAD_REQUEST, Status.OK]
    assert "order takes 16,777,216 at most" in answers[1].message
    assert [context for context, _, _ in bench.events("order")] == ["ann", "cid"]


def test_lines_are_answered_each_by_itself(bench):
    lines = [
        stored("order", "ann", amount=1),
        stored("order", "ann", amount="much"),
        "PING",
        stored("none", "ann", amount=1),
        stored("pay", "ann", amount=1),
    ]
    answers = bench.store_of_events.execute_all(parse_commands(";".join(lines)))
    assert [answer.status for answer in answers] == [
        Status.OK,
        Status.BAD_REQUEST,
        Status.OK,
        Status.NOT_FOUND,
        Status.OK,
    ]
    assert [position_in(answers[0]), position_in(answers[4])] == ["0:0", "0:0"]
    assert answers[2].message == "PONG"


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        ("STORE orders FOR a PAYLOAD {}", Status.NOT_FOUND, "did you mean order?"),
        ('STORE order FOR a PAYLOAD {"amount": "x"}', Status.BAD_REQUEST, 'field "amount"'),
        ('STORE order FOR a PAYLOAD {"amount": 1, "n": 2}', Status.BAD_REQUEST, 'field "n"'),
        ('STORE order AS 7 FOR a PAYLOAD {"amount": 1}', Status.BAD_REQUEST, "no version 7"),
        (f'STORE order FOR {"a" * 1025} PAYLOAD {{"amount": 1}}', Status.BAD_REQUEST, "context"),
        ("STORE", Status.BAD_REQUEST, ""),
        ("DESCRIBE orders", Status.NOT_FOUND, "did you mean order?"),
    ],
)
def test_what_cannot_be_is_refused_with_a_line_and_nothing_is_stored(bench, text, status, line):
    answer = bench.do(text)
    assert (answer.status, line in answer.message, "\n" in answer.message) == (status, True, False)
    assert bench.events("order") == []


def test_contexts_go_to_the_shards_where_their_keys_are_read(make_bench):
    bench = make_bench(shards=4)
    bench.define("order", amount="int")
    positions = {bench.must("order", f"c{n}", amount=n).split(":")[0] for n in range(20)}
    assert len(positions) > 1
    with StreamReader.open(bench.root, "order") as reader:
        assert all(reader.read(keys=[f"c{n}".encode()]).num_rows == 1 for n in range(20))


def test_flush_and_ping_and_maintenance_go_beside_events(bench):
    bench.must("order", "ann", amount=1)
    assert bench.do("FLUSH").status is Status.OK
    bench.clock.advance(3600)
    reports = bench.store_of_events.maintain()
    assert reports["order"].rows_sealed == 1
    bench.must("order", "ann", "EXPECT 1", amount=2)
    assert rows_of(bench.do("PING")) == []
