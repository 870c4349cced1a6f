"""`tail --server --retry-for`: a server that is away, or an answer that is cut, ends it no more."""

import json
import threading

import pytest

from storage_core import Stream, StreamOptions
from tests.log.serve.relay import Relay
from tests.log.served import served
from tests.waiting import WAIT_MAX_S, await_that

NAME = "trips"
ROWS = 3000
PATIENT = str(int(WAIT_MAX_S))


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, NAME, StreamOptions()) as stream:
        for primary in range(ROWS):
            stream.append(primary, 0, b"x" * 200)
            if primary % 500 == 499:
                stream.commit()
    with served(root) as address:
        yield int(address.rpartition(":")[2])


def follow(shardlog, relay, *options):
    """Return what comes out until all rows are there."""
    address = f"shardlog://{relay.address}"
    words = ("--follow", "--limit", ROWS, "--columns", "primary,payload", "--output", "jsonl")
    return shardlog("tail", address, NAME, *words, *options)


def primaries(ran):
    return [json.loads(line)["primary"] for line in ran.lines]


def test_tail_waits_for_a_server_that_is_away(shardlog, port):
    with Relay(None) as relay:

        def comes_back():
            await_that(lambda: relay.connections > 2, "it is asked for again")
            relay.port = port

        back = threading.Thread(target=comes_back)
        back.start()
        ran = follow(shardlog, relay, "--retry-for", PATIENT)
        back.join()
    assert (ran.code, primaries(ran)) == (0, list(range(ROWS)))


@pytest.mark.parametrize("place", [100_000, 500_000])
def test_tail_whose_answer_is_cut_goes_on_where_it_was(shardlog, port, place):
    with Relay(port) as relay:
        # Only rows are as long.
        relay.cut_next_answer_at(place)
        ran = follow(shardlog, relay, "--retry-for", PATIENT)
        assert relay.connections > 1
    assert (ran.code, primaries(ran)) == (0, list(range(ROWS)))


def test_tail_without_patience_ends_once_its_server_is_away(shardlog):
    with Relay(None) as relay:
        ran = follow(shardlog, relay, "--retry-for", 0)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.count("\n") == 1


def test_patience_is_for_servers_alone(shardlog, tmp_path):
    ran = shardlog("tail", tmp_path, NAME, "--retry-for", 1)
    assert (ran.code, ran.out) == (2, "")
    assert "--retry-for goes with --server" in ran.err
