"""A text of several commands: where each begins, whatever stands in it."""

import time
from random import Random

import pytest

from connectors.serve.commands.split_text import split_commands

STORE = 'STORE a FOR b PAYLOAD {"x": ";"}'
BATCH = f"BATCH [\n{STORE};\n{STORE}\n]"
FIELDS = "QUERY a WHERE\nshow = 1 AND\nstore IN (1)"


def split(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.text) for each in split_commands(text)]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("", []),
        (" ;;\n;", []),
        ("PING", [(1, "PING")]),
        ("PING; ping ;\n\nLIST TYPES;", [(1, "PING"), (1, "ping"), (3, "LIST TYPES")]),
        (f"{STORE}\n\n {STORE};\n", [(1, STORE), (3, STORE)]),
        (f"{STORE};{STORE}", [(1, STORE), (1, STORE)]),
        ('QUERY a\nWHERE x = ";"\n\nPING', [(1, 'QUERY a\nWHERE x = ";"'), (4, "PING")]),
        ("EXPLAIN\nQUERY a\nQUERY b", [(1, "EXPLAIN\nQUERY a"), (3, "QUERY b")]),
        (FIELDS, [(1, FIELDS)]),
        ('DEFINE a FIELDS {\nstore: "int"\n}', [(1, 'DEFINE a FIELDS {\nstore: "int"\n}')]),
        (f"{BATCH}\nPING", [(1, BATCH), (5, "PING")]),
        ('STORE a FOR b PAYLOAD {"x\nPING', [(1, 'STORE a FOR b PAYLOAD {"x'), (2, "PING")]),
        (f"{STORE}\nNOPE\n{STORE}", [(1, STORE), (2, "NOPE"), (3, STORE)]),
        (f"{STORE} \r\nEXPECT 1\nNOPE", [(1, f"{STORE} \r\nEXPECT 1\nNOPE")]),
        ("QUERY a WHERE x IN (1\nPING", [(1, "QUERY a WHERE x IN (1"), (2, "PING")]),
    ],
)  # fmt: skip
def test_command_ends_where_the_next_one_begins(text, commands) -> None:
    assert split(text) == commands


def test_nothing_is_lost_between_commands() -> None:
    chance = Random(7)
    pieces = ['"', "\\", ";", "\n", "[", "]", "{", "}", " ", "PING", "BATCH", "STORE x", "é", "a"]
    for _ in range(2_000):
        text = "".join(chance.choices(pieces, k=chance.randrange(40)))
        joined = "".join(each for _, each in split(text))
        for mark in (";", "\n", " "):
            joined, text = joined.replace(mark, ""), text.replace(mark, "")
        assert joined == text


@pytest.mark.parametrize(
    "unit", ['"', "[", "\n", " \n", '"\\', "STORE }\n", "BATCH [", " ", "\nPING"]
)
def test_time_is_in_proportion_to_the_text(unit) -> None:
    begun = time.process_time()
    split_commands(" " * 200_000 + unit * (400_000 // len(unit)))
    # A hundred times what it takes; in proportion to the square it would be minutes.
    assert time.process_time() - begun < 30
