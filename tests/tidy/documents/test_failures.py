"""docs/GUARANTEES.md numbers the steps of the commit path as the code does."""

import ast
import re

from tests.tidy.tree import ROOT

STEP = re.compile(r"^ *(\d+)\. (.+(?:\n +\S.*)*)", re.MULTILINE)


def steps(text: str) -> list[str]:
    """Return numbered steps, their lines joined."""
    found = STEP.findall(text)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    return [" ".join(step.split()) for _, step in found]


def commit_path() -> ast.FunctionDef:
    tree = ast.parse((ROOT / "storage_core/write/shard.py").read_text(encoding="utf-8"))
    return next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "commit_path"
    )


def steps_of_the_code() -> list[str]:
    return steps((ast.get_docstring(commit_path()) or "").split("\n\nWithout")[0])


def test_document_numbers_the_steps_as_the_docstring_does() -> None:
    text = (ROOT / "docs/GUARANTEES.md").read_text(encoding="utf-8")
    written = text.split("\n## The commit path\n")[1].split("\n## ")[0]
    assert steps_of_the_code()
    assert steps(written) == steps_of_the_code()


def test_body_of_the_commit_path_carries_each_number_in_order() -> None:
    source = (ROOT / "storage_core/write/shard.py").read_text(encoding="utf-8").splitlines()
    node = commit_path()
    body = "\n".join(source[node.lineno : node.end_lineno])
    numbers = [int(number) for number in re.findall(r"  # (\d)$", body, re.MULTILINE)]
    assert numbers == list(range(1, len(steps_of_the_code()) + 1))


def test_steps_are_joined_over_their_lines() -> None:
    assert steps("1. One: a,\n   b.\n2. Two.") == ["One: a, b.", "Two."]
