"""Rounds of contestants, and the rows of figures that are drawn from them.

A contestant does a fixed piece of work once and says how it went. A round runs all contestants
of an experiment one after the other, every second round in reverse order, so that whatever
drifts (a neighbour's load, a disk that fills) meets both sides alike. A row compares within a
round first and takes the median over the rounds after: pairs, not averages. Where a peer is too
slow to compare with, or a pace was not held, the experiment is void: one line says so, and there is
no figure of it.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Measured = Mapping[str, float]
Contestant = Callable[[], Measured]
Round = Mapping[str, Measured]
Figure = tuple[str, str]
_TRIES_MAX: Final = 3
_PACE_SHARE_MIN: Final = 0.97


class VoidError(Exception):
    """An experiment has no figures that count; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        name: Unique, `experiment/row`.
        text: What is measured, in a sentence that stands alone.
        top: Contestant and field that are measured.
        bottom: What `top` is compared with, or None where the figure stands for itself.
        sense: On which side of the limit is good; None where more is neither good nor bad.
        limit: Beyond it the command fails; None where the figure is only reported.
        wanted: What we are after.
        compared: How `top` is compared: divided by `bottom`, or by how much it is more.
    """

    name: str
    text: str
    top: Figure
    bottom: Figure | None = None
    sense: Literal["at least", "at most"] | None = "at least"
    limit: float | None = None
    wanted: float | None = None
    compared: Literal["ratio", "difference"] = "ratio"

    def value(self, measured: Round) -> float:
        """Return the row's figure for one round."""
        figure = measured[self.top[0]][self.top[1]]
        if self.bottom is None:
            return figure
        other = measured[self.bottom[0]][self.bottom[1]]
        return figure / other if self.compared == "ratio" else figure - other

    def meets(self, bound: float | None, figure: float) -> bool:
        """Tell whether a figure is on the good side of a bound."""
        if bound is None:
            return True
        return figure >= bound if self.sense == "at least" else figure <= bound


@dataclass(frozen=True, slots=True)
class Experiment:
    """Contestants that are measured together, and the rows they yield.

    `contestants` makes everything ready under an empty directory, yields the contestants by
    name, and lets go of all. `rounds_max` bounds the rounds where one takes minutes.
    """

    name: str
    rows: tuple[Row, ...]
    contestants: Callable[[Path], AbstractContextManager[Mapping[str, Contestant]]]
    rounds_max: int | None = None
    is_default: bool = True
    bytes_needed: int = 2 * 2**30


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row's figures, one a round."""

    row: Row
    figures: tuple[float, ...]
    top: float
    bottom: float | None

    @property
    def median(self) -> float:
        """The figure that is judged."""
        return statistics.median(self.figures)

    @property
    def is_missed(self) -> bool:
        """Tell whether the row is beyond its limit."""
        return not self.row.meets(self.row.limit, self.median)

    @property
    def verdict(self) -> str:
        """What to make of it, in a word."""
        if self.is_missed:
            return "MISSED"
        if self.row.limit is None and self.row.wanted is None:
            return "reported"
        is_wanted = self.row.wanted is not None and self.row.meets(self.row.wanted, self.median)
        return "wanted" if is_wanted else "passed"


def run_rounds(
    contestants: Mapping[str, Contestant], rounds: int, started: Callable[[int, str], None]
) -> Iterator[Round]:
    """Yield rounds; `started` is told the round's number and the contestant at each start."""
    names = list(contestants)
    for number in range(rounds):
        measured: dict[str, Measured] = {}
        for name in names if number % 2 == 0 else reversed(names):
            started(number, name)
            # What one contestant left to be written must not slow the next.
            os.sync()
            measured[name] = contestants[name]()
        yield measured


def row_results(rows: Iterable[Row], rounds: Sequence[Round]) -> list[RowResult]:
    """Return what the rounds say of each row."""
    return [
        RowResult(
            row,
            tuple(row.value(measured) for measured in rounds),
            _median_of(rounds, row.top),
            None if row.bottom is None else _median_of(rounds, row.bottom),
        )
        for row in rows
    ]


@contextmanager
def timed(rows: int) -> Iterator[dict[str, float]]:
    """Fill in, when the block ends, the rates of its rows: by the clock, by processor time.

    Where a machine is shared the second tells what the first would be on a quiet one.
    """
    measured: dict[str, float] = {}
    start, start_cpu = time.perf_counter(), time.process_time()
    yield measured
    measured["rate"] = rows / (time.perf_counter() - start)
    measured["cpu_rate"] = rows / (time.process_time() - start_cpu)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latencies(seconds: Sequence[float]) -> dict[str, float]:
    """Return the fields p50 and p99."""
    return {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99)}


def fast_enough(run: Contestant, rate_min: float, name: str) -> Measured:
    """Return what a peer measured once its rate was high enough to compare with, in a few tries.

    Raises:
        VoidError: It never was.
    """
    rates = []
    for _ in range(_TRIES_MAX):
        measured = run()
        if measured["rate"] >= rate_min:
            return measured
        rates.append(round(measured["rate"]))
    message = f"{name} makes no more than {max(rates)} records/s"
    raise VoidError(message)


def check_pace(achieved: float, pace: float) -> None:
    """Refuse what was measured at another pace.

    Raises:
        VoidError: The producer was too slow.
    """
    if achieved < _PACE_SHARE_MIN * pace:
        message = f"the producer makes no more than {achieved:.0f} records/s"
        raise VoidError(message)


def _median_of(rounds: Sequence[Round], figure: Figure) -> float:
    return statistics.median(measured[figure[0]][figure[1]] for measured in rounds)
