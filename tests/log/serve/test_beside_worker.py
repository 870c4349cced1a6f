"""The server beside a worker: it ends with the worker, and is started again if it dies."""

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from connectors.serve import server_child
from connectors.serve.server_child import ServerChild
from connectors.serve.server_process import prepare_process
from connectors.settings.serve_settings import WorkerServeSettings
from storage_core import (
    InvalidRequestError,
    ShardlogError,
    StreamReader,
    SystemClock,
    UnavailableError,
    list_streams,
)
from tests.children import START_MAX_S, start_talking_child
from tests.log.workbench import Workbench
from tests.waiting import await_that

HERE = Path(__file__).parent
ANY = "127.0.0.1:0"
TLS = {"tls_cert": HERE / "certificate.pem", "tls_key": HERE / "key.pem"}


class Lines:
    """The lines that a worker would log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))

    warning = info

    def of(self, event: str) -> list[dict[str, Any]]:
        return [values for name, values in self.lines if name == event]


@contextmanager
def beside(
    root: Path, lines: Lines | None = None, *, has_page: bool = True, **section: Any
) -> Iterator[ServerChild]:
    settings = WorkerServeSettings(**{"listen": ANY, **section})
    child = ServerChild(root, settings, "1.2.3", SystemClock(), lines or Lines(), has_page=has_page)
    try:
        await_that(lambda: child.state.is_running, "a server that answers")
        yield child
    finally:
        child.close()


def rows_at(child: ServerChild, name: str) -> int:
    with StreamReader.open(f"shardlog://{child.address}", name) as reader:
        return reader.read().num_rows


def test_server_that_dies_is_started_again_at_the_same_address(bench: Workbench) -> None:
    bench.keep(range(5))
    lines = Lines()
    with beside(bench.root, lines) as child:
        assert rows_at(child, bench.name) == 5
        address, pid = child.address, child.state.pid
        os.kill(pid, signal.SIGKILL)
        await_that(lambda: child.state.restarts == 1, "a death that is counted")
        await_that(lambda: child.state.is_running, "a server that answers again")
        assert (child.address, child.state.pid == pid) == (address, False)
        assert rows_at(child, bench.name) == 5
        (died,) = lines.of("server died, starting it again")
        assert (died["times"], died["reason"]) == (1, "the process ended with -9")
        assert len(lines.of("serving")) == 2


@pytest.mark.parametrize(("has_page", "status"), [(True, 200), (False, 404)])
def test_server_has_the_page_unless_the_worker_is_told_to_leave_it_out(
    bench: Workbench, *, has_page: bool, status: int
) -> None:
    with beside(bench.root, has_page=has_page) as child:
        connection = HTTPConnection(child.address, timeout=START_MAX_S)
        connection.request("GET", "/")
        assert connection.getresponse().status == status
        connection.close()


@pytest.fixture
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that says nothing for a second or two be taken for one that stands still."""
    monkeypatch.setattr(server_child, "_ASKED_EVERY_S", 0.2)
    monkeypatch.setattr(server_child, "_ANSWER_MAX_S", 1.0)
    monkeypatch.setattr(server_child, "_UNANSWERED_MAX", 2)


@pytest.mark.parametrize("section", [{}, TLS], ids=["plain", "tls"])
@pytest.mark.usefixtures("asked_often")
def test_server_that_stands_still_is_killed_and_started_again(
    bench: Workbench, section: dict[str, Any]
) -> None:
    lines = Lines()
    with beside(bench.root, lines, **section) as child:
        pid = child.state.pid
        os.kill(pid, signal.SIGSTOP)
        await_that(lambda: not child.state.is_running, "a silence that is told")
        await_that(lambda: child.state.restarts > 0, "a server that is killed")
        await_that(lambda: child.state.is_running, "a server that answers again")
        assert child.state.pid != pid
        assert "did not answer" in lines.of("server died, starting it again")[0]["reason"]


