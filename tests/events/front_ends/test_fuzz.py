"""Goal: whatever is sent, each front end answers with one status and goes on; nothing is a bug.

Commands of every form are mutated: characters changed, cut, doubled and moved between commands.
"""

import json
from collections.abc import Iterator
from random import Random

import pytest

from tests.events.front_ends.doors import lines_of, posted
from tests.events.front_ends.test_doors import FORMS
from typed_events.answer import Status

ROUNDS = 250
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


def test_bytes_that_are_no_text_hurt_nobody(served) -> None:
    chance = Random(3)
    for _ in range(100):
        assert posted(served, chance.randbytes(chance.randrange(1, 60)))[0] == 400
    with lines_of(served) as lines:
        for _ in range(100):
            line = chance.randbytes(chance.randrange(1, 60)).replace(b"\n", b"")
            if line.strip():
                assert lines.ask(line)[-1].startswith("BadRequest: ")
