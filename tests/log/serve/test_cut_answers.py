"""Answers that are cut, wherever that is: never short, never a row twice, and gone on with.

Method: a relay before the server cuts an answer behind so many bytes, at many places; what a client
sees is compared with what it sees of a whole one.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from storage_core import LostRangeError, ReadRequest, ServerOptions, UnavailableError
from tests.log.serve.relay import Relay
from tests.log.served import PATIENT, listening, opened_by, reading, two_shards
from tests.log.workbench import column_of


@pytest.fixture
def bench(make_bench) -> Any:
    return two_shards(make_bench)


@pytest.fixture
def relay(bench) -> Iterator[Relay]:
    with listening(bench.root) as server, Relay(server.port) as relay:
        yield relay


ITERATED = {
    "scan": lambda reader: reader.scan(),
    "tail": lambda reader: reader.tail(0),
    "shard": lambda reader: reader.shard(0).scan(ReadRequest(0)),
}


def places(length: int) -> list[int]:
    """Return places of an answer to cut it at: its ends, and some between."""
    return sorted({*range(0, length, max(1, length // 23)), *range(length - 30, length)} - {length})


def test_answer_that_is_cut_anywhere_is_an_error_and_never_short(bench, relay):
    with reading(relay.address, bench.name) as reader:
        expected, errors = reader.read(), 0
        for place in places(relay.bytes_of_last_answer()):
            relay.cut_next_answer_at(place)
            try:
                # A connection that ends at once was closed before the question: it is asked again.
                assert reader.read() == expected
            except UnavailableError:
                errors += 1
        assert errors > 30


@pytest.mark.parametrize("call", ITERATED)
def test_rows_that_came_before_the_cut_are_those_that_were_asked_for(bench, relay, call):
    with reading(relay.address, bench.name) as reader:
        expected, errors = column_of(ITERATED[call](reader), "address"), 0
        for place in places(relay.bytes_of_last_answer()):
            relay.cut_next_answer_at(place)
            seen: list[int] = []
            try:
                for batch in ITERATED[call](reader):
                    seen += batch.column("address").to_pylist()
                assert seen == expected
            except UnavailableError:
                errors += 1
                assert seen == expected[: len(seen)]
        assert errors > 30


@pytest.mark.parametrize("call", ["committed", "refresh", "position"])
def test_report_that_is_cut_anywhere_is_an_error(bench, relay, call):
    with reading(relay.address, bench.name) as reader:
        expected = getattr(reader, call)()
        for place in range(relay.bytes_of_last_answer()):
            relay.cut_next_answer_at(place)
            with suppress(UnavailableError):
                assert getattr(reader, call)() == expected


def test_read_that_was_cut_is_asked_again(bench, relay):
    with reading(relay.address, bench.name, PATIENT) as reader:
        expected = reader.read()
        relay.cut_next_answer_at(relay.bytes_of_last_answer() // 2)
        assert reader.read() == expected


RESUMED = {
    **ITERATED,
    "columns": lambda reader: reader.scan(columns=("payload", "primary")),
    "ids": lambda reader: reader.tail(0, 100, 2000, ids=(0, 2), columns=("primary",)),
}


def rows_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return rows as one piece: how they were cut into batches is not told."""
    return pa.Table.from_batches(list(batches)).combine_chunks()


@pytest.mark.parametrize("call", RESUMED)
def test_rows_go_on_behind_the_last_one_that_came_whole(bench, relay, call):
    with reading(relay.address, bench.name, PATIENT) as reader:
        expected = rows_of(RESUMED[call](reader))
        for place in places(relay.bytes_of_last_answer()):
            relay.cut_next_answer_at(place)
            assert rows_of(RESUMED[call](reader)) == expected


def test_rows_go_on_from_another_server(bench):
    with (
        listening(bench.root) as first,
        listening(bench.root) as second,
        Relay(first.port) as relay,
        reading(f"{relay.address},{second.address}", bench.name, PATIENT) as reader,
    ):
        expected = rows_of(reader.scan())
        relay.cut_next_answer_at(relay.bytes_of_last_answer() // 2)
        rows = reader.scan()
        begun = next(rows)
        relay.port = None
        assert rows_of([begun, *rows]) == expected


def test_answers_that_are_cut_again_and_again_without_a_row_are_told(bench, relay):
    with reading(relay.address, bench.name, PATIENT) as reader:
        list(reader.tail(0))
        # Within the first batch, behind the schema.
        relay.cut_answers_at(relay.bytes_of_last_answer() // 6)
        with pytest.raises(UnavailableError):
            list(reader.tail(0))


@pytest.mark.parametrize("order", ["time", "primary", "newest"])
def test_rows_of_another_order_are_not_gone_on_with(bench, relay, order):
    with reading(relay.address, bench.name, PATIENT) as reader:
        request = ReadRequest(0, order=order)
        list(reader.shard(0).scan(request))
        relay.cut_next_answer_at(relay.bytes_of_last_answer() - 40)
        with pytest.raises(UnavailableError):
            list(reader.shard(0).scan(request))


def test_replay_is_not_gone_on_with_where_its_next_rows_have_expired(bench, relay):
    with reading(relay.address, bench.name, PATIENT) as reader:
        list(reader.tail(0))
        relay.cut_next_answer_at(relay.bytes_of_last_answer() // 2)
        rows = reader.tail(0)
        next(rows)
        bench.stream.alter(records_max=300)
        bench.stream.expire(now=0)
        with pytest.raises(LostRangeError, match="have expired"):
            list(rows)


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_calls_one_after_another_take_one_connection(bench, relay, compression):
    options = ServerOptions(compression=compression)
    with reading(relay.address, bench.name, options) as reader:
        for _ in range(3):
            assert reader.read().num_rows == 3000
            assert sum(batch.num_rows for batch in reader.scan()) == 3000
            assert reader.committed()
        assert relay.connections == 1


def test_reader_who_has_enough_leaves_no_connection_half_read(bench):
    with opened_by("server", bench.root, bench.name) as reader:
        for _ in range(40):
            assert next(reader.scan()).num_rows
        assert reader.read().num_rows == 3000
