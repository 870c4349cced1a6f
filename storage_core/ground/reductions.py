"""Least, largest, sum and all of a column, at no cost where the column has one value.

One durable record is a batch of one row. After the wait for a sync nothing is left in the
processor's caches, and the first call into numpy's reductions costs tens of microseconds, the
more so as one call that is left pays for all; so the commit path reduces through here.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


def least(values: npt.NDArray[np.integer[Any]]) -> int:
    """Return the smallest of at least one value."""
    return int(values[0]) if len(values) == 1 else int(values.min())


def largest(values: npt.NDArray[np.integer[Any]]) -> int:
    """Return the largest of at least one value."""
    return int(values[0]) if len(values) == 1 else int(values.max())


def total(values: npt.NDArray[np.integer[Any]]) -> int:
    """Return the sum of any number of values."""
    return int(values[0]) if len(values) == 1 else int(values.sum())


def is_all(flags: npt.NDArray[np.bool_]) -> bool:
    """Tell whether every flag is set."""
    return bool(flags[0]) if len(flags) == 1 else bool(flags.all())
