"""Goal: SQL over a server costs what it reads, and believes nothing that it can prove.

Method: a server in this process over a root that is damaged, ends, or asks for a token. That the
answers are those of a path is in test_sql.py, whose scenarios run over both.
"""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ServerOptions,
    StreamReader,
    UnavailableError,
)
from storage_core.sql import connect, query_batches
from tests.log.parts.parts_lab import NAME, PartsLab, schema_of
from tests.log.serve.relay import Relay
from tests.log.serve.served import serving
from tests.log.served import AT_ONCE, PATIENT, listening, served
from tests.snapshots import snapshot
from tests.waiting import WAIT_MAX_S, await_that

ORDERS = 12_000
ALL = f"SELECT max(length(number)) AS n FROM {NAME}"
TOKEN = "sixteen-letters-and-more"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    lab = PartsLab(tmp_path_factory.mktemp("root"))
    schema = schema_of([{"name": "number", "type": "string"}], "Order")
    rng = np.random.default_rng(8)
    # So long that the file is not read as a whole with its end.
    lab.append_values(schema, [{"number": rng.bytes(99).hex()} for _ in range(ORDERS)], 30)
    lab.stream.seal()
    lab.stream.close()
    return lab.root


@pytest.fixture
def sealed(orders, tmp_path):
    """A root of the test's own, with one part that may be damaged."""
    snapshot(orders, tmp_path / "root")
    return tmp_path / "root"


def part_of(root):
    with StreamReader.open(root, NAME) as reader:
        (part,) = reader.parts()
    return part


def first_row(place, query, **options):
    _, batches = query_batches(place, query, **options)
    return next(batches).to_pylist()[0]


def test_query_takes_of_a_part_what_it_reads(orders):
    size = part_of(orders).entry.size
    with serving(orders) as server:
        address = f"shardlog://{server.server.address}"
        assert first_row(address, f'SELECT count("primary") AS n FROM {NAME}') == {"n": ORDERS}
        sent = server.metric("shardlog_server_bytes_total")
        assert sent < size / 2
        assert first_row(address, ALL)
        assert server.metric("shardlog_server_bytes_total") - sent > size / 2


@pytest.mark.parametrize("is_proven", [True, False])
def test_part_that_is_damaged_at_the_server_is_told_with_its_place(sealed, is_proven):
    part = part_of(sealed)
    part.path.write_bytes(bytes(part.entry.size))
    with served(sealed) as address, pytest.raises(CorruptionError) as raised:
        first_row(address, ALL, verify_checksums=is_proven, server=AT_ONCE)
    assert (raised.value.path, raised.value.start, raised.value.end) == (part.path, 0, ORDERS)


