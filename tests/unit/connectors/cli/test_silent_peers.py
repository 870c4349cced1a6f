"""A broker or registry that accepts and never answers: each command says so, in bounded time.

The bounds are far below what all attempts would take together: 40 s of a registry, with the
settings that it has unless told otherwise.
"""

import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from storage_core import Stream, StreamOptions, StreamOrigin, SystemClock
from tests.unit.connectors.silent import silent_peer

CLOCK = SystemClock()
# Below the 41 s of one question with all its attempts; a check takes 2 s on a machine at rest.
CHECK_MAX_S = 30.0


@pytest.fixture
def silent():
    with silent_peer() as address:
        yield address


def expect_silence(ran, address):
    assert (ran.code, ran.out) == (EXIT_UNAVAILABLE, "")
    assert address in ran.err
    assert ran.err.count("\n") == 1


def test_check_ends_within_the_wait_of_the_settings(shardlog, silent, tmp_path):
    began_s = CLOCK.monotonic_s()
    ran = shardlog(
        *("worker", "--check", f"--set=root={tmp_path}", "--set=topics=a,b,c"),
        *("--set=kafka.bootstrap.servers=127.0.0.1:1", "--set=stream.value_format=avro"),
        *(f"--set=schema.registry.url=http://{silent}", "--set=schema.wait_s=0"),
    )
    expect_silence(ran, f"http://{silent}")
    assert "no answer in time" in ran.err
    assert CLOCK.monotonic_s() - began_s < CHECK_MAX_S


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("check", "order.v1.avsc"),
        ("register", "order.v1.avsc"),
    ],
)
def test_registry_is_named(shardlog, silent, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.v1.avsc").write_text('{"type": "record", "name": "Order", "fields": []}')
    few = ("--set", "timeout=0.05", "--set", "max.retries=1")
    ran = shardlog("schema", *command, "--registry", f"http://{silent}", *few)
    expect_silence(ran, f"http://{silent}")


@pytest.mark.parametrize("security", [(), ("--kafka=security.protocol=ssl",)])
def test_status_shows_the_shards_and_names_the_broker(shardlog, silent, tmp_path, security):
    origin = StreamOrigin("kafka", "orders", "id", "integer", "timestamp")
    Stream.create(tmp_path, "orders", StreamOptions(), origin=origin).close()
    began_s = CLOCK.monotonic_s()
    waits = ("--bootstrap", silent, "--broker-wait", "0.3")
    ran = shardlog("status", tmp_path, *waits, *security)
    assert silent in ran.err
    assert CLOCK.monotonic_s() - began_s < CHECK_MAX_S
