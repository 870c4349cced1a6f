"""DEFINE, LIST TYPES, DESCRIBE: versions of types, seen by every process from then on."""

import threading
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions, StreamOrigin, StreamReader, drop_stream
from storage_core.avro import newest_schema
from tests.events.store.bench import StoreBench, position_in, rows_of, stored
from typed_events.answer import Status
from typed_events.event_store import EventStore


def test_new_version_is_what_events_get_from_then_on(bench):
    bench.must("pay", "ann", amount=1)
    assert bench.define("pay", amount="float", to="string | null").message == (
        "defined pay version 2"
    )
    bench.must("pay", "ann", amount=1.5, to="bob")
    assert bench.do('STORE pay AS 1 FOR ann PAYLOAD {"amount": 7}').status is Status.OK
    assert bench.events("pay") == [
        ("ann", 1, {"amount": 1}),
        ("ann", 2, {"amount": 1.5, "to": "bob"}),
        ("ann", 1, {"amount": 7}),
    ]


@pytest.mark.parametrize("leave", [None, "reopen"])
def test_newest_version_is_the_newest_schema_however_events_came(bench, leave):
    # Spark, exports and `read --to` show rows by the newest schema that the stream has.
    bench.define("pay", amount="int", to="string | null")
    bench.define("pay", amount="int", to="string | null", by="string | null")
    bench.do('STORE pay AS 2 FOR ann PAYLOAD {"amount": 1}')
    if leave:
        getattr(bench, leave)()
    bench.do('STORE pay AS 3 FOR ann PAYLOAD {"amount": 1}')
    bench.do('STORE pay AS 1 FOR ann PAYLOAD {"amount": 1}')
    with StreamReader.open(bench.root, "pay") as reader:
        newest = newest_schema(reader.schemas())
    assert newest is not None
    assert '"by"' in newest.text


def test_version_stands_behind_the_one_before_whatever_the_clock_does(make_bench):
    bench = make_bench()
    bench.define("order", amount="int", note="string | null")
    bench.clock.wall_ns -= 3_600 * 10**9
    bench.define("order", amount="int")
    times = bench.times("_types")
    assert times[0] < times[1]
    bench.reopen()
    bench.must("order", "ann", amount=1)
    assert [version for _, version, _ in bench.events("order")] == [2]


def test_same_fields_again_are_no_new_version(bench):
    assert bench.define("pay", amount="int").message == "pay version 1 has these fields already"
    assert [row["version"] for row in rows_of(bench.do("LIST TYPES"))] == [1, 1]


def test_types_are_listed_and_described(bench):
    bench.define("pay", amount="int", to="string | null")
    listed = [
        (row["event_type"], row["version"], row["fields"])
        for row in rows_of(bench.do("LIST TYPES"))
    ]
    assert listed == [("order", 1, 2), ("pay", 2, 2)]
    described = [
        (row["version"], row["field"], row["type"]) for row in rows_of(bench.do("DESCRIBE pay"))
    ]
    assert described == [(2, "amount", "int"), (2, "to", "string | null"), (1, "amount", "int")]


@pytest.mark.parametrize("leave", ["reopen", "crash"])
def test_types_stay(bench, leave):
    before = rows_of(bench.do("LIST TYPES"))
    getattr(bench, leave)()
    assert rows_of(bench.do("LIST TYPES")) == before
    bench.must("pay", "ann", amount=1)


def test_types_of_another_owner_are_seen_with_the_next_command(bench):
    with EventStore.open(bench.root) as other:
        assert len(rows_of(other.execute("LIST TYPES"))) == 2
        bench.define("pay", amount="int", to="string | null")
        bench.define("third", amount="int")
        listed = rows_of(other.execute("LIST TYPES"))
    assert [(row["event_type"], row["version"]) for row in listed] == [
        ("order", 1),
        ("pay", 2),
        ("third", 1),
    ]


def test_two_who_define_the_same_at_once_make_one_version(bench):
    messages = []
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        messages.append(bench.define("new", amount="int").message)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert messages.count("defined new version 1") == 1
    assert messages.count("new version 1 has these fields already") == 3


def test_crash_at_any_call_leaves_a_type_defined_or_not_and_it_can_be_again(make_bench):
    bench = make_bench()
    call, is_crashing = 0, True
    while is_crashing:
        call += 1
        bench.disk.crash_at = bench.disk.calls + call
        bench.do(f'DEFINE t{call} FIELDS {{ "amount": "int" }}')
        is_crashing = bench.disk.calls >= bench.disk.crash_at
        bench.crash()
        assert bench.define(f"t{call}", amount="int").status is Status.OK
        bench.must(f"t{call}", "ann", f"EXPECT {call - 1}", amount=1)
    assert call > 3


def test_stream_of_other_rows_is_no_type(bench):
    Stream.create(bench.root, "plain", StreamOptions(shards=1)).close()
    origin = StreamOrigin("kafka", "topic", "id", "dictionary", "timestamp")
    options = StreamOptions(unit="us", key_mode="dictionary")
    Stream.create(bench.root, "topic", options, origin=origin).close()
    for name in ("plain", "topic"):
        answer = bench.do(f'DEFINE {name} FIELDS {{ "amount": "int" }}')
        assert answer.status is Status.BAD_REQUEST
        assert f"there is a stream {name}, and its rows are no events" in answer.message
        assert bench.store(name, "ann", amount=1).status is Status.NOT_FOUND


def test_stream_with_rows_of_another_writer_is_no_type(bench):
    options = StreamOptions(unit="us", key_mode="dictionary")
    with Stream.create(bench.root, "mine", options) as stream:
        columns: dict[str, Any] = {"primary": [5], "key": [b"ann"], "payload": [b"text"]}
        stream.append_batch(pa.RecordBatch.from_pydict(columns))
    answer = bench.do('DEFINE mine FIELDS { "amount": "int" }')
    assert answer.status is Status.BAD_REQUEST
    assert "there is a stream mine, and its rows are no events" in answer.message
    assert bench.store("mine", "ann", "EXPECT NONE", amount=1).status is Status.NOT_FOUND
    # Whoever wrote it goes on.
    Stream.open(bench.root, "mine").close()


def test_type_whose_stream_was_dropped_is_defined_again(bench: StoreBench):
    bench.must("pay", "ann", amount=1)
    bench.close()
    drop_stream(bench.root, "pay")
    bench.reopen()
    answer = bench.store("pay", "ann", amount=1)
    assert (answer.status, "DEFINE it again" in answer.message) == (Status.NOT_FOUND, True)
    bench.define("pay", amount="int")
    assert bench.must("pay", "ann", "EXPECT NONE", amount=1) == "0:0"


def test_define_makes_the_root_and_all_else_misses_it(make_bench):
    bench = make_bench(retention=timedelta(days=1))
    for text in ("LIST TYPES", "DESCRIBE pay", stored("pay", "ann", amount=1)):
        answer = bench.do(text)
        assert (answer.status, "DEFINE makes it" in answer.message) == (Status.NOT_FOUND, True)
    assert not bench.root.exists()
    assert bench.store_of_events.maintain() == {}
    bench.define("pay", amount="int")
    assert position_in(bench.store("pay", "ann", amount=1)) == "0:0"
