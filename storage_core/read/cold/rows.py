"""Rows of parts as rows of the log: with the very columns that blocks would have given.

    normal       those that were neither late nor ahead, in no order, a group of a file at a time
    of_slice     all of some addresses, as they came
    decoded      the same as the files have them; `shown` makes rows of the log of some of those

Which addresses are asked for the caller says, by runs: zones know which of them have rows that
still stand. Payloads that parts leave out are made again, of the rows that are wanted alone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.part_entry import PartEntry
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange
from storage_core.parts.footer import Footer
from storage_core.parts.row_groups import PartFile
from storage_core.platform.arrow import Array, int_array
from storage_core.read.cold.parts import index_of, part_path
from storage_core.read.cold.slices import ColdSlice, ColdSlices
from storage_core.read.cold.visible import ShownRows, one_of
from storage_core.read.columns import no_rows
from storage_core.read.row_filter import Int32s, Int64s, Mask, RowFilter
from storage_core.read.rows import in_order
from storage_core.read.view import ShardView

Runs = Sequence[AddressRange]
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class ColdPart:
    """The rows of some addresses of a part as its file has them, payloads not made again.

    Attributes:
        part: Its entry.
        foot: What is known of its file.
        rows: As they lie in the file, each column in one piece.
        addresses: Of the rows, ascending.
        order: The place of the row that has each of them; None if they lie so.
    """

    part: PartEntry
    foot: Footer
    rows: pa.Table
    addresses: Int64s
    order: Int64s | None

    @property
    def bytes_held(self) -> int:
        """What it takes in memory."""
        order = 0 if self.order is None else self.order.nbytes
        return int(self.rows.nbytes) + self.addresses.nbytes + order


class ColdRows:
    """The rows of a view's parts. One thread at a time.

    What is asked for raises `FileNotFoundError` where a part has gone since the view was made, and
    `CorruptionError` where one is damaged, `UnavailableError` where it cannot be read now.
    """

    def __init__(self, view: ShardView, directory: Path) -> None:
        """Look at a view's catalogue.

        Args:
            view: Of the shard.
            directory: Where its parts lie.

        Raises:
            CorruptionError: An entry of the catalogue is damaged.
        """
        self._view = view
        self._directory = directory
        self._index = index_of(view)
        self.slices: Final = ColdSlices(self._index, directory)
        self._has_keys = view.meta.has_keys
        self._show = ShownRows(view)

    def normal(self, wanted: RowFilter, runs: Runs) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of some addresses that were neither late nor ahead, unsorted."""
        for part in self._index.overlapping_any(runs):
            if not part.is_flagged:
                yield from self._rows(part, wanted, _within(runs, part.first, part.last + 1))

    def of_slice(self, some: ColdSlice, columns: tuple[str, ...]) -> pa.RecordBatch:
        """Return all rows of a slice by their addresses, those that had expired among them."""
        return self.in_order(some, [some.range], _all_with(columns))

    def in_order(self, some: ColdSlice, runs: Runs, wanted: RowFilter) -> pa.RecordBatch:
        """Return the wanted rows of a slice that lie in some runs, by their addresses.

        Rows that had expired as they came are those of a replay alone.
        """
        found = [rows for part in some.parts for rows in self._rows(part, wanted, runs)]
        return in_order(found, ("address",), wanted.columns) if found else no_rows(wanted.columns)

    def _path(self, part: PartEntry) -> Path:
        return part_path(self._directory, part)

    def decoded(self, some: ColdSlice, columns: tuple[str, ...]) -> list[ColdPart]:
        """Return the rows of a slice, with what `shown` needs to show them with these columns."""
        wanted = _all_with(columns)
        found = (self._decoded(part, wanted, [some.range]) for part in some.parts)
        return [one for one in found if one is not None]

    def shown(
        self, some: ColdPart, first: int, behind: int, columns: tuple[str, ...]
    ) -> pa.RecordBatch:
        """Return rows by their addresses, from one place among these to before another."""
        rows: Any = some.rows
        if some.order is None:
            rows = rows.slice(first, behind - first)
        else:
            rows = rows.take(int_array(some.order[first:behind]))
        with self._placed(some.part):
            return self._show.of(some.foot, rows, columns)

    def _decoded(self, part: PartEntry, wanted: RowFilter, runs: Runs) -> ColdPart | None:
        chunks: dict[str, list[Array]] = {}
        foot: Footer | None = None
        for told, rows in self._found(part, wanted, runs):
            foot = told
            for name in rows.schema.names:
                chunks.setdefault(name, []).append(one_of(rows, name))
        if foot is None:
            return None
        # One by one, so that what is put together takes the place of what was not.
        columns = {name: _whole(chunks.pop(name)) for name in list(chunks)}
        whole = _untyped.table(columns)
        addresses: Int64s = _numpy(whole, "address")
        if (addresses[1:] >= addresses[:-1]).all():
            return ColdPart(part, foot, whole, addresses, None)
        order = np.argsort(addresses)
        return ColdPart(part, foot, whole, addresses[order], order)

    def _rows(self, part: PartEntry, wanted: RowFilter, runs: Runs) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a part, a group at a time."""
        for foot, rows in self._found(part, wanted, runs):
            with self._placed(part):
                shown = self._show.of(foot, rows, wanted.columns)
            yield shown

    def _found(
        self, part: PartEntry, wanted: RowFilter, runs: Runs
    ) -> Iterator[tuple[Footer, pa.Table]]:
        """Yield the wanted rows of a part as its file has them, a group at a time."""
        if part.primary_max < wanted.start or part.primary_min > wanted.end:
            return
        who = "key" if self._has_keys else "secondary"
        first = tuple(dict.fromkeys((who, "primary", "address", "version", "state")))
        with self._placed(part), PartFile(self._path(part), part.proof) as file:
            more = self._show.more_columns(file.footer, wanted.columns, first)
            for group in self._groups(file, wanted, runs):
                if _are_all_wanted(file.footer, group, wanted, runs):
                    yield file.footer, file.read(group, (*first, *more))
                    continue
                narrow = file.read(group, first)
                mask = self._mask(narrow, wanted, runs)
                if not mask.any():
                    continue
                chosen = None if mask.all() else int_array(np.flatnonzero(mask))
                rows = _taken(narrow, chosen)
                if more:
                    wide = _taken(file.read(group, more), chosen)
                    for field in wide.schema:
                        rows = rows.append_column(field, wide.column(field.name))
                yield file.footer, rows

    @contextmanager
    def _placed(self, part: PartEntry) -> Iterator[None]:
        """Tell of what keeps a part from being read that it is a part's, and of which addresses."""
        try:
            yield
        except (CorruptionError, UnavailableError) as error:
            raise type(error)(
                error.message,
                stream=self._view.stream,
                shard=self._view.shard,
                path=error.path,
                start=part.first,
                end=part.last + 1,
            ) from error

    def _groups(self, file: PartFile, wanted: RowFilter, runs: Runs) -> list[int]:
        """Return the groups of a file that can have wanted rows."""
        foot = file.footer
        mask = foot.may_lie_between("primary", wanted.start, wanted.end)
        mask &= foot.may_lie_between("address", runs[0].start, runs[-1].end - 1)
        if wanted.ids is not None and not self._has_keys:
            mask &= foot.may_have("secondary", wanted.ids)
        if wanted.keys is not None:
            mask &= foot.may_have_keys(wanted.keys)
        found: list[int] = np.flatnonzero(mask).tolist()
        return found

    def _mask(self, rows: pa.Table, wanted: RowFilter, runs: Runs) -> Mask:
        addresses: Int64s = rows.column("address").to_numpy()
        secondaries = self._show.secondaries(rows) if wanted.ids is not None else _NO_IDS
        mask = wanted.choose_rows(
            secondaries, rows.column("primary").to_numpy(), addresses, _numpy(rows, "version")
        )
        starts = np.array([one.start for one in runs], np.int64)
        ends = np.array([one.end for one in runs], np.int64)
        at = np.searchsorted(starts, addresses, side="right") - 1
        mask &= (at >= 0) & (addresses < ends[at])
        if not wanted.is_replay:
            mask &= _numpy(rows, "state") != State.EXPIRED
        return mask


