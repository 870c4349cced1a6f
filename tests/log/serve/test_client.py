"""The client: servers that stop, move, cut answers or are somebody else, and what it tells then."""

import multiprocessing
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from storage_core import (
    ClosedError,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    ServerOptions,
    Stream,
    StreamReader,
    UnavailableError,
    UnsupportedFormatError,
)
from tests.log.serve.relay import Relay, speaking
from tests.log.served import (
    AT_ONCE,
    DOORS,
    PATIENT,
    listening,
    opened_by,
    reading,
    served,
    two_shards,
)
from tests.log.topics import NAME
from tests.log.workbench import column_of
from tests.waiting import await_that

HERE = Path(__file__).parent
TOKEN = "a-token-of-some-length"  # noqa: S105 - of a server of these tests


@pytest.fixture
def bench(make_bench) -> Any:
    return two_shards(make_bench)


# --- which server answers ---------------------------------------------------------------------


def test_next_server_is_asked_where_one_is_gone(bench):
    with (
        listening(bench.root) as first,
        listening(bench.root) as second,
        reading(f"{first.address},{second.address}", bench.name) as reader,
    ):
        expected = reader.read()
        first.close()
        assert reader.read() == expected
        assert reader.committed() == bench.stream.committed()
        second.close()
        with pytest.raises(UnavailableError, match=f"{first.address}.*{second.address}"):
            reader.read()


def test_server_that_is_not_there_is_told_by_its_address(bench):
    with pytest.raises(
        UnavailableError, match=r"cannot connect to 127\.0\.0\.1:1: connection refused"
    ):
        StreamReader.open("shardlog://127.0.0.1:1", bench.name, server=AT_ONCE)


def test_reader_goes_on_with_a_server_that_was_started_again(bench):
    with Relay(None) as relay:
        with listening(bench.root) as server:
            relay.port = server.port
            reader = StreamReader.open(f"shardlog://{relay.address}", bench.name, server=PATIENT)
            expected = reader.read()
            relay.port = None
        answers: list[object] = []
        asks = threading.Thread(target=lambda: answers.append(reader.read()))
        asks.start()
        with listening(bench.root) as server:
            relay.port = server.port
            asks.join()
            assert answers == [expected]
            assert reader.read() == expected
            reader.close()


def test_other_root_behind_the_address_is_foreign(bench, tmp_path):
    with Stream.create(tmp_path, bench.name) as stream:
        stream.append(1, 1, b"of another root")
    with Relay(None) as relay, listening(tmp_path) as other:
        with listening(bench.root) as server:
            relay.port = server.port
            reader = StreamReader.open(f"shardlog://{relay.address}", bench.name, server=AT_ONCE)
            reader.read()
        relay.port = other.port
        for call in (reader.read, reader.refresh, lambda: list(reader.tail(0))):
            with pytest.raises(ForeignDataError, match="root"):
                call()
        reader.close()


def test_stream_that_is_not_there_is_told_as_by_path(bench):
    said = []
    with listening(bench.root) as server:
        for place in (bench.root, f"shardlog://{server.address}"):
            with pytest.raises(InvalidRequestError) as raised:
                StreamReader.open(place, "stream-00", server=AT_ONCE)
            said.append(str(raised.value))
    assert said[0] == said[1]
    assert "Did you mean" in said[0] or "did you mean" in said[0]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ForeignDataError, "no shardlog server"),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad", UnavailableError, "502"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", UnavailableError, "does not speak HTTP"),
        (b"", UnavailableError, "connection closed"),
        (
            b"HTTP/1.1 200 OK\r\nShardlog-Protocol: 77\r\nContent-Length: 2\r\n\r\n{}",
            UnsupportedFormatError,
            "protocol 77",
        ),
    ],
)
def test_somebody_else_at_the_address_is_told(answer, kind, said):
    with speaking(answer) as address, pytest.raises(kind, match=said):
        StreamReader.open(f"shardlog://{address}", "stream", server=AT_ONCE)


def test_silent_server_is_given_up_in_bounded_time():
    options = replace(AT_ONCE, timeout=timedelta(milliseconds=50))
    with speaking(None) as address, pytest.raises(UnavailableError, match="timed out"):
        StreamReader.open(f"shardlog://{address}", "stream", server=options)


# --- who may ask ------------------------------------------------------------------------------


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"# of the reader\n{TOKEN}\n")
    return path


def test_token_comes_from_a_file_and_from_the_environment(bench, token_file, monkeypatch):
    with served(bench.root, read_tokens=token_file) as address:
        for wrong in (AT_ONCE, replace(AT_ONCE, token=TOKEN[::-1])):
            with pytest.raises(InvalidRequestError, match=r"token.*TOKEN_FILE") as refused:
                StreamReader.open(address, bench.name, server=wrong)
            assert address.removeprefix("shardlog://") in str(refused.value)
        for options in (replace(AT_ONCE, token_file=token_file), replace(AT_ONCE, token=TOKEN)):
            with StreamReader.open(address, bench.name, server=options) as reader:
                assert reader.read().num_rows == 3000
        monkeypatch.setenv("SHARDLOG_SERVER_TOKEN_FILE", str(token_file))
        with StreamReader.open(address, bench.name, server=AT_ONCE) as reader:
            assert reader.read().num_rows == 3000


