"""The small parts of the dev stack: JVM, ports, settings, answers, waiting, state, compose file."""

import os
import shutil
import socket
import struct
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from connectors.dev_stack.answers import is_broker_answering, is_registry_answering, is_serving
from connectors.dev_stack.broker_settings import server_properties
from connectors.dev_stack.child import start_guarded
from connectors.dev_stack.file_lock import locked
from connectors.dev_stack.java import find_java, java_version
from connectors.dev_stack.ports import first_ephemeral_port, free_ports, is_free
from connectors.dev_stack.process import Process
from connectors.dev_stack.stack import DevStack
from connectors.dev_stack.startup import PortTakenError, await_answer
from connectors.dev_stack.state import Service, read_state, write_state
from storage_core import InvalidRequestError, UnavailableError

COMPOSE_FILE = Path(__file__).parents[3] / "docker-compose.yml"
GONE = Process(os.getpid(), 0)


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_java_version_is_read_from_what_java_prints(text, version):
    assert java_version(text) == version


def test_java_home_comes_first_and_old_ones_are_passed_over(tmp_path):
    fake_java(tmp_path / "old", "11.0.1")
    new = fake_java(tmp_path / "jvm" / "new", "21.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}
    assert find_java(environment, tmp_path / "jvm") == new


def test_missing_jvm_is_one_line_with_the_remedy(tmp_path):
    fake_java(tmp_path / "old", "1.8.0_392")
    with pytest.raises(InvalidRequestError, match=r"version 17 .* version 8: install one") as told:
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}, tmp_path / "none")
    assert "\n" not in str(told.value)


def test_free_ports_differ_and_lie_below_those_of_outgoing_connections():
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(20_000 <= port < first_ephemeral_port(Path("/no/such")) for port in ports)


def test_port_in_use_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_range_that_leaves_no_quiet_ports_is_not_followed(tmp_path):
    (tmp_path / "range").write_text("1024\t60999\n")
    assert first_ephemeral_port(tmp_path / "range") == 32_768


def test_extra_properties_win():
    text = server_properties((1, 2), Path("/d"), {"num.partitions": "3", "compression.type": "lz4"})
    lines = text.splitlines()
    assert "num.partitions=3" in lines
    assert "compression.type=lz4" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2" in lines
    assert len({line.partition("=")[0] for line in lines}) == len(lines)


def metadata(brokers: int, controller: int) -> bytes:
    one = struct.pack(">ih4sih", 1, 4, b"host", 9092, -1)
    return struct.pack(">ii", 1, brokers) + one * brokers + struct.pack(">ii", controller, 0)


def test_broker_serves_once_it_names_itself_and_a_controller():
    assert is_serving(metadata(1, 1))
    assert is_serving(metadata(2, 1))
    assert not is_serving(metadata(0, 1))
    assert not is_serving(metadata(1, -1))


def test_nobody_answers_at_a_closed_port():
    (port,) = free_ports(1)
    assert not is_broker_answering(f"127.0.0.1:{port}")
    assert not is_registry_answering(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("logged", "error"),
    [
        ("java.net.BindException: Address already in use", PortTakenError),
        ("FATAL no such setting", UnavailableError),
    ],
)
def test_server_that_ends_while_it_starts_is_quoted(tmp_path, logged, error):
    log = tmp_path / "log"
    command = [str(shutil.which("sh")), "-c", f"echo {logged}; exit 1"]
    server = start_guarded(command, log=log, scratch=None, owner=Process.current())
    with pytest.raises(UnavailableError, match=rf"ended while it started: {logged}.*log") as told:
        await_answer("broker", server.program, log, lambda: False)
    assert type(told.value) is error


def test_server_that_never_answers_is_ended(tmp_path):
    log = tmp_path / "log"
    command = [str(shutil.which("sleep")), "60"]
    server = start_guarded(command, log=log, scratch=None, owner=Process.current())
    with pytest.raises(UnavailableError, match="did not answer within 0 s"):
        await_answer("broker", server.program, log, lambda: False, timeout_s=0.1)
    assert not server.program.is_alive()


def test_state_is_read_as_it_was_written(tmp_path):
    services = {"broker": Service("127.0.0.1:1", Process(2, 3), tmp_path / "broker")}
    write_state(tmp_path, services)
    assert read_state(tmp_path) == services
    assert read_state(tmp_path / "none") == {}


@pytest.mark.parametrize("text", ["", "[]", '{"broker": {}}', '{"broker": 1}'])
def test_record_that_is_not_ours_is_refused_by_name(tmp_path, text):
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(InvalidRequestError, match=r"stack\.json"):
        read_state(tmp_path)


def test_stack_forgets_what_is_gone_and_removes_its_data(tmp_path):
    (tmp_path / "broker").mkdir()
    write_state(tmp_path, {"broker": Service("127.0.0.1:1", GONE, tmp_path / "broker")})
    stack = DevStack(tmp_path, environment={})
    assert stack.services() == {}
    assert stack.stop() == {}
    assert not (tmp_path / "broker").exists()


def test_named_servers_replace_those_of_the_stack(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        given = {"KAFKA_BOOTSTRAP": address, "SCHEMA_REGISTRY_URL": f"http://{address}/x"}
        stack = DevStack(tmp_path, environment=given)
        assert stack.broker() == address
        assert stack.registry() == f"http://{address}/x"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["127.0.0.1:1", "nowhere"])
def test_named_broker_that_cannot_be_reached_is_told_by_its_variable(tmp_path, given):
    stack = DevStack(tmp_path, environment={"KAFKA_BOOTSTRAP": given})
    with pytest.raises((UnavailableError, InvalidRequestError), match=f"KAFKA_BOOTSTRAP={given}"):
        stack.broker()


def test_lock_is_waited_for_only_so_long(tmp_path):
    path = tmp_path / "lock"
    with (
        locked(path, "fetching", 1),
        pytest.raises(UnavailableError, match="fetching: another process"),
        locked(path, "fetching", 0.1),
    ):
        pass


def test_compose_file_pins_its_images_and_checks_their_health():
    services = YAML(typ="safe").load(COMPOSE_FILE)["services"]
    assert set(services) == {"kafka", "registry", "worker"}
    for service in services.values():
        name, _, tag = service["image"].partition(":")
        assert name
        assert tag[0].isdigit()
        assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert services["kafka"]["image"] == "apache/kafka:4.1.1"
    assert "shardlog worker --config" in services["worker"]["command"][-1]
    assert services["worker"]["depends_on"]["kafka"]["condition"] == "service_healthy"
