"""What `make mutants` says: of a small tree with a function and its tests."""

import pytest

from tests.mutants.mutant import MisplacedError, Mutant, chosen
from tests.mutants.verdicts import Verdict, judge

SUMS = """LIMIT = 10


def add(one, other):
    return min(LIMIT, one + other)
"""
TESTS = """from product.sums import LIMIT, add


def test_sum():
    assert add(1, 2) == 3


def test_that_fails_without_a_bug():
    assert add(1, 2) == 4
"""


def mutant(name: str, before: str, after: str, test: str = "test_sum") -> Mutant:
    return Mutant(
        name, "A bug.", "product/sums.py", before, after, f"tests/unit/test_sums.py::{test}"
    )


MUTANTS = [
    mutant("caught", "one + other", "one - other"),
    mutant("no change", "one + other", "one + other"),
    mutant("not there", "one * other", "one + other"),
    mutant("there twice", "LIMIT", "LIMITS"),
    mutant("no Python", "one + other", "one +"),
    mutant("not collected", "LIMIT = 10\n", "del_limit, LIMITS = 0, 10\n"),
    mutant("fails without", "one + other", "one - other", "test_that_fails_without_a_bug"),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """What is said of each."""
    tree = tmp_path_factory.mktemp("tree")
    for path, text in (
        # The package has a function of the module's name.
        ("product/__init__.py", "from product.sums import add as sums\n"),
        ("product/sums.py", SUMS),
        ("tests/unit/test_sums.py", TESTS),
        ("pytest.ini", "[pytest]\n"),
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    lines: list[str] = []
    verdicts = judge(MUTANTS, tree, 2, lines.append)
    assert len(lines) == len(MUTANTS) + 2
    assert (tree / "product/sums.py").read_text() == SUMS
    return {one.mutant.name: one for one in verdicts}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "word", "why"),
    [
        ("caught", "caught", "assert -1 == 3"),
        ("no change", "survived", "passes"),
        ("not there", "broken", "0 times"),
        ("there twice", "broken", "2 times"),
        ("no Python", "broken", "cannot be imported: SyntaxError"),
        ("not collected", "broken", "did not run"),
        ("fails without", "broken", "without the bug it fails"),
    ],
)
def test_mutant_is_what_its_test_says(
    verdicts: dict[str, Verdict], name: str, word: str, why: str
) -> None:
    assert verdicts[name].word == word
    assert why in verdicts[name].why


def test_bug_takes_the_place_of_its_line_alone() -> None:
    assert MUTANTS[0].put_into(SUMS) == SUMS.replace("+", "-")
    with pytest.raises(MisplacedError):
        MUTANTS[3].put_into(SUMS)


def test_mutants_are_chosen_by_how_their_names_begin() -> None:
    assert [one.name for one in chosen(MUTANTS, ["no ", "caught"])] == [
        *("caught", "no change", "no Python")
    ]
    assert chosen(MUTANTS, []) == MUTANTS
