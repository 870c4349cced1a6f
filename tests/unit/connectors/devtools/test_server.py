"""The small parts of a server: JVM, ports, the broker's settings, waiting for an answer."""

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from connectors.devtools import ports
from connectors.devtools.broker import is_broker_answering
from connectors.devtools.java import find_java, java_version
from connectors.devtools.ports import free_ports, is_free
from connectors.devtools.registry import is_registry_answering
from connectors.devtools.server import PortTakenError, Server, ServerKind
from storage_core import InvalidRequestError, UnavailableError
from tests.unit.forks import in_fork


@pytest.fixture
def java_home(tmp_path, monkeypatch):
    """Makes homes of JVMs that say a version; `old` is $JAVA_HOME, and none is on PATH."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "")

    def make(name, says):
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
        java.chmod(0o755)
        return java

    return make


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_java_version_is_read_from_what_java_prints(java_home, says, version):
    assert java_version(java_home("any", says)) == version


def test_java_home_comes_first_and_old_ones_are_passed_over(java_home, tmp_path):
    java_home("old", 'openjdk version "11.0.1"')
    new = java_home("jvm/new", 'openjdk version "21.0.1"')
    assert find_java(tmp_path / "jvm") == new


def test_missing_jvm_is_one_line_with_the_remedy(java_home, tmp_path):
    java_home("old", 'java version "1.8.0_392"')
    with pytest.raises(
        InvalidRequestError, match=r"version 17 .* version 8: install one"
    ) as raised:
        find_java(tmp_path / "none")
    assert "\n" not in str(raised.value)


def test_port_that_was_given_out_is_given_to_nobody_else(monkeypatch):
    (port,) = free_ports(1)
    assert is_free(port)
    monkeypatch.setattr(ports, "_PORTS", range(port, port + 1))
    with pytest.raises(UnavailableError, match="no 1 free ports"):
        free_ports(1)
    assert isinstance(in_fork(lambda: free_ports(1)), UnavailableError)


def test_registry_is_asked_without_the_proxy_of_the_environment(monkeypatch):
    (closed,) = free_ports(1)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed}")
    monkeypatch.delenv("no_proxy", raising=False)

    def answer(server: socket.socket) -> None:
        caller, _ = server.accept()
        with caller:
            caller.recv(1024)
            caller.sendall(b"HTTP/1.0 200 OK\r\n\r\n[]")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(60)
        answering = pool.submit(answer, server)
        assert is_registry_answering(f"http://127.0.0.1:{server.getsockname()[1]}")
        answering.result()


@pytest.mark.parametrize("address", ["", "nowhere", "no:where"])
def test_nobody_answers_at_what_is_no_address(address):
    assert not is_broker_answering(address)
    assert not is_registry_answering(address)


def shell(script: str, **options) -> ServerKind:
    """A server that never answers."""
    command = [str(shutil.which("sh")), "-c", script]
    return ServerKind(
        "broker", "V", "{}", lambda _server, _ports: command, lambda _address: False, **options
    )


@pytest.mark.parametrize(
    ("logged", "error", "tries"),
    [
        ("java.net.BindException: Address already in use", PortTakenError, 3),
        ("FATAL no such setting", UnavailableError, 1),
    ],
)
def test_server_that_ends_while_it_starts_is_quoted(tmp_path, logged, error, tries):
    server = Server(shell(f"echo {logged}; exit 1"), tmp_path)
    with pytest.raises(UnavailableError, match=rf"ended while it started: {logged}.*log") as raised:
        server.start()
    assert type(raised.value) is error
    assert server.log.read_text().count(logged) == tries


def test_server_that_never_answers_is_ended(tmp_path):
    server = Server(shell("sleep 600", start_max_s=0.1), tmp_path)
    with pytest.raises(UnavailableError, match="did not answer within 0 s"):
        server.start()
    assert server.running is not None
    assert not server.running.program.is_alive()
