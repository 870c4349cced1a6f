"""Filters of a query that the source answers itself, where `pushdown` asks for it.

A filter that the source takes is not checked again by Spark, so only those are taken that are
answered to the row: comparisons of primary, secondary, offset or partition with an integer.
The rest goes back to Spark. None of the four is null where it is compared: secondary is left to
Spark on streams that show it as null.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from streaming_jobs.batch_reader import RangeReader
from streaming_jobs.option_values import INT64_MAX, INT64_MIN
from streaming_jobs.options import SourceOptions
from streaming_jobs.plain_errors import plain_errors
from streaming_jobs.stream_look import opened, shows_ids

_COMPARISONS: Final = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed range of integers; empty where least is above most."""

    least: int = INT64_MIN
    most: int = INT64_MAX

    def narrowed(self, least: int, most: int) -> "Interval":
        """Return what lies in both."""
        return Interval(max(self.least, least), min(self.most, most))

    def holds(self, value: int) -> bool:
        """Tell whether a number is inside."""
        return self.least <= value <= self.most


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the filters taken leave of each column: a range, and values where some were named."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    values: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def of(self, column: str) -> Interval:
        """Return the range that is left of a column."""
        return self.intervals.get(column, Interval())


def take(pushed: Pushed, asked: Filter, columns: frozenset[str]) -> Pushed | None:
    """Return what is left once a filter holds too, or None if it is for Spark."""
    path: tuple[str, ...] = getattr(asked, "attribute", ())
    name = ".".join(path)
    if name not in columns:
        return None
    if isinstance(asked, IsNotNull):
        return pushed
    if isinstance(asked, In):
        return _take_among(pushed, name, asked.value)
    if not isinstance(asked, _COMPARISONS) or type(asked.value) is not int:
        return None
    if name == "secondary":
        # Ids are looked up one by one: a range of them is no shortcut.
        return _take_among(pushed, name, [asked.value]) if isinstance(asked, EqualTo) else None
    intervals = dict(pushed.intervals)
    intervals[name] = intervals.get(name, Interval()).narrowed(*_ends(asked, asked.value))
    return replace(pushed, intervals=intervals)


def _ends(asked: Filter, value: int) -> tuple[int, int]:
    match asked:
        case EqualTo():
            return value, value
        case GreaterThan():
            return value + 1, INT64_MAX
        case GreaterThanOrEqual():
            return value, INT64_MAX
        case LessThan():
            return INT64_MIN, value - 1
        case _:
            return INT64_MIN, value


def _take_among(pushed: Pushed, name: str, values: Iterable[object]) -> Pushed | None:
    """Take `in` of ids and partitions; a null among the values matches no row."""
    given = [value for value in values if value is not None]
    wanted = frozenset(value for value in given if type(value) is int)
    if name not in ("secondary", "partition") or any(type(value) is not int for value in given):
        return None
    before = pushed.values.get(name, wanted)
    return replace(pushed, values={**pushed.values, name: before & wanted})


class PushedRangeReader(RangeReader):
    """Reads a range, and less of it where filters allow."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep what was asked for."""
        super().__init__(options)
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        """Take the filters that are answered exactly; return the rest."""
        columns = {"primary", "offset", "partition"}
        with plain_errors(), opened(self._options) as reader:
            if shows_ids(reader):
                columns.add("secondary")
        left = []
        for asked in filters:
            taken = take(self._pushed, asked, frozenset(columns))
            if taken is None:
                left.append(asked)
            else:
                self._pushed = taken
        self._narrow()
        return left

    def _narrow(self) -> None:
        pushed = self._pushed
        ids = pushed.values.get("secondary")
        if ids is not None:
            ids = frozenset(one for one in ids if -(2**31) <= one < 2**31)
        primary = pushed.of("primary")
        self._rows = self._rows.narrowed(primary.least, primary.most, ids)

    def clipped(self, ranges: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:  # type: ignore[explicit-override]
        """Return what of the ranges the filters leave."""
        pushed = self._pushed
        offsets, shards = pushed.of("offset"), pushed.of("partition")
        named = pushed.values.get("partition")
        return {
            shard: (max(begin, offsets.least), min(stop, offsets.most + 1))
            for shard, (begin, stop) in ranges.items()
            if shards.holds(shard) and (named is None or shard in named)
        }
