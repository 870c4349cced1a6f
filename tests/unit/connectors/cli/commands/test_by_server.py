"""Commands that read print the same over a server as over a path."""

import json
from contextlib import closing

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions, StreamOrigin
from tests.log.served import served

NAME = "trips"
TOPIC = "orders"
ORIGIN = StreamOrigin("kafka", TOPIC, "topic-id", "integer", "timestamp")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A stream of two shards, one with a late row, and a topic's with a gap and a dead letter."""
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, NAME, StreamOptions(shards=2)) as stream:
        for primary, secondary in ((1000, 0), (2000, 1), (3000, 0), (500, 0)):
            stream.append(primary, secondary, b"%d" % primary)
    Stream.create(root, TOPIC, StreamOptions(), origin=ORIGIN).close()
    Stream.add_shards(root, TOPIC, {0: 100})
    columns = {
        "primary": [20, 30],
        "secondary": pa.array([1, 1], pa.int32()),
        "payload": [b"x"] * 2,
    }
    with closing(Stream.open(root, TOPIC)) as stream:
        stream.append_batch(
            pa.table(columns),
            shard=0,
            addresses=[100, 101],
            source={"next": 103},
            dead_letters={102: b"raw"},
        )
        stream.skip(0, 110, source={"next": 110})
        stream.commit()
    return root


@pytest.fixture(scope="module")
def address(root):
    with served(root) as address:
        yield address


COMMANDS = [
    "read {root} trips",
    "read {root} trips --id 0 --start 600 --columns primary,late,payload --output jsonl",
    "read {root} trips --count",
    "read {root} orders --null-key",
    "latest {root} trips --id 1 --output csv",
    "tail {root} trips --shard 0 --from 1 --output jsonl",
    "tail {root} orders --limit 1",
    "read {root} trip",
    "read {root} trips --columns nope",
    "tail {root} trips --shard 7",
    "sql {root} FROM\ttrips\tSELECT\tshard,address,state\tORDER\tBY\tALL",
    "sql {root} FROM\torders\tSELECT\tcount(*) --output jsonl",
    "sql {root} FROM\ttrip",
    "sql {root} SHOW\tTABLES",
    "streams {root}",
]


@pytest.mark.parametrize("words", COMMANDS)
def test_command_prints_the_same_over_a_server(shardlog, root, address, words):
    by_path = shardlog(*words.format(root=root).split(" "))
    by_server = shardlog(*words.format(root=address).split(" "))
    assert (by_server.code, by_server.out, by_server.err) == (
        by_path.code,
        by_path.out,
        by_path.err,
    )


def test_server_is_named_by_an_option_wherever_it_stands(shardlog, address):
    host = address.removeprefix("shardlog://")
    printed = {
        shardlog(*words).out
        for words in (
            ("read", address, NAME),
            ("read", "--server", host, NAME),
            ("read", NAME, "--server", host),
            ("read", NAME, f"--server={address}", "--limit", "0"),
        )
    }
    assert len(printed) == 1
    assert "3000" in printed.pop()


def test_sql_asks_a_server_that_is_named_by_an_option(shardlog, address):
    host = address.removeprefix("shardlog://")
    ran = shardlog("sql", "--server", host, f"SELECT count(*) AS n FROM {NAME}", "--output", "csv")
    assert (ran.code, ran.lines) == (0, ["n", "4"])


@pytest.mark.parametrize("stream", [None, TOPIC])
def test_status_is_the_same_but_for_where_the_root_is(shardlog, root, address, stream):
    named = [] if stream is None else [stream]
    by_path = json.loads(shardlog("status", root, *named, "--json").out)
    by_server = json.loads(shardlog("status", address, *named, "--json").out)
    assert {one.pop("root") for one in by_server} == {address}
    assert {one.pop("root") for one in by_path} == {str(root)}
    for shard in (*by_path, *by_server):
        assert shard.pop("bytes") > 0
        # Of a moment each.
        assert (shard.pop("age_s") is None) == (shard["last"] is None)
    assert by_server == by_path


def test_status_names_the_servers_in_its_first_line(shardlog, address):
    assert shardlog("status", address).lines[0].startswith(f"root {address} (id ")


def test_streams_are_the_same_but_for_bytes_that_a_server_does_not_tell(shardlog, root, address):
    by_path = json.loads(shardlog("streams", root, "--json").out)
    by_server = json.loads(shardlog("streams", "--server", address, "--json").out)
    assert {one.pop("archived_bytes") for one in by_path} == {0}
    assert {one.pop("archived_bytes") for one in by_server} == {None}
    assert by_server == by_path
    assert [one["stream"] for one in by_server] == [TOPIC, NAME]


def test_server_without_a_value_is_told(shardlog):
    ran = shardlog("read", NAME, "--server")
    assert ran.code == 2
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", ["read", "latest", "tail"])
def test_root_beside_servers_is_told(shardlog, root, command):
    ran = shardlog(command, root, NAME, "--server", "127.0.0.1:1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "shardlog: Invalid value: --server is in the place of ROOT: leave ROOT out\n"


@pytest.mark.parametrize(
    "words",
    [
        "seal shardlog://127.0.0.1:1 trips",
        "parts shardlogs://127.0.0.1:1 trips",
        "verify shardlog://a,b trips",
        "compact shardlog://127.0.0.1:1 trips",
        "read Shardlog://127.0.0.1:1 trips",
        "sql 127.0.0.1:1 FROM\ttrips",
        "read a:8085,b trips",
        "status a:8085+b:8085",
    ],
)
def test_server_in_the_place_of_a_path_is_told_how_servers_are_named(shardlog, words):
    ran = shardlog(*words.split(" "))
    assert (ran.code, ran.out) == (2, "")
    assert "shardlog://HOST:PORT" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("words", ["read ./nowhere trips", "seal ./shardlog trips", "status a:b"])
def test_path_that_is_none_is_not_taken_for_a_server(shardlog, words):
    assert "HOST:PORT" not in shardlog(*words.split(" ")).err


def test_help_tells_of_the_option(shardlog):
    assert "--server HOST:PORT" in shardlog("tail", "--help").out
    assert "--server" not in shardlog("verify", "--help").out
