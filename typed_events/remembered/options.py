"""How much of an answer is kept."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """What SHOW answers with, of all rows that the log has.

    Attributes:
        rows: At most so many, the newest by the time of storing; None for all.
        age: Only those that were stored since; None for all.
    """

    rows: int | None = None
    age: timedelta | None = None


KEEP_ALL: Final = KeepOptions()
