"""The field and rows that values come from, for the message when one cannot be encoded."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from storage_core.errors import InvalidRequestError

Numbers = npt.NDArray[np.integer[Any]]


def _same(values: Numbers) -> Numbers:
    return values


class RowPath:
    """The field path of some values, and the row of each, which is looked up for a message only.

    Rows count from the first of a batch; `caller_row` returns the caller's row of one of these.
    """

    def __init__(
        self,
        caller_row: Callable[[int], int] = int,
        path: str = "",
        rows_of: Callable[[Numbers], Numbers] = _same,
    ) -> None:
        """Begin at the rows themselves."""
        self._caller_row = caller_row
        self._path = path
        self.rows_of = rows_of

    def field(self, name: str) -> "RowPath":
        """Return the path of a field of these values."""
        path = f"{self._path}.{name}" if self._path else name
        return RowPath(self._caller_row, path, self.rows_of)

    def some(self, indices: Numbers) -> "RowPath":
        """Return the path of some of these values."""
        return RowPath(
            self._caller_row, self._path, lambda positions: self.rows_of(indices[positions])
        )

    def items(self, offsets: Numbers) -> "RowPath":
        """Return the path of the items of these lists, whose offsets are given."""

        def rows_of(positions: Numbers) -> Numbers:
            return self.rows_of(np.searchsorted(offsets, positions + offsets[0], "right") - 1)

        return RowPath(self._caller_row, self._path, rows_of)

    def refuse(self, index: int, reason: str) -> NoReturn:
        """Raise for one of the values."""
        (row,) = self.rows_of(np.array([index])).tolist()
        subject = f"field {self._path} " if self._path else ""
        message = f"row {self._caller_row(row)}: {subject}{reason}"
        raise InvalidRequestError(message)

    def refuse_all(self, reason: str) -> NoReturn:
        """Raise for all of the values."""
        subject = f"field {self._path}" if self._path else "the batch"
        message = f"{subject} {reason}"
        raise InvalidRequestError(message)
