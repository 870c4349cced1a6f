"""Goal: whatever is sent, each front end answers with one status and goes on; nothing is a bug.

Commands of every form are mutated: characters changed, cut, doubled and moved between commands. By
WebSocket come those that the language is tried by; `make faults KIND=commands` sends 20,000 there.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.events.front_ends.doors import lines_of, posted
from tests.events.front_ends.test_doors import FORMS
from tests.events.front_ends.test_websocket import Client, client_of
from tests.thin import rounds
from tests.unit.typed_events.language.test_fuzz import SEED, command_text
from typed_events.answer import Status

ROUNDS = 250
# By WebSocket, so many of them before an answer is read.
COMMANDS = rounds("SHARDLOG_FAULT_COMMANDS", few=400, many=20_000)
AT_ONCE = 16
MARKS = [
    '"',
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    "\\",
    "\0",
    "é",
    " NOT ",
    " WHERE ",
    "9" * 30,
    "\n",
    ",",
]
STATUSES = {str(status) for status in Status} - {"InternalError"}  # fmt: skip


def mutated(seed: int) -> Iterator[str]:
    """Yield commands that are mostly none."""
    chance = Random(seed)
    for _ in range(ROUNDS):
        text = chance.choice(FORMS)
        for _ in range(chance.randrange(1, 5)):
            place = chance.randrange(len(text) + 1)
            match chance.randrange(4):
                case 0:
                    text = text[:place] + chance.choice(MARKS) + text[place:]
                case 1:
                    text = text[:place] + text[place + chance.randrange(1, 9) :]
                case 2:
                    other = chance.choice(FORMS)
                    text = text[:place] + other[chance.randrange(len(other)) :]
                case 3:
                    text = text[:place] + text[max(0, place - 9) :]
        yield text


def test_mutated_commands_over_http_have_a_status(served, capfd) -> None:
    for text in mutated(1):
        code, body, _ = posted(served, text)
        said = json.loads(body)
        assert code < 500 or code == 503, (text, said)
        assert said["status"] in STATUSES, (text, said)
        assert "\n" not in said["message"], (text, said)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("place", ["tcp", "unix"])
def test_mutated_commands_by_line_are_each_answered(served, place, capfd) -> None:
    with lines_of(served, place) as lines:
        for text in mutated(2):
            line = " ".join(text.splitlines())
            if not line.strip():
                continue
            reply = lines.ask(line)
            assert reply, line
            assert reply[-1].partition(":")[0] in STATUSES, (line, reply)
        assert lines.ask("PING") == ["OK: PONG"]
    assert "Traceback" not in capfd.readouterr().err


def answers_to(client: Client, texts: list[str]) -> list[dict[str, Any]]:
    """Return the answers to messages that are all sent before one is read."""
    for text in texts:
        client.socket.send(text)
    answers = (one for one in client.messages() if "event" not in one)
    return [next(answers) for _ in texts]


def test_random_commands_by_websocket_are_each_answered(served, capfd) -> None:
    with client_of(served) as client:
        for first in range(0, COMMANDS, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, COMMANDS))
            texts = [sendable(command_text(Random(f"{SEED} {number}"))) for number in numbers]
            answers = answers_to(client, texts)
            for number, answer in zip(numbers, answers, strict=True):
                assert answer["status"] in STATUSES, (number, answer)
                assert "\n" not in answer["message"], (number, answer)
                assert answer["count"] == len(answer["rows"]), (number, answer)
            begun = [answer["subscription"] for answer in answers if "subscription" in answer]
            ends = answers_to(client, [f"UNSUBSCRIBE {number}" for number in begun])
            assert {end["status"] for end in ends} <= {"OK", "NotFound"}, ends
            assert client.ask("PING")["message"] == "PONG", first
    assert "Traceback" not in capfd.readouterr().err


def sendable(text: str) -> str:
    """Return a text without halves of characters, which no message of text has."""
    return text.encode("utf-8", "replace").decode()


def test_bytes_that_are_no_text_hurt_nobody(served) -> None:
    chance = Random(3)
    for _ in range(100):
        assert posted(served, chance.randbytes(chance.randrange(1, 60)))[0] == 400
    with lines_of(served) as lines:
        for _ in range(100):
            line = chance.randbytes(chance.randrange(1, 60)).replace(b"\n", b"")
            if line.strip():
                assert lines.ask(line)[-1].startswith("BadRequest: ")
