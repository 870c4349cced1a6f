"""The shell of `shardlog command`: lines to commands, completion, history, and a real terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.cli.commands.events.commander import LocalCommander
from connectors.cli.commands.events.shell import KEYWORDS, Shell, history_path
from connectors.serve.commands.split_text import VERBS
from tests.waiting import WAIT_MAX_S, await_that

DEFINE = 'DEFINE order FIELDS { amount: "int", note: "string" };'
# Who runs tests may ignore interrupts, and what it starts would, too.
_PROGRAM = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
_SHARDLOG = str(Path(sys.executable).with_name("shardlog"))


@pytest.fixture
def shell_of(tmp_path, capsys):
    """Return what runs a shell over lines, an error among them being raised in its place."""
    commanders = []

    def run(*lines: str | type[BaseException]) -> tuple[Shell, str, str]:
        left: Iterator[str | type[BaseException]] = iter((*lines, EOFError))

        def read_line(_prompt: str) -> str:
            line = next(left)
            if isinstance(line, str):
                return line
            raise line

        commanders.append(LocalCommander(tmp_path))
        shell = Shell(commanders[-1], "text", read_line)
        shell.run()
        printed = capsys.readouterr()
        return shell, printed.out, printed.err

    yield run
    for commander in commanders:
        commander.close()


def test_command_ends_at_its_semicolon_on_whichever_line(shell_of) -> None:
    _, out, err = shell_of("PING;", "", "DESCRIBE", "  nothing ;", "PING; PING;", "exit")
    assert out.splitlines() == ["PONG", "PONG", "PONG"]
    assert err.startswith("shardlog: NotFound: ")


def test_interrupt_gives_up_what_was_typed_and_not_the_shell(shell_of) -> None:
    _, out, err = shell_of("QUERY order", KeyboardInterrupt, "PING;")
    assert ("PONG" in out, err) == (True, "")


def test_help_and_the_end_need_no_semicolon(shell_of) -> None:
    assert "Ctrl-D" in shell_of("help")[1]
    assert shell_of("quit", "PING;")[1] == ""


@pytest.mark.parametrize(
    ("before", "choices"),
    [
        ("QUERY o", ["order"]),
        ("store ", ["order"]),
        ("QUERY order WHERE am", ["amount"]),
        ("QUERY order RETURN [no", ["note", "not"]),
        ("QUERY order WHERE contex", ["context_id"]),
        ("DESCR", ["DESCRIBE"]),
        ("descr", ["describe"]),
        ("QUERY nothing WHERE am", []),
    ],
)
def test_completion_knows_keywords_types_and_their_fields(shell_of, before, choices) -> None:
    shell, _, _ = shell_of(DEFINE)
    assert shell.complete(before) == choices


def test_every_verb_is_completed() -> None:
    assert {*VERBS} <= {*KEYWORDS}


def test_history_is_where_state_is_kept(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_path() == tmp_path / "shardlog/history"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_path() == tmp_path / ".local/state/shardlog/history"


def test_terminal_has_a_prompt_and_keeps_what_was_typed(tmp_path) -> None:
    controlling, controlled = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, _SHARDLOG, "command", str(tmp_path / "log")],
        stdin=controlled,
        stdout=controlled,
        stderr=controlled,
        env=environment,
    )
    os.close(controlled)
    try:
        read_until(controlling, rb"shardlog> ")
        os.write(controlling, b"PING;\n")
        read_until(controlling, rb"PONG\r\n.*shardlog> ")
        os.write(controlling, b"QUERY ")
        read_until(controlling, rb"QUERY $")
        # A signal between the echo and the wait for the next key is seen with that key only.
        await_that(lambda: is_asleep(process), "the shell waits for a key")
        process.send_signal(signal.SIGINT)
        read_until(controlling, rb"shardlog> $")
        os.write(controlling, b"\x04")
        assert process.wait(WAIT_MAX_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controlling)
    history = tmp_path / "state/shardlog/history"
    assert "PING;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def read_until(descriptor: int, pattern: bytes) -> None:
    """Read from a terminal until it shows something."""
    printed = b""
    while not re.search(pattern, printed, re.DOTALL):
        ready, _, _ = select.select([descriptor], [], [], WAIT_MAX_S)
        assert ready, printed
        printed += os.read(descriptor, 4096)


def is_asleep(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether the main thread of a process waits for something."""
    status = Path(f"/proc/{process.pid}/stat").read_text()
    return status.rpartition(")")[2].split()[0] == "S"
