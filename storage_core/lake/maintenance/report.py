"""What a check of a stream's table found, and what a vacuum of it deleted."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

# What is wrong: a file that the store lacks or has otherwise, one whose name says what is not so,
# one that another program wrote, rows that the table lacks, has twice, or that no part has; a heads
# run that is missing or damaged; a part that is damaged on this machine, or that no read finds; a
# shard's log that is damaged; a log or a file of the store that cannot be read now.
LakeFault = Literal[
    "gone",
    "size",
    "name",
    "foreign",
    "digest",
    "rows",
    "missing",
    "twice",
    "unknown",
    "heads",
    "part",
    "log",
    "unread",
]


@dataclass(frozen=True, slots=True)
class LakeProblem:
    """One thing that is wrong with a table, and its place.

    Attributes:
        shard: The shard's number; None where a file's name tells none.
        start: The first address concerned; None if no addresses are.
        end: Their exclusive end.
        kind: What is wrong.
        message: The same in a line.
        file: The path of the file below the table, or of a part's file here its name; None where
            there is none.
    """

    shard: int | None
    start: int | None
    end: int | None
    kind: LakeFault
    message: str
    file: str | None


@dataclass(frozen=True, slots=True)
class LakeCheck:
    """What a check of a stream's table compared, and what is wrong.

    Attributes:
        uri: Where the table is.
        version: Its version; None where there is none.
        files: How many files were compared.
        rows: How many rows these have.
        bytes_read: How many bytes of them were read.
        unpublished: How many committed addresses are not published.
        pending: How many files the next publish adds or removes below what is published.
        problems: What is wrong.
        unchecked: What could not be compared, a line each.
    """

    uri: str
    version: int | None
    files: int
    rows: int
    bytes_read: int
    unpublished: int
    pending: int
    problems: tuple[LakeProblem, ...]
    unchecked: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def files_unread(self) -> int:
        """How many files the store does not give, of those that were to be read."""
        return sum(problem.kind == "unread" and bool(problem.file) for problem in self.problems)

    def beside(self, problems: Iterable[LakeProblem]) -> "LakeCheck":
        """Return this check with what was met otherwise of the files that it tells nothing of."""
        named = {(problem.kind, problem.file) for problem in self.problems}
        others = [problem for problem in problems if (problem.kind, problem.file) not in named]
        return replace(self, problems=(*self.problems, *others))


@dataclass(frozen=True, slots=True)
class LakeVacuum:
    """What a vacuum of a stream's table deleted.

    Attributes:
        files: The paths of the files below the table that were deleted, or would be.
        within_history: How many files stay that only versions within `lake_history` name.
    """

    files: tuple[str, ...]
    within_history: int