def test_token_that_is_exchanged_is_read_again(bench, token_file, tmp_path):
    of_client = tmp_path / "of-client"
    of_client.write_text(TOKEN)
    options = replace(AT_ONCE, token_file=of_client)
    next_file = tmp_path / "next"
    next_file.write_text("the-next-token-of-it")
    with Relay(None) as relay, listening(bench.root, read_tokens=next_file) as next_server:
        with listening(bench.root, read_tokens=token_file) as server:
            relay.port = server.port
            reader = StreamReader.open(f"shardlog://{relay.address}", bench.name, server=options)
        relay.port = next_server.port
        with pytest.raises(InvalidRequestError, match="token"):
            reader.read()
        of_client.write_text("the-next-token-of-it")
        assert reader.read().num_rows == 3000
        reader.close()


def test_token_is_in_no_text(bench, token_file):
    options = replace(AT_ONCE, token=TOKEN)
    with served(bench.root, read_tokens=token_file) as address:
        with StreamReader.open(address, bench.name, server=options) as reader:
            texts = [repr(options), str(options), repr(reader), str(reader)]
            texts += [repr(vars(reader)), repr(vars(reader.shard(0)))]
        wrong = replace(options, token=TOKEN[::-1])
        with pytest.raises(InvalidRequestError) as raised:
            StreamReader.open(address, bench.name, server=wrong)
        texts += [str(raised.value), repr(raised.value)]
    assert [text for text in texts if TOKEN in text or TOKEN[::-1] in text] == []


def test_options_with_a_token_are_not_pickled_into_a_plan():
    assert TOKEN.encode() not in pickle.dumps(ServerOptions(token_file=Path("a")))


def test_server_over_tls_is_verified(bench):
    tls: dict[str, Any] = {"tls_certificate": HERE / "certificate.pem", "tls_key": HERE / "key.pem"}
    trusting = replace(AT_ONCE, ca_file=HERE / "certificate.pem")
    with listening(bench.root, **tls) as server:
        encrypted = f"shardlogs://{server.address}"
        with StreamReader.open(encrypted, bench.name, server=trusting) as reader:
            assert reader.read().num_rows == 3000
        with pytest.raises(InvalidRequestError, match="certificate"):
            StreamReader.open(encrypted, bench.name, server=AT_ONCE)
        with pytest.raises(InvalidRequestError, match=r"takes only TLS: .*shardlogs://"):
            StreamReader.open(f"shardlog://{server.address}", bench.name, server=AT_ONCE)


def test_tls_to_a_server_without_it_is_told(bench):
    options = replace(AT_ONCE, connect_timeout=timedelta(milliseconds=200))
    # A server may be silent, or say in plain HTTP that it was asked for nothing it knows.
    kinds = (UnavailableError, InvalidRequestError)
    with listening(bench.root) as server, pytest.raises(kinds, match="TLS"):
        StreamReader.open(f"shardlogs://{server.address}", bench.name, server=options)


def test_request_that_is_too_large_is_refused_in_a_line(bench):
    ids = list(range(10**9, 10**9 + 800_000))
    with (
        listening(bench.root) as server,
        reading(server.address, bench.name) as reader,
        pytest.raises(InvalidRequestError, match=r"a body of \d+ bytes; 8388608 is the most"),
    ):
        reader.read(ids=ids)


# --- as by path -------------------------------------------------------------------------------


def test_reports_are_those_of_a_reader_by_path(filled):
    filled.append(3, [100, 104], dead={101: b"raw", 102: b""}, source={"next": 105})
    filled.stream.commit()
    filled.stream.seal()
    # A reader that has a snapshot is shown no entry of the index that is written after it.
    await_that(lambda: filled.stream.stats().index_entries == 1, "an entry of the index")
    calls: dict[str, Callable[[StreamReader], object]] = {
        name: methodcaller(name)
        for name in (
            *("committed", "refresh", "position", "lost_ranges", "gaps", "schemas", "parts"),
            *("unsealed", "untrimmed", "stats"),
        )
    }
    calls |= {
        "source": lambda reader: reader.source(3),
        "stats of one": lambda reader: reader.stats(3),
        "dead letters": lambda reader: list(reader.dead_letters(3)),
        "some": lambda reader: list(reader.dead_letters(3, 102, 103)),
        "horizon": lambda reader: reader.horizon(3),
        "missing": lambda reader: reader.missing(3, 0, 200),
        "parts of one": lambda reader: reader.shard(3).parts(),
        "schemas of one": lambda reader: reader.shard(3).schemas(),
        "state": lambda reader: replace(reader.shard(3).state(), ledger=None),
        "origin": lambda reader: (reader.origin, reader.options, reader.has_ids),
        "lineage": lambda reader: (reader.lineage(3), reader.born(3), reader.start(3)),
        "rows": lambda reader: reader.rows.read(),
    }
    with (
        opened_by("path", filled.root, NAME) as by_path,
        opened_by("server", filled.root, NAME) as by_server,
    ):
        answers = {name: (call(by_path), call(by_server)) for name, call in calls.items()}
    assert {name: pair for name, pair in answers.items() if pair[0] != pair[1]} == {}


