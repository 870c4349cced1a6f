"""A mutant: one line of the product made wrong, and the test that has to notice.

    [[mutant]]
    name = "newest-rollup"                      what `make mutants NAME=…` takes
    bug = "Of two roll-ups of a window the older one counts."
    file = "streaming_jobs/jobs/rollup/rollups.py"
    before = "groups.order[groups.ends - 1]"    stands there exactly once
    after = "groups.order[groups.firsts]"       in its place
    test = "tests/spark/jobs/test_roll_up.py::test_late_row_changes_its_windows_and_no_others"

A test is named without its parameters: any of its cases may notice. Where a line of the product
changes, the mutant of that line changes with it (`tests/tidy/test_mutants.py`).
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).with_name("mutants.toml")
_BEGIN: Final = ("| bug | file | the test that catches it |", "|---|---|---|")


class MisplacedError(Exception):
    """What a mutant replaces does not stand in its file exactly once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, where it goes, and the test that catches it."""

    name: str
    bug: str
    file: str
    before: str
    after: str
    test: str

    @property
    def module(self) -> str | None:
        """What Python calls the file; None where it is none of Python's."""
        path = Path(self.file)
        return ".".join(path.with_suffix("").parts) if path.suffix == ".py" else None

    def put_into(self, text: str) -> str:
        """Return the text of the file with the bug in it.

        Raises:
            MisplacedError: What is to be replaced is not there exactly once.
        """
        count = text.count(self.before)
        if count != 1:
            message = f"{self.file} has {count} times what is to be replaced"
            raise MisplacedError(message)
        return text.replace(self.before, self.after)


def read_mutants(table: Path = TABLE) -> list[Mutant]:
    """Return the mutants of a table, in its order."""
    mutants = [Mutant(**fields) for fields in tomllib.loads(table.read_text())["mutant"]]
    names = [one.name for one in mutants]
    assert len(set(names)) == len(names), "each mutant has a name of its own"
    return mutants


def chosen(mutants: Sequence[Mutant], names: Iterable[str]) -> list[Mutant]:
    """Return the mutants of these names, all where there are none; a name may be a beginning."""
    wanted = tuple(names)
    return [one for one in mutants if not wanted or one.name.startswith(wanted)]


def table_lines(mutants: Iterable[Mutant]) -> list[str]:
    """Return the table of `docs/TESTING.md`."""
    rows = [f"| {one.bug} | `{one.file}` | `{one.test}` |" for one in mutants]
    return [*_BEGIN, *rows]
