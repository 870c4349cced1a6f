"""Progress in rows, for whoever waits."""

from collections.abc import Callable

# Called with a number of rows.
OnRows = Callable[[int], None]


def ignore_rows(_rows: int) -> None:
    """Do nothing."""