def test_shards_and_options_that_came_since_are_there_from_refresh_on(filled):
    with opened_by("server", filled.root, NAME) as reader:
        filled.add({5: 7})
        assert (reader.committed(), reader.refresh()) == ({3: 100}, {3: 100, 5: 7})
        assert (reader.born(5), list(reader.tail(5))) == (7, [])
        filled.stream.alter(transactions_kept=77)
        reader.refresh()
        assert reader.options.transactions_kept == 77


def test_log_that_was_reset_is_told_in_every_call_and_read_as_an_archived_one(copy):
    copy.add({0: 10})
    copy.open()
    copy.append(0, [10, 11])
    copy.stream.close()
    calls: tuple[Callable[[StreamReader], object], ...] = (
        *(methodcaller(name) for name in ("committed", "refresh", "read", "latest", "position")),
        *(methodcaller(name) for name in ("stats", "parts", "schemas")),
        lambda reader: list(reader.tail(0)),
        lambda reader: reader.wait(0, 30, 10),
        lambda reader: reader.shard(0).state(),
    )
    with opened_by("server", copy.root, NAME) as reader:
        (archived,) = Stream.archive_shards(copy.root, NAME, {0: 5})
        for call in calls:
            with pytest.raises(ForeignDataError):
                call(reader)
    with opened_by("server", copy.root, NAME, archived=archived.lineage[:8]) as reader:
        assert column_of(reader.tail(0), "address") == [10, 11]
        assert (reader.lineage(0), reader.refresh()) == (archived.lineage, {0: 12})
    for door in DOORS:
        with opened_by(door, copy.root, NAME) as reader:
            assert reader.archived_lineages() == {archived.lineage}


def test_what_is_gone_is_the_same_error(bench):
    bench.close()
    bench.lose(4, 6)
    said = []
    for door in ("path", "server"):
        with opened_by(door, bench.root, bench.name) as reader:
            with pytest.raises(LostRangeError) as raised:
                list(reader.tail(0))
            said.append((str(raised.value), raised.value.start, raised.value.end))
    assert said[0] == said[1]


def test_read_gathers_no_more_bytes_than_the_caller_allows(bench):
    with served(bench.root) as address:
        reader = StreamReader.open(address, bench.name, read_bytes_max=1000, server=AT_ONCE)
        with reader, pytest.raises(InvalidRequestError, match="read_bytes_max"):
            reader.read()


def test_many_threads_share_a_reader(bench):
    counts: list[int] = []
    with opened_by("server", bench.root, bench.name) as reader:
        asks = [
            threading.Thread(target=lambda n=n: counts.append(reader.read([n]).num_rows))
            for n in (0, 1, 2) * 5
        ]
        for ask in asks:
            ask.start()
        for ask in asks:
            ask.join()
    assert counts == [1000] * 15


def ask_in_fork(reader: StreamReader, address: str, name: str, answers: Any) -> None:
    try:
        reader.read()
    except ClosedError as error:
        with StreamReader.open(address, name, server=AT_ONCE) as own:
            answers.put((str(error), own.read().num_rows))


def test_fork_leaves_the_reader_to_its_parent(bench):
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    with (
        served(bench.root) as address,
        StreamReader.open(address, bench.name, server=AT_ONCE) as reader,
    ):
        reader.read()
        child = fork.Process(target=ask_in_fork, args=(reader, address, bench.name, answers))
        child.start()
        said, rows = answers.get()
        child.join()
        assert rows == reader.read().num_rows == 3000
    assert "a fork" in said


def read_on_in_fork(rows: Iterator[Any], answers: Any) -> None:
    try:
        answers.put(f"{next(rows).num_rows} rows")
    except ClosedError as error:
        answers.put(str(error))


def test_fork_takes_nothing_of_an_answer_that_its_parent_reads(make_bench):
    bench = make_bench(block_records=50)
    for first in range(0, 400, 50):
        bench.append(range(first, first + 50), payload=b"x" * 20_000)
    bench.commit()
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    with opened_by("server", bench.root, bench.name) as reader:
        rows = reader.scan(columns=("primary", "payload"))
        first = next(rows).num_rows
        child = fork.Process(target=read_on_in_fork, args=(rows, answers))
        child.start()
        said = answers.get()
        child.join()
        assert first + sum(batch.num_rows for batch in rows) == 400
    assert "a fork" in said
