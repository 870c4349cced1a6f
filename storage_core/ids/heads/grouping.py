"""Grouping: the distinct secondaries of rows, and what is known of each."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]

_DENSE_SPAN_PER_ROW: Final = 16
_FEW_ROWS: Final = 32
_PLACE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Grouping:
    """The distinct secondaries of a batch, and for each row which of them it has."""

    ids: Int32s
    codes: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Judged:
    """The states of a batch (None: all normal), its heads afterwards, and what was counted."""

    states: States | None
    maxima: Int64s
    absorbed: int


def group(secondaries: Int32s) -> Grouping:
    """Return the distinct secondaries in ascending order and each row's index among them."""
    if len(secondaries) <= _FEW_ROWS:
        # Each call of numpy takes as long as some of them.
        of_rows = secondaries.tolist()
        distinct = sorted(set(of_rows))
        of_ids = {secondary: place for place, secondary in enumerate(distinct)}
        codes_of_rows = [of_ids[secondary] for secondary in of_rows]
        return Grouping(np.array(distinct, np.int32), np.array(codes_of_rows, np.intp))
    least = int(secondaries.min())
    span = int(secondaries.max()) - least + 1
    if span <= _DENSE_SPAN_PER_ROW * len(secondaries) + 1024:
        offsets = secondaries - least if least else secondaries
        flags = np.zeros(span, dtype=np.bool_)
        flags[offsets] = True
        present = np.flatnonzero(flags)
        index = np.empty(span, dtype=np.intp)
        index[present] = np.arange(len(present))
        return Grouping((present + least).astype(np.int32), index[offsets])
    # Sorted as one number, with the row's place: faster than any way to sort places by ids.
    places = (secondaries.astype(np.int64) << _PLACE_BITS) | np.arange(len(secondaries))
    places.sort()
    ids = (places >> _PLACE_BITS).astype(np.int32)
    is_first = np.ones(len(ids), dtype=np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=is_first[1:])
    codes = np.empty(len(ids), dtype=np.intp)
    codes[places & ((1 << _PLACE_BITS) - 1)] = np.cumsum(is_first) - 1
    return Grouping(ids[is_first], codes)
