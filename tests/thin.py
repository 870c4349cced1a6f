"""Which cases of a matrix `make test` runs: a few, chosen by a fixed seed; `make faults` runs all.

A matrix repeats one claim under many conditions. Each case of it was tried; a run of all tests
tries a few again, always the same ones, so that a failure comes back. `SHARDLOG_EVERY_CASE=1`
runs all, as `make faults KIND=matrix` does. So does the variable of the campaign that a matrix is
of, where it has one.

@thinned("zone", ["UTC", "Europe/Berlin", "America/New_York"], count=1)
def test_of_zones(zone): ...

SEEDS = rounds("SHARDLOG_FAULT_COLD", few=1, many=4)      # how often, of a campaign

@covering(fetch=["native", "python"], protocol=["classic", "kip848", "static"])
def test_of_pairs(fetch, protocol): ...     # each value once at least, not each pair
"""

import os
from collections.abc import Iterable, Sequence
from itertools import product
from random import Random
from typing import Any, Final
from zlib import crc32

import pytest

EVERY_CASE: Final = os.environ.get("SHARDLOG_EVERY_CASE") == "1"
_SEED: Final = 20


def every_case(campaign: str) -> bool:
    """Tell whether all cases are wanted: of everything, or by the variable of a campaign."""
    return EVERY_CASE or bool(os.environ.get(campaign))


def thin(cases: Iterable[Any], count: int, campaign: str = "") -> list[Any]:
    """Return a fixed choice of cases in their order, or all of them where all are wanted."""
    cases = list(cases)
    if every_case(campaign) or len(cases) <= count:
        return cases
    chosen = Random(_SEED).sample(range(len(cases)), count)
    return [cases[place] for place in sorted(chosen)]


def thinned(
    names: str, cases: Iterable[Any], count: int, campaign: str = ""
) -> pytest.MarkDecorator:
    """Parametrise a test by a fixed choice of cases."""
    return pytest.mark.parametrize(names, [_marked(case) for case in thin(cases, count, campaign)])


def covering(campaign: str = "", **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrise a test so that each value of each axis comes once at least."""
    if every_case(campaign):
        rows = list(product(*axes.values()))
    else:
        longest = max(map(len, axes.values()))
        rows = [tuple(axis[at % len(axis)] for axis in axes.values()) for at in range(longest)]
    return pytest.mark.parametrize(",".join(axes), [_marked(row) for row in rows])


def thinned_alike(
    metafunc: pytest.Metafunc, name: str, cases: Sequence[str], campaign: str = ""
) -> None:
    """Parametrise each test that asks for a name by one of some cases; its own name says which.

    So half of a folder's tests meet the one and half the other, always the same ones. A test that
    is parametrised by the name meets what it says.
    """
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if name not in metafunc.fixturenames or name in own:
        return
    chosen = [cases[crc32(metafunc.function.__name__.encode()) % len(cases)]]
    wanted = cases if every_case(campaign) else chosen
    metafunc.parametrize(name, [_marked(one) for one in wanted])


def rounds(variable: str, few: int, many: int) -> int:
    """Return how often a campaign repeats its claim: as a variable says, else a few times.

    Where every case is wanted it is as often as somebody once settled for.
    """
    return int(os.environ.get(variable) or (many if EVERY_CASE else few))


def _marked(case: Any) -> Any:
    if isinstance(case, _PARAM):
        return case._replace(marks=[*case.marks, pytest.mark.thinned])
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thinned)


_PARAM = type(pytest.param())
