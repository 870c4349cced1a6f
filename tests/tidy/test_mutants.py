"""The one-line bugs of `make mutants` fit the product, and docs/TESTING.md lists them."""

import ast

from tests.mutants.mutant import read_mutants, table_lines
from tests.tidy.tree import PACKAGES, ROOT

MUTANTS_MIN = 30
# Tests that are dear, and so are moved, shared and thinned: at least ten mutants are theirs.
DEAR = (
    "tests/spark/",
    "tests/broker/",
    "tests/model/",
    "tests/faults/",
    "tests/log/parts/test_trim",
)
DEAR_MIN = 10


def names_in(path: str) -> set[str]:
    """Return the functions and what else a file of tests names at its top."""
    names = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return names


def test_each_mutant_replaces_what_is_there_once_by_what_can_be_compiled() -> None:
    for mutant in read_mutants():
        text = mutant.put_into((ROOT / mutant.file).read_text(encoding="utf-8"))
        assert mutant.before != mutant.after, mutant.name
        if mutant.module is not None:
            compile(text, mutant.name, "exec")


def test_each_mutant_names_a_test_that_is_there() -> None:
    for mutant in read_mutants():
        path, name, *_ = mutant.test.split("::")
        assert name in names_in(path), mutant.test


def test_mutants_are_of_all_rooms_and_many_are_of_dear_tests() -> None:
    mutants = read_mutants()
    assert len(mutants) >= MUTANTS_MIN
    assert {one.file.split("/")[0] for one in mutants} == set(PACKAGES)
    assert sum(one.test.startswith(DEAR) for one in mutants) >= DEAR_MIN


def test_table_of_the_document_is_that_of_the_mutants() -> None:
    text = (ROOT / "docs/TESTING.md").read_text(encoding="utf-8")
    assert "\n".join(table_lines(read_mutants())) in text, "python -m tests.mutants --table"