def test_server_that_stands_still_while_it_starts_is_killed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(*arguments, **options)
        process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(server_child, "Popen", unhindered)
        return process

    def unhindered(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        monkeypatch.undo()
        return subprocess.Popen(*arguments, **options)

    monkeypatch.setattr(server_child, "_START_MAX_S", 0.2)
    monkeypatch.setattr(server_child, "Popen", stopped)
    bench.keep([1])
    with beside(bench.root) as child:
        assert (child.state.restarts, rows_at(child, bench.name)) == (1, 1)


@pytest.mark.usefixtures("asked_often")
def test_server_that_answers_again_goes_on(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_child, "_UNANSWERED_MAX", 10_000)
    bench.keep([1])
    with beside(bench.root) as child:
        pid = child.state.pid
        os.kill(pid, signal.SIGSTOP)
        await_that(lambda: not child.state.is_running, "a silence that is told")
        os.kill(pid, signal.SIGCONT)
        await_that(lambda: child.state.is_running, "an answer")
        assert (child.state.restarts, child.state.pid) == (0, pid)
        assert rows_at(child, bench.name) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_of_the_whole_group_leaves_a_server_alone_that_starts(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def started(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        monkeypatch.undo()
        process = subprocess.Popen(*arguments, **options)
        process.send_signal(number)
        return process

    bench.keep([1])
    monkeypatch.setattr(server_child, "Popen", started)
    with beside(bench.root) as child:
        os.kill(child.state.pid, number)
        assert (child.state.restarts, rows_at(child, bench.name)) == (0, 1)


def test_what_the_start_of_python_prints_is_no_answer_of_the_server(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.keep([1])
    (tmp_path / "sitecustomize.py").write_text('print("hello")\nprint("[1]")\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with beside(bench.root) as child:
        assert rows_at(child, bench.name) == 1


def test_root_that_is_not_there_yet_has_no_streams_until_the_worker_makes_some(
    tmp_path: Path,
) -> None:
    root = tmp_path / "a" / "root"
    with beside(root) as child:
        assert list_streams(f"shardlog://{child.address}") == []
        bench = Workbench(root, "rides")
        bench.keep([1, 2])
        assert list_streams(f"shardlog://{child.address}") == [bench.name]
        bench.close()


def test_address_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(UnavailableError, match=f"serve.listen: {address} cannot be had"),
            beside(tmp_path, listen=address),
        ):
            pass


@pytest.mark.parametrize(
    "section",
    [
        {"read_token_file": "/nowhere/tokens"},
        {"tls_cert": "/nowhere/c.pem", "tls_key": "/nowhere/k.pem"},
        {"listen": "nowhere.invalid:0", "anonymous": True},
    ],
)
def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, section: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError), beside(tmp_path, **section):
        pass


@pytest.mark.parametrize("is_frozen", [False, True], ids=["answering", "frozen"])
def test_server_ends_with_a_worker_that_is_killed(bench: Workbench, *, is_frozen: bool) -> None:
    bench.keep([1])
    process, connection = start_talking_child(_have_one, bench.root)
    assert connection.poll(START_MAX_S)
    host, port, pid = connection.recv()
    if is_frozen:
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    process.join(START_MAX_S)

    def is_free() -> bool:
        with suppress(OSError), socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((host, port))
            return not Path(f"/proc/{pid}").exists()
        return False

    await_that(is_free, "an address that is free")


def test_server_whose_worker_is_gone_before_it_says_what_to_serve_ends_without_a_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = subprocess.run(
            [sys.executable, "-m", "connectors.serve.server_process", str(listener.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(listener.fileno(),),
            capture_output=True,
            check=False,
            timeout=START_MAX_S,
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_end_of_the_worker_is_not_held_up_by_a_server_that_stands_still(
    bench: Workbench,
) -> None:
    bench.keep([1])
    with beside(bench.root) as child:
        pid = child.state.pid
        os.kill(pid, signal.SIGSTOP)
    await_that(lambda: not Path(f"/proc/{pid}").exists(), "a server that is gone")


def _have_one(asker: Connection, root: Path) -> None:
    try:
        with beside(root) as child:
            host, _, port = child.address.rpartition(":")
            asker.send((host, int(port), child.state.pid))
            asker.recv()
    except (EOFError, ShardlogError):
        pass


def test_collector_of_a_server_leaves_out_what_was_there_at_its_start() -> None:
    process, connection = start_talking_child(_prepared)
    assert connection.poll(START_MAX_S), "the process does not start"
    left_out, walked = connection.recv()
    process.join()
    assert walked < left_out / 5


def _prepared(asker: Connection) -> None:
    prepare_process()
    asker.send((gc.get_freeze_count(), len(gc.get_objects())))
