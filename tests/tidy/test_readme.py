"""README.md and docs/PYTHON.md run: what they show in Python, and what they say that it prints.

Snippets are the fenced `python` blocks; those of a page run in order, in one interpreter. The
`text` block under "Read and tail" is what the program above it prints. The snippet for Spark is
run by tests/spark/test_example_programs.py. Commands in `sh` blocks are not run, but their commands
and options are there.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from connectors.cli.main import app
from connectors.cli.parsing.table import LazyCommand
from tests.tidy.tree import ROOT
from tests.waiting import WAIT_MAX_S

PROGRAM_LINES_MAX = 15
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"\$\(shardlog ([^)]*)\)|(?:^|\s)shardlog (.*)")
PAGES = ("README.md", "docs/PYTHON.md")
OF_COMMANDS = (
    *("README.md", "docs/DEAD_LETTERS.md", "docs/LAKE.md", "docs/OPERATIONS.md"),
    "docs/SCHEMAS.md",
)


def section(text: str, title: str) -> str:
    """Return what stands below a heading of the second or third level."""
    below = re.split(rf"^##+ {title}\n", text, maxsplit=1, flags=re.MULTILINE)[1]
    return re.split(r"^## |^### ", below, maxsplit=1, flags=re.MULTILINE)[0]


def fenced(text: str, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return [body for name, body in FENCED.findall(text) if name == language]


def run(program: str, folder: Path) -> str:
    """Run a program in a fresh interpreter; return what it prints."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        check=False,
        capture_output=True,
        text=True,
        timeout=WAIT_MAX_S,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def readme() -> str:
    return page("README.md")


def snippets(path: str) -> list[str]:
    """Return the snippets of a page, without those that need Spark."""
    return [body for body in fenced(page(path), "python") if "spark." not in body]


def commands(path: str) -> list[list[str]]:
    """Return the words of each `shardlog` command of a page, without the first."""
    lines = [line for body in fenced(page(path), "sh") for line in body.splitlines()]
    commands_ = [
        match.group(1) or match.group(2) for line in lines if (match := COMMAND.search(line))
    ]
    return [shlex.split(each, comments=True) for each in commands_]


def test_program_prints_what_the_readme_says(tmp_path: Path) -> None:
    text = section(readme(), "Read, here or from other machines")
    (program,), (printed,) = fenced(text, "python"), fenced(text, "text")
    assert len(program.splitlines()) <= PROGRAM_LINES_MAX
    assert run(program, tmp_path) == printed


@pytest.mark.parametrize("path", PAGES)
def test_every_snippet_runs_behind_those_before_it(path: str, tmp_path: Path) -> None:
    programs = snippets(path)
    assert len(programs) > 1
    run("\n".join(programs), tmp_path)


def test_one_snippet_of_the_readme_is_left_to_spark() -> None:
    left = set(fenced(readme(), "python")) - set(snippets("README.md"))
    assert left == set(fenced(section(readme(), "Spark"), "python"))


@pytest.mark.parametrize("path", OF_COMMANDS)
def test_every_command_of_a_page_is_one(path: str) -> None:
    commands_ = commands(path)
    assert commands_
    unknown = {shlex.join(words): unknown_words(words) for words in commands_}
    assert {command: words for command, words in unknown.items() if words} == {}


def test_command_that_is_none_is_found() -> None:
    assert unknown_words(["tale", "ROOT"]) == ["tale"]
    assert unknown_words(["dev", "down", "--now"]) == ["--now"]
    assert unknown_words(["read", "ROOT", "--limit=3", "--id", "7"]) == []


def unknown_words(words: list[str]) -> list[str]:
    """Return the command, or the options, of a command that are none."""
    command: Any = typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return words[:1]
        command = command.commands[words[0]]
        command, words = (
            command.loaded() if isinstance(command, LazyCommand) else command,
            words[1:],
        )
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in options]


def test_fenced_blocks_are_told_apart_by_language() -> None:
    text = "# A\n\n## B\n```python\nx = 1\n```\n```text\n1\n```\n### C\n```python\ny\n```\n"
    assert fenced(section(text, "B"), "python") == ["x = 1\n"]
    assert fenced(section(text, "B"), "text") == ["1\n"]
    assert fenced(section(text, "C"), "python") == ["y\n"]
    assert fenced(text, "python") == ["x = 1\n", "y\n"]
