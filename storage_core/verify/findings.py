"""Problems that verify finds, with their kind and place; a bounded number."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal[
    "lost",
    "block",
    "zone",
    "late copy",
    "ahead key",
    "window",
    "head",
    "counter",
    "tail",
    "dead letter",
    "transaction",
    "dictionary",
    "schema",
    "index",
    "key",
    "part",
]

PROBLEMS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and its place.

    Attributes:
        shard: The shard's number.
        file: Its store, or the file of a part.
        start: First address concerned; None if no addresses are.
        end: Their exclusive end.
        message: What is wrong, in a line.
        kind: Which part of the store.
        key: The key whose value is wrong or missing, in the family of all but blocks.
    """

    shard: int
    file: str
    start: int | None
    end: int | None
    message: str
    kind: Kind = "block"
    key: bytes | None = None


class Findings:
    """The problems of one shard."""

    def __init__(self, shard: int, file: str) -> None:
        """Start with none."""
        self._shard = shard
        self._file = file
        self._problems: list[Problem] = []
        self.left_out = 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first of them, in the order in which they were found."""
        return tuple(self._problems)

    def add(  # noqa: PLR0913 - the parts of a place
        self,
        kind: Kind,
        message: str,
        start: int | None = None,
        end: int | None = None,
        key: bytes | None = None,
        file: Path | None = None,
    ) -> None:
        """Add a problem of the store, or of a file; above `PROBLEMS_MAX` it is only counted."""
        if len(self._problems) >= PROBLEMS_MAX:
            self.left_out += 1
            return
        path = self._file if file is None else str(file)
        self._problems.append(Problem(self._shard, path, start, end, message, kind, key))
