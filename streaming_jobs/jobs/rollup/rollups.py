"""Roll-ups: what the measurements of an id come to in a window, as columns that can be merged.

    id                                   the secondary, or the key; null is an id of its own
    start                                of the window, in milliseconds
    count, sum, sum_sq                   of the measurements, and of their squares
    min, min_time, max, max_time         of equal ones the earliest
    first, first_time, last, last_time   of one millisecond by shard, then by offset
    first_shard, first_offset, …         where these two came from

`merge` is associative and does not depend on order, but for the rounding of sums: rows may be
rolled up wherever they lie and roll-ups merged later, in any number of steps. Everything is pure,
and whole columns at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SIDES: Final = ("first", "last")
COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "start": pa.int64(),
    "count": pa.int64(),
    "sum": pa.float64(),
    "sum_sq": pa.float64(),
    "min": pa.float64(),
    "min_time": pa.int64(),
    "max": pa.float64(),
    "max_time": pa.int64(),
    **{
        name: kind
        for side in _SIDES
        for name, kind in (
            (side, pa.float64()),
            (f"{side}_time", pa.int64()),
            (f"{side}_shard", pa.int32()),
            (f"{side}_offset", pa.int64()),
        )
    },
}
_RADIX_MAX: Final = 2**16

Array = Any
Column = npt.NDArray[Any]
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class Measurements:
    """Rows of one shard or several, each with a value, as columns of one length.

    Attributes:
        ids: Of whom, an Arrow array.
        starts: Where each one's window begins.
        times: When, in milliseconds.
        values: What was measured.
        shards: Where each row lies.
        offsets: At which offset.
    """

    ids: Array
    starts: Column
    times: Column
    values: Column
    shards: Column
    offsets: Column


def schema_of(ids: pa.DataType) -> pa.Schema:
    """Return the columns of roll-ups with ids of a type."""
    columns = [pa.field(name, kind) for name, kind in COLUMNS.items()]
    schema: pa.Schema = _untyped.schema([pa.field("id", ids), *columns])
    return schema


def roll_up(rows: Measurements) -> pa.Table:
    """Return the roll-ups of rows, by id and start."""
    ones = np.ones(len(rows.values), np.int64)
    with np.errstate(over="ignore"):
        squares = rows.values * rows.values
    columns = {"count": ones, "sum": rows.values, "sum_sq": squares}
    columns |= dict.fromkeys(("min", "max", *_SIDES), rows.values)
    columns |= {f"{name}_time": rows.times for name in ("min", "max", *_SIDES)}
    columns |= {f"{side}_shard": rows.shards for side in _SIDES}
    columns |= {f"{side}_offset": rows.offsets for side in _SIDES}
    return _merged(rows.ids, {"start": rows.starts, **columns})


def merge(rollups: pa.Table) -> pa.Table:
    """Return roll-ups with those of one id and start as one, by id and start."""
    combined: Any = rollups.combine_chunks()
    columns = {name: combined.column(name).to_numpy() for name in COLUMNS}
    ids = combined.column("id")
    return _merged(ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids, columns)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of roll-ups as one, unmerged."""
    table: pa.Table = _untyped.concat_tables(tables)
    return table


def newest(rollups: pa.Table) -> pa.Table:
    """Return of those with one id and start the one that stands last, by id and start."""
    groups = _Groups.of(rollups.column("id"), rollups.column("start").to_numpy())
    return rollups.take(_untyped.array(groups.order[groups.ends - 1]))