def _all_with(columns: tuple[str, ...]) -> RowFilter:
    return RowFilter(INT64_MIN, INT64_MAX, 0, INT64_MAX, None, None, columns, is_replay=True)


def _are_all_wanted(foot: Footer, group: int, wanted: RowFilter, runs: Runs) -> bool:
    """Tell whether all rows of a group are wanted, whatever they are, by what its foot tells."""
    if not wanted.is_all_primaries or not wanted.is_replay:
        return False
    if any(one is not None for one in (wanted.ids, wanted.keys, wanted.versions)):
        return False
    least, most = foot.table.bounds["address"]
    whole = AddressRange(int(least[group]), int(most[group]) + 1)
    if whole.start < wanted.address_start or whole.end > wanted.address_end:
        return False
    return _within(runs, whole.start, whole.end) == [whole]


_NO_IDS: Final[Int32s] = np.empty(0, np.int32)


def _numpy(rows: pa.Table, name: str) -> Any:  # noqa: ANN401 - of the column's type
    return rows.column(name).to_numpy()


def _taken(rows: pa.Table, chosen: Any) -> pa.Table:  # noqa: ANN401 - an array, or None for all
    return rows if chosen is None else rows.take(chosen)


def _whole(chunks: list[Array]) -> Array:
    whole: Array = chunks[0] if len(chunks) == 1 else _untyped.concat_arrays(chunks)
    return whole


def _within(runs: Runs, start: int, end: int) -> list[AddressRange]:
    """Return what of some runs, which ascend, lies in a range."""
    first = bisect_right(runs, start, key=lambda one: one.end)
    behind = bisect_left(runs, end, key=lambda one: one.start)
    return [AddressRange(max(one.start, start), min(one.end, end)) for one in runs[first:behind]]
