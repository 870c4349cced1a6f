"""docs/OPERATIONS.md is what an operator reads: five chapters, and commands that there are."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from connectors.cli.main import app
from connectors.cli.parsing.table import LazyCommand
from tests.tidy.documents.tables import page, rows_below
from tests.tidy.test_readme import unknown_words

CHAPTERS = ["Start", "Configure", "Watch", "Act", "Upgrade"]
PAGES = ["COMMANDS.md", "CONFIGURATION.md", "DEAD_LETTERS.md", "OPERATIONS.md"]
# `shardlog dlq list ROOT [STREAM]`; what follows `...` or `|` is another command.
INLINE = re.compile(r"`shardlog ([^`|…]+?)`")
COUNTERPARTS = {
    "Kafka's tool": [
        *("--list", "--describe", "--members", "--verbose", "--state", "--offsets", "--all-groups"),
        *("--topic", "--all-topics", "--reset-offsets", "--to-earliest", "--to-latest"),
        *("--to-offset", "--to-datetime", "--shift-by", "--by-duration", "--to-current"),
        *("--dry-run", "--execute", "--export", "--from-file", "--delete", "--delete-offsets"),
        *("--timeout", "--bootstrap-server", "--command-config"),
    ],
    "Kafka Connect": ["pause", "resume", "restart", "status", "errors.tolerance=all"],
    "Burrow": ["OK", "WARN", "ERR", "STOP", "STALL", "REWIND", "NOTFOUND"],
}


def test_page_has_five_chapters() -> None:
    assert re.findall(r"^## (.+)$", page("OPERATIONS.md"), re.MULTILINE) == CHAPTERS


@pytest.mark.parametrize("tool", COUNTERPARTS)
def test_each_means_of_another_tool_has_its_counterpart_or_a_reason(tool: str) -> None:
    rows = list(rows_below(tool, page("OPERATIONS.md")))
    theirs = " ".join(row[0] for row in rows)
    missing = [
        means
        for means in COUNTERPARTS[tool]
        if not re.search(rf"(?<![\w-]){means}(?![\w-])", theirs)
    ]
    assert missing == []
    assert [row for row in rows if not all(row)] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_command_within_a_sentence_is_one(name: str) -> None:
    commands = [shlex.split(text) for text in INLINE.findall(page(name))]
    assert commands
    unknown = {
        shlex.join(words): unknown_words([word for word in words if word != "--help"])
        for words in commands
    }
    assert {command: words for command, words in unknown.items() if words} == {}


def command_names(command: Any, before: str = "shardlog") -> Iterator[str]:
    """Yield each command with the words before it."""
    command = command.loaded() if isinstance(command, LazyCommand) else command
    if not hasattr(command, "commands"):
        yield before
    else:
        for name, inner in command.commands.items():
            yield from command_names(inner, f"{before} {name}")


def test_every_command_is_in_the_table_of_commands() -> None:
    names = [*command_names(typer.main.get_command(app))]
    assert len(names) > 30
    cells = [row[0] for row in rows_below("command", page("COMMANDS.md"))]
    missing = [name for name in names if not any(re.search(rf"`{name}\b", cell) for cell in cells)]
    assert missing == []
