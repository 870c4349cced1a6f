"""Who shares a directory shares its servers; those that the environment names come first."""

import os
import pwd
import re
import socket
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from connectors.devtools.broker import BROKER
from connectors.devtools.process import Process
from connectors.devtools.registry import REGISTRY
from connectors.devtools.stack import DevStack, Service, read_record, write_record
from storage_core import InvalidRequestError, UnavailableError

COMPOSE_FILE = Path(__file__).parents[4] / "docker-compose.yml"
GONE = Process(os.getpid(), 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"broker": {}}',
        '{"broker": 1}',
        '{"..": {"address": "", "process": {"pid": 1, "started": 1}}}',
    ],
)
def test_record_that_is_not_ours_is_refused_by_name(tmp_path, text):
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(InvalidRequestError, match=r"stack\.json"):
        read_record(tmp_path)


def test_stack_forgets_what_is_gone_and_removes_its_data(tmp_path):
    (tmp_path / "broker").mkdir()
    write_record(tmp_path, {"broker": Service("127.0.0.1:1", GONE)})
    stack = DevStack(tmp_path)
    assert stack.services() == {}
    assert stack.stop() == {}
    assert not (tmp_path / "broker").exists()


def test_servers_of_another_user_are_neither_used_nor_ended(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    write_record(tmp_path, {"broker": Service("127.0.0.1:1", Process.current())})
    (tmp_path / "broker").mkdir()
    stack = DevStack(tmp_path, user=os.geteuid() + 1)
    message = re.escape(
        f"127.0.0.1:1 is that of user {pwd.getpwuid(os.geteuid()).pw_name}: set SHARDLOG_STATE"
    )
    for use in (lambda: stack.address(BROKER), stack.stop):
        with pytest.raises(InvalidRequestError, match=message):
            use()
    assert (tmp_path / "broker").exists()
    assert stack.services() == DevStack(tmp_path).services() != {}


def test_named_servers_replace_those_of_the_stack(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("KAFKA_BOOTSTRAP", address)
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", f"http://{address}/x")
        stack = DevStack(tmp_path)
        assert stack.address(BROKER) == address
        assert stack.address(REGISTRY) == f"http://{address}/x"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["127.0.0.1:1", "nowhere", "no:where", "[::1:1", "no..where:1"])
def test_named_broker_that_cannot_be_reached_is_told_by_its_variable(tmp_path, monkeypatch, value):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", value)
    name = re.escape(f"KAFKA_BOOTSTRAP={value}")
    with pytest.raises((UnavailableError, InvalidRequestError), match=name):
        DevStack(tmp_path).address(BROKER)


def test_compose_file_pins_its_images_and_checks_their_health():
    services = YAML(typ="safe").load(COMPOSE_FILE)["services"]
    assert set(services) == {"kafka", "registry", "worker", "prometheus", "grafana"}
    for service in services.values():
        name, _, tag = service["image"].partition(":")
        assert name
        assert tag.removeprefix("v")[0].isdigit()
        assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert services["kafka"]["image"] == "apache/kafka:4.1.1"
    assert "shardlog worker --config" in services["worker"]["command"][-1]
    assert services["worker"]["depends_on"]["kafka"]["condition"] == "service_healthy"
