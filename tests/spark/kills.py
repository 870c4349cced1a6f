"""How many drivers die: SHARDLOG_FAULT_SPARK_KILLS of each kind, else few, or one a moment by hand.

They are spread over the moments of a batch first, then over the second batch and the first.
"""

from typing import TypeVar

from tests.thin import rounds

VARIABLE = "SHARDLOG_FAULT_SPARK_KILLS"
BATCHES = 2
_T = TypeVar("_T")


def kills(moments: tuple[_T, ...], few: int) -> list[tuple[int, _T, int]]:
    """Return the kills as (number, moment, one of two batches); in a run of all tests so many."""
    count = rounds(VARIABLE, few, many=len(moments))
    return [
        (number, moments[number % len(moments)], (1 + number // len(moments)) % BATCHES)
        for number in range(count)
    ]
