"""Random and mutated commands: each is a command, or refused in one line.

Each text is made of the forms: pieces of several put together, words taken out, doubled, swapped,
misspelt, characters put in. A seed and a number make one, so that a failure comes back.

`make faults KIND=commands` tries 20,000, or N; a run of all tests a few of them.
"""

import re
from random import Random

from tests.thin import rounds
from tests.unit.typed_events.language.forms import FORMS
from typed_events.errors import CommandError
from typed_events.language.parse import parse_commands

COMMANDS = rounds("SHARDLOG_FAULT_COMMANDS", few=2000, many=20_000)
SEED = 38
FORM_TEXTS = tuple(FORMS)
PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.:/@-]+|\s+|.', re.DOTALL)
ODD = (
    *('"', "'", "\\", "\x00", "\n", "\ud800", "é", "𝄞", ";", "(", ")", "[", "]", "{", "}", ","),
    *("null", "NaN", "-1", "1e999", "9" * 30, "0x1F", "*", "--", "NOT", "AND", "=", "<>", "LIMIT"),
    *("\u2028", "\xa0", "\\u0000", '"\\ud800"', "%s", "${x}", "a" * 2000, "(" * 200, "[" * 200),
)


def command_text(random: Random) -> str:
    """Return a text that looks like commands."""
    pieces = PIECE.findall(random.choice(FORM_TEXTS))
    for _ in range(random.randrange(5)):
        place = random.randrange(len(pieces) + 1)
        other = PIECE.findall(random.choice(FORM_TEXTS))
        start = random.randrange(len(other))
        match random.randrange(6):
            case 0:
                del pieces[place : place + random.randrange(1, 4)]
            case 1:
                pieces[place:place] = other[start : start + random.randrange(1, 8)]
            case 2:
                pieces[place:] = other[start:]
            case 3:
                pieces.insert(place, random.choice(ODD))
            case 4 if pieces:
                pieces[place % len(pieces)] = misspelt(pieces[place % len(pieces)], random)
            case _:
                pieces[place:place] = pieces[place - 3 : place]
    return "".join(pieces)


def misspelt(word: str, random: Random) -> str:
    """Return a word with a character gone, put in or changed."""
    place = random.randrange(len(word) + 1)
    return word[:place] + random.choice(["", "x", *ODD[:8]]) + word[place + random.randrange(2) :]


def test_random_command_is_read_or_refused_in_one_line() -> None:
    refused = 0
    for number in range(COMMANDS):
        text = command_text(Random(f"{SEED} {number}"))
        try:
            parse_commands(text)
        except CommandError as error:
            refused += 1
            line = str(error)
            assert line.isprintable(), (number, text)
            assert 10 < len(line) < 600, (number, text)
        except BaseException as error:
            message = f"command {number} of seed {SEED}: {text!r}"
            raise AssertionError(message) from error
    assert COMMANDS / 10 < refused < COMMANDS * 9 / 10
