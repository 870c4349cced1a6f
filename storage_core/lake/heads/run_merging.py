"""Which runs of a shard are merged, as a log-structured merge tree does it; pure.

The newest are merged once there are some of about one size, so a head is written some times, and a
log that begins from the table reads some runs for each power of their growth. Runs that would be
too large together stay: who merges holds all of their heads.
"""

from collections.abc import Sequence
from typing import Final

from storage_core.lake.heads.run_names import RunName

# How many neighbours become one.
NEIGHBOURS: Final = 8
# Some millions of heads.
MERGED_BYTES_MAX: Final = 64 * 2**20
# Smaller ones cost as much to read.
_LEAST_BYTES: Final = 64 * 2**10
_GROWTH: Final = 4


def next_merge(chain: Sequence[RunName]) -> list[RunName]:
    """Return runs that are to become one; none if there are too few of about one size.

    Args:
        chain: Runs, ascending.
    """
    for size_class in sorted({_size_class(run) for run in chain}):
        newest = _newest(chain, size_class)
        if len(newest) >= NEIGHBOURS:
            return newest
    return []


def _newest(chain: Sequence[RunName], size_class: int) -> list[RunName]:
    """Return the newest runs that are not larger, without a hole, and not too large together."""
    newest: list[RunName] = []
    size = 0
    for run in reversed(chain):
        size += run.size
        has_hole = bool(newest) and run.end < newest[-1].begin
        if has_hole or _size_class(run) > size_class or size > MERGED_BYTES_MAX:
            break
        newest.append(run)
    return newest[::-1]


def _size_class(run: RunName) -> int:
    size_class, size = 0, run.size // _LEAST_BYTES
    while size:
        size_class, size = size_class + 1, size // _GROWTH
    return size_class
