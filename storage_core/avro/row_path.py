"""Where in a caller's rows some values stand, to be told once one of them cannot be written."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from storage_core.errors import InvalidRequestError

Numbers = npt.NDArray[np.integer[Any]]


def _itself(values: Numbers) -> Numbers:
    return values


class RowPlace:
    """The field that values are of, and the row of each, which is looked up only if it is asked.

    Rows count from the first of those that are written at once; `told_of` says which of the
    caller's one of these is.
    """

    def __init__(
        self,
        told_of: Callable[[int], int] = int,
        path: str = "",
        rows_of: Callable[[Numbers], Numbers] = _itself,
    ) -> None:
        """Stand for the rows themselves."""
        self._told_of = told_of
        self._path = path
        self.rows_of = rows_of

    def field(self, name: str) -> "RowPlace":
        """Return where a field of these values stands."""
        path = f"{self._path}.{name}" if self._path else name
        return RowPlace(self._told_of, path, self.rows_of)

    def some(self, places: Numbers) -> "RowPlace":
        """Return where some of these values stand."""
        return RowPlace(self._told_of, self._path, lambda at: self.rows_of(places[at]))

    def items(self, edges: Numbers) -> "RowPlace":
        """Return where the items of these values stand, each value having those between edges."""

        def rows_of(at: Numbers) -> Numbers:
            return self.rows_of(np.searchsorted(edges, at + edges[0], "right") - 1)

        return RowPlace(self._told_of, self._path, rows_of)

    def refuse(self, at: int, why: str) -> NoReturn:
        """Raise over one of the values."""
        (row,) = self.rows_of(np.array([at])).tolist()
        where = f"field {self._path} " if self._path else ""
        message = f"row {self._told_of(row)}: {where}{why}"
        raise InvalidRequestError(message)

    def refuse_all(self, why: str) -> NoReturn:
        """Raise over what all of the values are."""
        where = f"field {self._path}" if self._path else "what is given"
        message = f"{where} {why}"
        raise InvalidRequestError(message)
