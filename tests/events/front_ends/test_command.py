"""`shardlog command`: where commands come from, how answers are printed, and the exit code."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.events.front_ends.doors import commanding
from tests.log.serve.served import ANSWER_MAX_S

DEFINE = 'DEFINE order FIELDS { amount: "int" }'
STORE = 'STORE order FOR c-1 PAYLOAD {"amount": 5}'
_PROGRAM = str(Path(sys.executable).with_name("shardlog"))


class _Input(io.TextIOWrapper):
    """Standard input that is piped."""

    def __init__(self, text: str) -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8")


@pytest.fixture
def piped(monkeypatch):
    return lambda text: monkeypatch.setattr(sys, "stdin", _Input(text))


def test_commands_of_arguments_and_of_standard_input_are_done_in_order(
    tmp_path, shardlog, piped
) -> None:
    piped(f"{STORE};\n{STORE}\n")
    ran = shardlog("command", tmp_path / "log", DEFINE, f"{STORE}; FLUSH", "-", "PING")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "defined order version 1",
        *("stored at 0:0", "all is durable", "stored at 0:1", "stored at 0:2", "PONG"),
    ]


def test_lines_of_store_are_counted_and_refused_ones_told(tmp_path, shardlog, piped) -> None:
    shardlog("command", tmp_path, DEFINE)
    piped(f"{STORE}\n{STORE.replace('5', '1.5')}\n{STORE}\n")
    ran = shardlog("command", tmp_path)
    assert (ran.code, len(ran.lines)) == (2, 2)
    assert ran.err.startswith("shardlog: BadRequest: 2 of 3 commands done; line 2: ")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("PING", 0),
        ("NOPE", 2),
        ("DESCRIBE nothing", 2),
        (f"{STORE} EXPECT 7", 9),
        ("", 2),
    ],
)
def test_exit_code_says_how_it_went_and_a_failure_is_one_line(
    tmp_path, shardlog, text, code
) -> None:
    shardlog("command", tmp_path, DEFINE)
    ran = shardlog("command", tmp_path, text)
    assert (ran.code, len(ran.err.splitlines())) == (code, int(code > 0))


def test_command_that_fails_is_the_last_one(tmp_path, shardlog) -> None:
    ran = shardlog("command", tmp_path, DEFINE, "NOPE", STORE)
    assert (ran.code, ran.lines) == (2, ["defined order version 1"])
    assert shardlog("command", tmp_path, STORE).lines == ["stored at 0:0"]


def test_answer_is_printed_in_each_format(tmp_path, shardlog) -> None:
    shardlog("command", tmp_path, DEFINE)
    said = {
        form: shardlog("command", tmp_path, "DESCRIBE order", "--format", form).out
        for form in ("table", "json", "jsonl", "csv")
    }
    assert said["table"].splitlines()[0].split() == ["version", "field", "type", "defined"]
    assert json.loads(said["json"])["count"] == 1
    assert json.loads(said["jsonl"])["field"] == "amount"
    assert said["csv"].splitlines()[0] == "version,field,type,defined"
    defined = json.loads(said["jsonl"])["defined"]
    assert defined.endswith("Z")
    assert defined in said["csv"]
    assert defined in said["table"]


def test_arrow_goes_through_a_pipe_from_a_server_too(tmp_path, shardlog) -> None:
    with commanding(tmp_path) as served:
        server = served.server.address
        assert shardlog("command", DEFINE, "--server", server).code == 0
        command = [_PROGRAM, "command", "--server", server, "DESCRIBE order", "--format", "arrow"]
        ran = subprocess.run(command, capture_output=True, timeout=ANSWER_MAX_S, check=True)
    assert pa.ipc.open_stream(ran.stdout).read_all().column("field").to_pylist() == ["amount"]


def test_root_that_a_server_owns_is_told_to_be_busy(tmp_path, shardlog) -> None:
    shardlog("command", tmp_path, DEFINE)
    with commanding(tmp_path) as served:
        assert served.post("/command", STORE.encode())[0] == 200
        ran = shardlog("command", tmp_path, STORE)
        assert (ran.code, len(ran.err.splitlines())) == (3, 1)
        assert shardlog("command", "--server", served.server.address, STORE).code == 0


@pytest.mark.parametrize(
    ("servers", "code", "said"),
    [("127.0.0.1:1", 3, "connection refused"), ("a:1,b:1", 2, "one server"), ("u@a:1", 2, "token")],
)
def test_server_that_cannot_be_asked_is_one_line(shardlog, servers, code, said) -> None:
    ran = shardlog("command", "--server", servers, "PING")
    assert (ran.code, len(ran.err.splitlines())) == (code, 1)
    assert said in ran.err


def test_token_is_taken_from_the_environment(tmp_path, shardlog, monkeypatch) -> None:
    (tmp_path / "tokens").write_text("write-token-of-tests")
    with commanding(tmp_path / "root", write_tokens=tmp_path / "tokens") as served:
        server = served.server.address
        refused = shardlog("command", "--server", server, "PING")
        assert (refused.code, "asks for a token" in refused.err) == (2, True)
        monkeypatch.setenv("SHARDLOG_SERVER_TOKEN_FILE", str(tmp_path / "tokens"))
        assert shardlog("command", "--server", server, DEFINE).code == 0
