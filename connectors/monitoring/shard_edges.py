"""The rows of a shard that arrived first and last, at the same cost however many there are.

So the newest row is sought among the last thousand addresses; one further back is not there.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core import LostRangeError, State, StreamReader

# Addresses looked at for a first and a last row. Where they hold none, as behind an aborted
# transaction, four times as many are, so often.
_EDGE_ADDRESSES: Final = 1024
_WIDENINGS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class Edge:
    """Primaries of some rows in the order of their arrival: the first, the last, the largest."""

    first: int
    last: int
    newest: int


def edge_of(reader: StreamReader, shard: int, end: int, *, is_first: bool) -> Edge | None:
    """Return the primaries of the rows that arrived first, or last."""
    least = reader.start(shard)
    for widened in range(_WIDENINGS_MAX):
        width = _EDGE_ADDRESSES * 4**widened
        begin = least if is_first else max(end - width, least)
        until = min(least + width, end) if is_first else end
        primaries = _primaries(reader, shard, begin, until)
        if len(primaries):
            return Edge(int(primaries[0]), int(primaries[-1]), int(primaries.max()))
        if begin <= least and until >= end:
            return None
    return None


def _primaries(reader: StreamReader, shard: int, start: int, end: int) -> "npt.NDArray[np.int64]":
    """Return the primaries of a range of addresses, in their order, without ahead rows."""
    parts = [np.empty(0, dtype=np.int64)]
    if start < end:
        # A lost range is reported by its addresses; nobody knows what it held.
        with suppress(LostRangeError):
            for batch in list(reader.tail(shard, start, end, columns=["primary", "state"])):
                is_ahead = batch.column("state").to_numpy() == State.AHEAD
                parts.append(batch.column("primary").to_numpy()[~is_ahead])
    return np.concatenate(parts)
