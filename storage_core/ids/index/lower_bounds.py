"""Where in a shard the normal rows of an id with wanted primaries can lie, by index entries.

An entry says that a row of the id was normal where it came. Two things follow, with the jitter
that the shard has had from the first row on:

    primary < start - jitter    no row with a primary from start on stands before it: the row
                                would have been late
    primary > end + jitter      no normal row with a primary up to end stands behind it: that
                                one would be late

So a scan begins at the greatest of three safe lower bounds: the address of such an entry, the
least address of the windows that it touches, and the log's start. The first holds for late rows
too: before each stands a normal one with a larger primary. Any entry of a row that stands will
do; one that is missing, late or dropped leaves another bound, or none. That of a row that is lost
bounds nothing: the head that it had moved may have been set back, and rows that were late against
it are normal. Sums at both ends of int64 saturate, and
beyond them nothing lies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from storage_core.format.keys import (
    INDEX_KEY_BYTES,
    INT64_MAX,
    INT64_MIN,
    decode_index_key,
    index_key,
    index_keys_of,
    saturating_add,
)
from storage_core.format.window import WindowScheme

# In so many windows beside the nearest one an entry is looked for.
WINDOWS_BESIDE: Final = 3

Seek = Callable[[bytes], tuple[bytes, bytes] | None]


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """Bounds from the entries of one moment.

    Attributes:
        at_or_before: Looks an item up at a key or before it.
        at_or_after: Looks an item up at a key or behind it.
        scheme: The windows.
        jitter: The stream's jitter.
        stands: Tells whether the row at an address is committed and not lost; entries of others
            say nothing.
    """

    at_or_before: Seek
    at_or_after: Seek
    scheme: WindowScheme
    jitter: int
    stands: Callable[[int], bool]

    def begin(self, secondary: int, start: int) -> int:
        """Return an address before which no normal or late row of an id has such a primary."""
        below = saturating_add(start, -self.jitter)
        if below == INT64_MIN:
            return 0
        window = self.scheme.of(below - 1)
        key = index_key(window, secondary, below - 1, INT64_MAX)
        for _ in range(WINDOWS_BESIDE + 1):
            address = self._address(self.at_or_before(key), window, secondary)
            if address is not None:
                return address
            if window == self.scheme.of(INT64_MIN):
                break
            window -= 1
            key = index_key(window, secondary, INT64_MAX, INT64_MAX)
        return 0

    def end(self, secondary: int, end: int) -> int | None:
        """Return an address from which on no normal row of an id has such a primary, or None."""
        above = saturating_add(end, self.jitter)
        if above == INT64_MAX:
            return None
        window = self.scheme.of(above + 1)
        key = index_key(window, secondary, above + 1, 0)
        for _ in range(WINDOWS_BESIDE + 1):
            address = self._address(self.at_or_after(key), window, secondary)
            if address is not None:
                return address
            if window == self.scheme.of(INT64_MAX):
                break
            window += 1
            key = index_key(window, secondary, INT64_MIN, 0)
        return None

    def _address(self, item: tuple[bytes, bytes] | None, window: int, secondary: int) -> int | None:
        if item is None:
            return None
        key = item[0]
        if len(key) != INDEX_KEY_BYTES or not key.startswith(index_keys_of(window, secondary)):
            return None
        address = decode_index_key(key)[3]
        return address if self.stands(address) else None
