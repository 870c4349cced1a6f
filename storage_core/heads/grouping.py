"""Grouping: the distinct secondaries of rows, and what is known of each."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]

_DENSE_SPAN_PER_ROW: Final = 16


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
    encoded = pa.array(secondaries).dictionary_encode()
    ids = encoded.dictionary.to_numpy()
    order = np.argsort(ids)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return Grouping(ids[order], rank[encoded.indices.to_numpy()])
