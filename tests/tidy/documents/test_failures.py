"""docs/FAILURES.md numbers steps as the code does, and names a test for each failure.

A list of steps stands below the line "Steps of `path:function`:" and is the list in that function's
docstring, or without a function in the module's. A failure is an item of any other list.
"""

import ast
import re

import pytest

from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs/FAILURES.md").read_text(encoding="utf-8")
COMMIT_PATH = "storage_core/write/shard.py:Shard.commit_path"
# What changes something durably, or says that something is whole, step by step.
NUMBERED = {
    COMMIT_PATH,
    "storage_core/upkeep/expiry.py:expire_shard",
    "storage_core/parts/seal.py:seal_shard",
    "storage_core/parts/compact.py:compact_shard",
    "storage_core/parts/mend.py:mend_parts",
    "storage_core/parts/maintain.py:maintain_shard",
    "storage_core/parts/trim.py:trim_shard",
    "connectors/ingest/commit_round.py:commit_round",
    "connectors/dead_letters/forwarder.py:Forwarder.forward",
    "connectors/dead_letters/replay.py:Replay.run",
    "streaming_jobs/source/task.py:read_range",
    "streaming_jobs/sink/commit.py",
}
STEPS_OF = re.compile(r"^Steps of `([^`]+)`:\n\n((?:.+\n)+)", re.MULTILINE)
STEP = re.compile(r"^ *(\d+)\. (.+(?:\n +\S.*)*)", re.MULTILINE)
FAILURE = re.compile(r"^\* .+(?:\n  .+)*", re.MULTILINE)
TEST = re.compile(r"`test_\w+`")


def steps(text: str) -> list[str]:
    """Return numbered steps, their lines joined."""
    found = STEP.findall(text)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    return [" ".join(step.split()) for _, step in found]


def first_list(docstring: str) -> list[str]:
    """Return the steps of the paragraph that begins with the first."""
    return steps(next(one for one in docstring.split("\n\n") if one.startswith("1. ")))


def node_of(place: str) -> ast.Module | ast.FunctionDef:
    """Return the function, or the module, of a place."""
    path, _, name = place.partition(":")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    if not name:
        return tree
    function = name.rpartition(".")[2]
    return next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function
    )


def failures_without_test(text: str) -> list[str]:
    """Return the items of lists that name no test."""
    return [one for one in FAILURE.findall(text) if not TEST.search(one)]


def test_every_numbered_path_stands_in_the_document() -> None:
    assert {place for place, _ in STEPS_OF.findall(PAGE)} == NUMBERED


@pytest.mark.parametrize("place", sorted(NUMBERED))
def test_document_numbers_the_steps_as_the_docstring_does(place: str) -> None:
    (written,) = (text for found, text in STEPS_OF.findall(PAGE) if found == place)
    assert steps(written) == first_list(ast.get_docstring(node_of(place)) or "")


def test_body_of_the_commit_path_carries_each_number_in_order() -> None:
    path = COMMIT_PATH.partition(":")[0]
    source = (ROOT / path).read_text(encoding="utf-8").splitlines()
    node = node_of(COMMIT_PATH)
    assert isinstance(node, ast.FunctionDef)
    body = "\n".join(source[node.lineno : node.end_lineno])
    numbers = [int(number) for number in re.findall(r"  # (\d)$", body, re.MULTILINE)]
    assert numbers == list(range(1, len(first_list(ast.get_docstring(node) or "")) + 1))


def test_every_failure_names_its_test() -> None:
    assert len(FAILURE.findall(PAGE)) > 1
    assert failures_without_test(PAGE) == []


def test_steps_are_joined_over_their_lines() -> None:
    assert steps("1. One: a,\n   b.\n2. Two.") == ["One: a, b.", "Two."]
    assert first_list("Do.\n\n1. One: a,\n   b.\n2. Two.\n\nNo 3. here.") == ["One: a, b.", "Two."]


def test_failure_without_a_test_is_found() -> None:
    text = "* **Sync fails.** Poisoned.\n  `test_a`\n* **Disk full.** As\n  above.\n\nIn between.\n"
    assert failures_without_test(text) == ["* **Disk full.** As\n  above."]