def test_bytes_that_change_behind_the_footer_are_told_by_the_client(sealed):
    part = part_of(sealed)
    with served(sealed) as address, connect(address, [NAME], server=AT_ONCE) as streams:
        data = bytearray(part.path.read_bytes())
        data[: part.entry.size // 2] = bytes(part.entry.size // 2)
        part.path.write_bytes(data)
        with pytest.raises(CorruptionError, match="as they were published") as raised:
            streams.sql(ALL).fetchall()
    assert raised.value.path == part.path


def test_part_that_is_shorter_than_it_was_is_told(sealed):
    part = part_of(sealed)
    with served(sealed) as address, connect(address, [NAME], server=AT_ONCE) as streams:
        part.path.write_bytes(part.path.read_bytes()[:1000])
        with pytest.raises(CorruptionError, match="truncated"):
            streams.sql(ALL).fetchall()


def test_part_that_is_missing_at_the_server_is_told_by_its_name(sealed):
    part = part_of(sealed)
    part.path.unlink()
    with served(sealed) as address, pytest.raises(CorruptionError, match=part.path.name):
        first_row(address, ALL, server=AT_ONCE)


def test_server_that_ends_before_rows_are_fetched_is_told_by_its_address(sealed):
    with served(sealed) as address:
        streams = connect(address, [NAME], server=AT_ONCE)
    with streams, pytest.raises(UnavailableError) as raised:
        streams.sql(ALL).fetchall()
    assert address.removeprefix("shardlog://") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_token_is_the_clients_and_is_asked_for(sealed, tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "read"
    tokens.write_text(TOKEN + "\n")
    with served(sealed, read_tokens=tokens) as address:
        with pytest.raises(InvalidRequestError, match="token"):
            first_row(address, ALL, server=AT_ONCE)
        own = ServerOptions(token=TOKEN, retry_for=timedelta(0))
        assert first_row(address, ALL, server=own)


@pytest.mark.parametrize(
    "values",
    [
        {"shard": 0, "number": 9, "start": 0, "end": 1},
        {"shard": 0, "number": 2**32 - 1, "start": 5, "end": 1},
    ],
)
def test_part_that_is_none_has_no_bytes(sealed, values):
    with serving(sealed) as server:
        rows, result = server.rows_and_result("part_bytes", NAME, **values)
    assert (rows.num_rows, result) == (0, "gone")


def test_part_is_named_by_numbers_that_there_are(sealed):
    with serving(sealed) as server:
        refused = server.refusal("part_bytes", NAME, shard=7, number=0, start=0, end=1)
        assert isinstance(refused, InvalidRequestError)
        assert server.ask("part_bytes", NAME, shard=0, number=2**32, start=0, end=1).status == 400


def test_servers_over_several_roots_are_refused_in_a_line(sealed, tmp_path):
    PartsLab(tmp_path / "other").stream.close()
    with served(sealed) as address, served(tmp_path / "other") as other:
        both = f"{address},{other.removeprefix('shardlog://')}"
        with pytest.raises(InvalidRequestError, match="over several roots") as raised:
            first_row(both, ALL, server=AT_ONCE)
    assert "\n" not in str(raised.value)


def test_server_over_another_root_that_starts_later_is_refused(sealed, tmp_path):
    PartsLab(tmp_path / "other").stream.close()
    with listening(tmp_path / "other") as other, Relay(None) as later:
        with served(sealed) as address:
            streams = connect(f"{address},{later.address}", server=AT_ONCE)
        later.port = other.port
        with streams, pytest.raises(ForeignDataError, match="not over"):
            streams.sql(ALL).fetchall()


def test_servers_that_are_all_away_are_told_by_their_addresses():
    with Relay(None) as first, Relay(None) as second:
        both = f"shardlog://{first.address},{second.address}"
        with pytest.raises(UnavailableError) as raised:
            first_row(both, ALL, server=AT_ONCE)
        assert first.address in str(raised.value)
        assert second.address in str(raised.value)


def test_servers_that_are_all_away_are_waited_for(sealed):
    with listening(sealed) as server, Relay(None) as first, Relay(None) as second:
        both = f"shardlog://{first.address},{second.address}"
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(first_row, both, ALL, server=PATIENT)
            await_that(lambda: bool(first.connections and second.connections), "both were asked")
            second.port = server.port
            assert answer.result(WAIT_MAX_S)


def test_interrupt_ends_a_query_whose_server_is_silent(sealed):
    slow = ServerOptions(timeout=timedelta(seconds=2 * WAIT_MAX_S), retry_for=timedelta(0))
    has_ended = threading.Event()
    with listening(sealed) as server, Relay(server.port) as relay, ThreadPoolExecutor(1) as thread:
        # Behind the footer, which is read before the query runs.
        relay.stall_next_answer_at(2**19)

        def interrupted() -> bool:
            assert relay.stalled.wait(WAIT_MAX_S)
            os.kill(os.getpid(), signal.SIGINT)
            return has_ended.wait(WAIT_MAX_S)

        before_its_timeout = thread.submit(interrupted)
        with pytest.raises(KeyboardInterrupt):
            first_row(f"shardlog://{relay.address}", ALL, server=slow)
        has_ended.set()
        assert before_its_timeout.result()


def test_hot_rows_go_on_where_an_answer_was_cut(tmp_path):
    lab = PartsLab(tmp_path / "root")
    schema = schema_of([{"name": "number", "type": "string"}], "Order")
    rng = np.random.default_rng(9)
    lab.append_values(schema, [{"number": rng.bytes(99).hex()} for _ in range(ORDERS)], 30)
    with listening(lab.root) as server, Relay(server.port) as relay:
        relay.cut_next_answer_at(2**19)
        count = f"SELECT count(DISTINCT number) AS n FROM {NAME}"
        assert first_row(f"shardlog://{relay.address}", count, server=PATIENT) == {"n": ORDERS}
        assert relay.has_cut
    lab.stream.close()
