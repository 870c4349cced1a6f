"""The ways to fetch, for tests of what might differ by them; a way that cannot be had is skipped.

@BY_BOTH_WAYS
def test_of_workers(lab): ...

@pytest.mark.parametrize(("fetch", "rounds"), alternated(campaigns("SHARDLOG_BROKER_KILLS", 3)))
def test_of_workers(lab, rounds): ...

`ways_at_hand()` names those for workers side by side, or in turn (`Lab.alternate_ways`).
"""

from collections.abc import Sequence
from itertools import cycle

import pytest

from connectors.kafka import FetchWay
from connectors.kafka.native_library import Refusal, load

_WAYS: tuple[FetchWay, FetchWay] = ("native", "python")
_NATIVE = load()


def _parameters(way: FetchWay, *more: int):  # the type is pytest's own
    missing = _NATIVE.reason if way == "native" and isinstance(_NATIVE, Refusal) else ""
    return pytest.param(way, *more, marks=pytest.mark.skipif(bool(missing), reason=missing))


def alternated(cycles: Sequence[int]):
    """Return campaigns with the way that workers fetch in each: in turn, each way once at least."""
    counts = cycles if len(cycles) > 1 else [*cycles] * len(_WAYS)
    return [_parameters(way, count) for way, count in zip(cycle(_WAYS), counts, strict=False)]


BY_BOTH_WAYS = pytest.mark.parametrize("fetch", [_parameters(way) for way in _WAYS])


def ways_at_hand() -> list[FetchWay]:
    """Return the ways that can be had."""
    return [way for way in _WAYS if way == "python" or not isinstance(_NATIVE, Refusal)]
