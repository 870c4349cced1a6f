"""How many drivers die: SHARDLOG_FAULT_SPARK_KILLS of the source's, and as many of the sink's.

They are spread over the moments of a batch first, then over the second batch and the first.
"""

import os
from typing import TypeVar

VARIABLE = "SHARDLOG_FAULT_SPARK_KILLS"
BATCHES = 2
_T = TypeVar("_T")


def kills(moments: tuple[_T, ...], default: int) -> list[tuple[int, _T, int]]:
    """Return the kills as (number, moment, one of two batches); by default so many."""
    count = int(os.environ.get(VARIABLE, default))
    return [
        (number, moments[number % len(moments)], (1 + number // len(moments)) % BATCHES)
        for number in range(count)
    ]
