"""What a server is told about commands: on its command line, and beside a worker."""

import json
import socket
from http.client import HTTPConnection

import pytest
from pydantic import ValidationError

from connectors.serve import server_child
from connectors.serve.settings import remembered, settings_beside_worker
from connectors.settings.serve_settings import WorkerServeSettings
from storage_core.roots import make_root
from tests.events.front_ends.doors import commanding, posted
from tests.log.serve.served import ANSWER_MAX_S
from tests.log.serve.test_beside_worker import beside
from tests.log.topics import NAME, TopicCopy
from tests.waiting import await_that

COMMANDS = (
    'DEFINE order FIELDS { amount: "int" }',
    *(f'STORE order FOR c-1 PAYLOAD {{"amount": {n}}}' for n in range(5)),
    "REMEMBER QUERY order AS all_orders",
)


def test_show_answers_with_no_more_rows_than_the_server_is_told(tmp_path) -> None:
    with commanding(tmp_path, remembered=remembered(2, 0)) as served:
        for command in COMMANDS:
            assert posted(served, command)[0] == 200
        answer = json.loads(posted(served, "SHOW all_orders")[1])
        assert [row["amount"] for row in answer["rows"]] == [3, 4]


def test_server_beside_a_worker_takes_a_command_a_line(tmp_path) -> None:
    place = tmp_path / "commands"
    with beside(tmp_path / "root", command_socket=place), socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(ANSWER_MAX_S)
        sock.connect(str(place))
        sock.sendall(b"PING\n")
        assert sock.makefile("rb").readline() == b"OK: PONG\n"


def test_section_of_a_worker_is_what_its_server_is_told(tmp_path) -> None:
    section = WorkerServeSettings(
        listen="127.0.0.1:0",
        command_listen="127.0.0.1:8086",
        command_socket=tmp_path / "commands",
        remembered_rows_max=7,
        remembered_hours_max=1.5,
    )
    settings = settings_beside_worker(tmp_path, section)
    assert (settings.command_listen, settings.command_socket, settings.remembered) == (
        "127.0.0.1:8086",
        tmp_path / "commands",
        remembered(7, 1.5),
    )
    assert (
        settings_beside_worker(tmp_path, WorkerServeSettings(listen="127.0.0.1:0")).command_listen
        is None
    )


def test_lines_of_a_worker_are_of_this_machine_alone() -> None:
    with pytest.raises(ValidationError, match=r"command_listen: 0\.0\.0\.0:1 can be reached"):
        WorkerServeSettings(listen="127.0.0.1:0", command_listen="0.0.0.0:1")


def test_status_beside_a_worker_tells_the_lag_that_the_worker_knows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(server_child, "_ASKED_EVERY_S", 0.2)
    root = tmp_path / "root"
    make_root(root)
    TopicCopy(root).stream.close()
    with beside(root) as child:
        assert lags_at(child.address) == {NAME: None}
        child.lags = lambda: {NAME: 42, "another": 1}
        await_that(lambda: lags_at(child.address) == {NAME: 42}, "the lag that the worker tells")


def lags_at(address: str) -> dict[str, int | None]:
    connection = HTTPConnection(address, timeout=ANSWER_MAX_S)
    try:
        connection.request("GET", "/status")
        streams = json.loads(connection.getresponse().read())["streams"]
        assert [entry["kind"] for entry in streams] == ["kafka"]
        return {entry["name"]: entry["lag"] for entry in streams}
    finally:
        connection.close()
