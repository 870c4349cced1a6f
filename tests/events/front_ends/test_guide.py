"""docs/EVENTS.md runs: its commands in their order, as the shell and a server are told them."""

import json

import pytest

from connectors.serve.commands.split_text import split_commands
from tests.events.front_ends.doors import commanding, posted
from tests.tidy.test_readme import fenced, page, run, snippets

PAGE = "docs/EVENTS.md"
VERBS = ("DEFINE", "STORE", "BATCH", "DELETE", "QUERY", "REPLAY", "EXPLAIN", "SHOW", "PLOT")


def test_every_example_of_the_guide_is_answered_ok(tmp_path) -> None:
    wrong = []
    with commanding(tmp_path) as served:
        for block in fenced(page(PAGE), "events"):
            for command in split_commands(block):
                code, body, _ = posted(served, command.text)
                if code != 200:
                    wrong.append((command.text, json.loads(body)["message"]))
    assert wrong == []


def test_program_of_the_guide_runs(tmp_path) -> None:
    (program,) = snippets(PAGE)
    assert run(program, tmp_path) == "stored at 0:0\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(verb) -> None:
    assert any(verb in block for block in fenced(page(PAGE), "events"))
