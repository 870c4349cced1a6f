"""docs/FAILURES.md numbers steps as the code does, and names a test for each failure.

A failure is an item of a list that is not numbered.
"""

import ast
import re

import pytest

from tests.tidy.documents.numbered_steps import (
    STEPS_OF,
    node_of,
    numbered,
    steps_in_code,
    with_steps,
)
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs/FAILURES.md").read_text(encoding="utf-8")
COMMIT_PATH = "storage_core/write/commit_path.py:CommitPath.run"
# What changes something durably, or says that something is whole, step by step.
NUMBERED = {
    COMMIT_PATH,
    "storage_core/retention/expiry.py:expire_shard",
    "storage_core/tiering/seal.py:seal_shard",
    "storage_core/tiering/compact.py:compact_shard",
    "storage_core/tiering/rebuild.py:rebuild_parts",
    "storage_core/tiering/maintain.py:maintain_shard",
    "storage_core/tiering/trim.py:trim_shard",
    "storage_core/lake/publish.py:publish_shard",
    "connectors/ingest/commit_round.py:commit_round",
    "connectors/group/operations.py:pause",
    "connectors/group/operations.py:resume",
    "connectors/group/retrying.py:retry",
    "connectors/dlq/forwarder.py:Forwarder.forward",
    "connectors/ingest/dead_letters/retry.py:retry",
    "connectors/dlq/replay.py:Replay.run",
    "streaming_jobs/source/executor/task.py:read_range",
    "streaming_jobs/sink/commit.py",
}
STEP = re.compile(r"^(\d+)\. ", re.MULTILINE)
FAILURE = re.compile(r"^\* .+(?:\n  .+)*", re.MULTILINE)
TEST = re.compile(r"`test_\w+`")


def numbers(text: str) -> list[int]:
    """Return the numbers of steps, as they stand."""
    return [int(number) for number in STEP.findall(text)]


def failures_without_test(text: str) -> list[str]:
    """Return the items of lists that name no test."""
    return [one for one in FAILURE.findall(text) if not TEST.search(one)]


def test_every_numbered_path_stands_in_the_document() -> None:
    assert {place for place, _ in STEPS_OF.findall(PAGE)} == NUMBERED


@pytest.mark.parametrize("place", sorted(NUMBERED))
def test_document_numbers_the_steps_as_the_docstring_does(place: str) -> None:
    (written,) = (text for order, text in STEPS_OF.findall(PAGE) if order == place)
    assert written == f"{steps_in_code(place)}\n", "a docstring has changed: run `make docs`"
    order = numbers(written)
    assert order == list(range(1, len(order) + 1))


def test_body_of_the_commit_path_carries_each_number_in_order() -> None:
    path = COMMIT_PATH.partition(":")[0]
    source = (ROOT / path).read_text(encoding="utf-8").splitlines()
    node = node_of(COMMIT_PATH)
    assert isinstance(node, ast.FunctionDef)
    body = "\n".join(source[node.lineno : node.end_lineno])
    marks = [int(number) for number in re.findall(r"  # (\d)$", body, re.MULTILINE)]
    assert marks == numbers(steps_in_code(COMMIT_PATH))


def test_every_failure_names_its_test() -> None:
    assert len(FAILURE.findall(PAGE)) > 1
    assert failures_without_test(PAGE) == []


def test_steps_of_a_docstring_take_the_place_of_others() -> None:
    docstring = "Do.\n\n1. One: a,\n   b.\n2. Two.\n\nNo 3. here."
    assert numbers(numbered(docstring)) == [1, 2]
    page = "Steps of `a.py:do`:\n\n1. Another.\n\nBehind.\n"
    written = "Steps of `a.py:do`:\n\n1. One: a,\n   b.\n2. Two.\n\nBehind.\n"
    assert with_steps(page, lambda _place: numbered(docstring)) == written


def test_failure_without_a_test_is_found() -> None:
    text = "* **Sync fails.** Poisoned.\n  `test_a`\n* **Disk full.** As\n  above.\n\nIn between.\n"
    assert failures_without_test(text) == ["* **Disk full.** As\n  above."]
