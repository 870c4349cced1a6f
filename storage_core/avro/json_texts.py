"""The texts of JSON bodies as they lie in a column: some at once, or a row's. None is read here."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 2**22
Places = npt.NDArray[np.int64]


class JsonTexts:
    """The texts of bodies, as they lie behind each other."""

    def __init__(self, bodies: Any, starts: Places) -> None:  # noqa: ANN401 - an array
        """Look at bodies that start in each value where `starts` says."""
        is_large = pa.types.is_large_binary(bodies.type)
        buffers = bodies.buffers()
        kind = np.dtype(np.int64 if is_large else np.int32)
        edges = np.frombuffer(
            buffers[1] or b"\0" * 8, kind, len(bodies) + 1, bodies.offset * kind.itemsize
        ).astype(np.int64)
        self.data = np.frombuffer(buffers[2] or b"", np.uint8)
        self.ends = edges[1:]
        self.begins = np.minimum(edges[:-1] + starts, self.ends)
        self.is_there = bodies.is_valid().to_numpy(zero_copy_only=False)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows that are read at once."""
        first, count = 0, len(self.ends)
        while first < count:
            most = int(np.searchsorted(self.ends, self.begins[first] + _BYTES_AT_ONCE, "right"))
            end = min(max(most, first + 1), first + _ROWS_AT_ONCE, count)
            yield first, end
            first = end

    def no_objects(self, rows: Places) -> Places:
        """Return which of some rows are no objects at sight."""
        begins, ends = self.begins[rows], self.ends[rows]
        is_one = ends - begins >= 2  # noqa: PLR2004 - two braces
        firsts, lasts = self.data[begins[is_one]], self.data[ends[is_one] - 1]
        is_one[is_one] = (firsts == ord("{")) & (lasts == ord("}"))
        return np.flatnonzero(~is_one)

    def joined(self, rows: Places) -> bytes:
        """Return the texts of rows, a line break behind each."""
        view = self.data.data
        pairs = zip(self.begins[rows].tolist(), self.ends[rows].tolist(), strict=True)
        return b"\n".join([*(view[a:b] for a, b in pairs), b""])

    def text(self, row: int) -> bytes:
        """Return the text of a row."""
        return self.data[self.begins[row] : self.ends[row]].tobytes()
