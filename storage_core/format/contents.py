"""What a transaction held, so that one which comes again under its id is told from it.

Whoever stages the rows makes the digest; here it is kept and compared. Contents of parts add up
in any order.
"""

from dataclasses import dataclass
from typing import Final

_WORD: Final = 2**64


@dataclass(frozen=True, slots=True)
class Contents:
    """Rows and their digest, two sums modulo 2^64.

    Attributes:
        rows: How many.
        first: A sum over the rows.
        second: Another one.
    """

    rows: int = 0
    first: int = 0
    second: int = 0

    def __post_init__(self) -> None:
        """Keep sums in their range."""
        object.__setattr__(self, "first", self.first % _WORD)
        object.__setattr__(self, "second", self.second % _WORD)

    def __add__(self, other: "Contents") -> "Contents":
        """Return what both hold."""
        sums = (self.first + other.first, self.second + other.second)
        return Contents(self.rows + other.rows, *sums)


def encode_contents(contents: Contents) -> list[object]:
    """Return contents as JSON has them: rows and 32 hex digits."""
    return [contents.rows, f"{contents.first:016x}{contents.second:016x}"]


def decode_contents(document: object) -> Contents:
    """Return what `encode_contents` was given.

    Raises:
        ValueError: It is something else.
    """
    match document:
        case [int(rows), str(digest)] if len(digest) == 32:  # noqa: PLR2004 - as above
            return Contents(rows, int(digest[:16], 16), int(digest[16:], 16))
        case _:
            message = f"not the contents of a transaction: {document!r}"
            raise ValueError(message)