def only(rollups: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return the roll-ups whose id and start some of `wanted` has."""
    if not wanted.num_rows or not rollups.num_rows:
        return rollups.slice(0, 0)
    pairs = together([wanted.select(["id", "start"]), rollups.select(["id", "start"])])
    groups = _Groups.of(pairs.column("id"), pairs.column("start").to_numpy())
    is_wanted = np.zeros(pairs.num_rows, np.bool_)
    # Of a group what is wanted stands first, since the order is stable.
    among = groups.order[groups.firsts] < wanted.num_rows
    is_wanted[groups.order] = np.repeat(among, groups.ends - groups.firsts)
    return rollups.filter(_untyped.array(is_wanted[wanted.num_rows :]))


def of_windows(rollups: pa.Table, starts: Column) -> pa.Table:
    """Return the roll-ups of windows that begin at one of these."""
    return rollups.filter(_untyped.array(np.isin(rollups.column("start").to_numpy(), starts)))


def with_starts(rollups: pa.Table, starts: Column) -> pa.Table:
    """Return roll-ups as of other windows."""
    place = rollups.schema.get_field_index("start")
    return rollups.set_column(place, "start", _untyped.array(starts, pa.int64()))


def _merged(ids: Array, columns: Mapping[str, Column]) -> pa.Table:
    kind = ids.type
    if not len(ids):
        return schema_of(kind).empty_table()
    groups = _Groups.of(ids, columns["start"])
    made: dict[str, Array] = {"start": columns["start"][groups.order[groups.firsts]]}
    with np.errstate(invalid="ignore", over="ignore"):
        for name in ("count", "sum", "sum_sq"):
            made[name] = np.add.reduceat(columns[name][groups.order], groups.firsts)
    for name, least in (("min", True), ("max", False)):
        time = f"{name}_time"
        values = columns[name] if least else -columns[name]
        place = groups.first_by(values, columns[time])
        made |= {one: columns[one][place] for one in (name, time)}
    for side in _SIDES:
        places = [columns[f"{side}_{what}"] for what in ("time", "shard", "offset")]
        place = groups.first_by(*(places if side == "first" else (-one for one in places)))
        names = (side, *(f"{side}_{what}" for what in ("time", "shard", "offset")))
        made |= {one: columns[one][place] for one in names}
    chosen = ids.take(_untyped.array(groups.order[groups.firsts]))
    arrays = [chosen, *(_untyped.array(made[name], COLUMNS[name]) for name in COLUMNS)]
    table: pa.Table = _untyped.Table.from_arrays(arrays, schema=schema_of(kind))
    return table


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows of one id and start, side by side.

    Attributes:
        order: The rows, group by group, in each as they were.
        firsts: Where each group begins in that order.
        ends: Where it ends.
    """

    order: Column
    firsts: Column
    ends: Column

    @classmethod
    def of(cls, ids: Array, starts: Column) -> "_Groups":
        count, codes = _numbered(ids)
        windows, places = np.unique(starts, return_inverse=True)
        codes = codes * len(windows) + places
        narrow = count * len(windows) <= _RADIX_MAX
        # NOTE: numpy sorts 16 bits by radix, and others by comparing, which takes thrice as long.
        order = np.argsort(codes.astype(np.uint16) if narrow else codes, kind="stable")
        sorted_codes = codes[order]
        changes = np.flatnonzero(sorted_codes[1:] != sorted_codes[:-1]) + 1
        firsts = np.concatenate((np.zeros(min(1, len(codes)), np.int64), changes))
        return cls(order, firsts, np.concatenate((changes, [len(codes)]))[: len(firsts)])

    def first_by(self, *columns: Column) -> Column:
        """Return of each group the row that is least by these columns, and then stands first."""
        places = self.order
        firsts = self.firsts
        is_least = np.ones(len(places), np.bool_)
        for number, column in enumerate(columns):
            values = column[places]
            if number:
                values = np.where(is_least, values, _greatest(values.dtype))
            least = np.minimum.reduceat(values, firsts)
            is_least &= values == np.repeat(least, self.ends - firsts)
        rows = np.where(is_least, np.arange(len(places)), len(places))
        found_rows: Column = places[np.minimum.reduceat(rows, firsts)]
        return found_rows


def _numbered(ids: Array) -> tuple[int, Column]:
    """Return a number for each id, in the order of ids where they are integers, and how many."""
    array = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if pa.types.is_integer(array.type) and not array.null_count:
        values = array.to_numpy().astype(np.int64)
        if not len(values):
            return 0, values
        least, span = values.min(), int(values.max() - values.min()) + 1
        if span <= _RADIX_MAX:
            return span, values - least
        distinct, numbers = np.unique(values, return_inverse=True)
        return len(distinct), numbers
    numbered = _compute.dictionary_encode(array, null_encoding="encode")
    numbers = numbered.indices.to_numpy().astype(np.int64)
    return len(numbered.dictionary), numbers


def _greatest(kind: np.dtype[Any]) -> float | int:
    return np.inf if kind.kind == "f" else int(np.iinfo(kind).max)
