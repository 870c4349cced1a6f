"""Rows of parts as rows of the log: with the very columns that blocks would have given.

    normal       those that were neither late nor ahead, in no order, a group of a file at a time
    by_address   all of them as they came; memory of some hundred thousand rows

Which addresses are asked for the caller says, by runs: zones know which of them have rows that
still stand. Payloads that parts leave out are made again, of the rows that are wanted alone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.fields import AvroSchema
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.part_entry import PartEntry
from storage_core.format.record import SCHEMA, State
from storage_core.format.shard_state import AddressRange
from storage_core.ground.arrow import Array, distinct, int_array, nulls, repeated
from storage_core.read.columns import is_late, read_schema
from storage_core.read.keyed import numbers_in
from storage_core.read.parts import index_of
from storage_core.read.row_filter import Int32s, Int64s, Mask, RowFilter
from storage_core.read.rows import in_order
from storage_core.read.schema_columns import schemas_in
from storage_core.read.view import ShardView
from storage_core.sealed.part_groups import PartFile, foot_of
from storage_core.sealed.part_values import (
    FRAMING,
    Writer,
    column_of,
    payloads_of,
    reader_of,
    shown_fields,
)

Runs = Sequence[AddressRange]
_SLICE_BYTES: Final = 2**27
_SLICE_ROWS: Final = 2**18
_BATCH_ROWS: Final = 8192
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class ColdSlice:
    """Some addresses, so many as memory is meant to take, and the parts with rows of them."""

    range: AddressRange
    parts: tuple[PartEntry, ...]


class ColdRows:
    """The rows of a view's parts. One thread at a time.

    What is asked for raises `FileNotFoundError` where a part has gone since the view was made, and
    `CorruptionError` where one is damaged.
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
        self._has_keys = view.meta.has_keys
        self._writers: dict[int, Writer] | None = None
        self._readers: dict[tuple[int, ...], AvroSchema] = {}
        self._numbers: dict[bytes | None, int] = {}

    def normal(self, wanted: RowFilter, runs: Runs) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of some addresses that were neither late nor ahead, unsorted."""
        for part in self._index.overlapping_any(runs):
            if not part.is_flagged:
                yield from self._rows(part, wanted, _within(runs, part.first, part.last + 1))

    def by_address(self, wanted: RowFilter, runs: Runs) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the wanted rows of some addresses in their order, each batch with its end.

        Rows that had expired as they came are those of a replay alone.
        """
        columns = tuple(dict.fromkeys((*wanted.columns, "address")))
        whole = replace(wanted, columns=columns)
        at, end = (runs[0].start, runs[-1].end) if runs else (0, 0)
        while (one := self.slice_at(at, end)) is not None:
            some = _within(runs, max(at, one.range.start), one.range.end)
            if rows := self._in_order(one, some, whole):
                yield from _in_batches(rows, wanted.columns)
            at = one.range.end

    def slice_at(self, address: int, end: int) -> ColdSlice | None:
        """Return the slice with the first address from one to before another that a part may have.

        It begins where a part does, or ends. It goes on within the largest part that is there, as
        long as others that begin have no more rows than those of its begin: parts are sorted by
        id, so that few addresses cost whole parts.
        """
        near = self._index.overlapping(address, end)
        if not near:
            return None
        found = self._index.around(max(address, min(one.first for one in near)))
        parts = self._index.overlapping(found.start, found.end)
        spare = sum(one.rows for one in parts)
        most = max(parts, key=lambda one: one.rows).last + 1
        most = min(most, max(found.end, found.start + _SLICE_ROWS))
        while (more := self._index.around(found.end).end) <= most:
            new = [
                one for one in self._index.overlapping(found.end, more) if one.first >= found.end
            ]
            spare -= sum(one.rows for one in new)
            if spare < 0:
                break
            found, parts = AddressRange(found.start, more), [*parts, *new]
        return self._cut(ColdSlice(found, tuple(parts)), max(address, found.start))

    def slice_of(self, start: int, end: int) -> ColdSlice:
        """Return the slice of these very addresses, with no parts but those that can have some."""
        return ColdSlice(AddressRange(start, end), tuple(self._index.overlapping(start, end)))

    def _cut(self, some: ColdSlice, address: int) -> ColdSlice:
        """Return what of a slice is about an address, so much as memory is meant to take."""
        start, end = some.range.start, some.range.end
        rows = size = 0.0
        try:
            for part in some.parts:
                inside = min(end, part.last + 1) - max(start, part.first)
                share = inside / (part.last + 1 - part.first)
                rows += share * part.rows
                size += share * foot_of(self._path(part), part.proof).decoded_bytes
        except CorruptionError as error:
            raise error.placed(self._view.stream, self._view.shard) from error
        step = -(-(end - start) // (int(max(size / _SLICE_BYTES, rows / _SLICE_ROWS)) + 1))
        begin = address - (address - start) % step
        return ColdSlice(AddressRange(begin, min(begin + step, end)), some.parts)

    def of_slice(self, some: ColdSlice, columns: tuple[str, ...]) -> pa.RecordBatch:
        """Return all rows of a slice by their addresses, those that had expired among them."""
        whole = RowFilter(INT64_MIN, INT64_MAX, 0, INT64_MAX, None, None, columns, is_replay=True)
        rows = self._in_order(some, [some.range], whole)
        nothing = _untyped.RecordBatch.from_pylist([], schema=read_schema(columns))
        return nothing if rows is None else rows

    def _in_order(self, some: ColdSlice, runs: Runs, wanted: RowFilter) -> pa.RecordBatch | None:
        if not runs:
            return None
        found = [rows for part in some.parts for rows in self._rows(part, wanted, runs)]
        return in_order(found, ("address",), wanted.columns) if found else None

    def _path(self, part: PartEntry) -> Path:
        return self._directory / part.file_name

    def _rows(self, part: PartEntry, wanted: RowFilter, runs: Runs) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a part, a group at a time."""
        if part.primary_max < wanted.start or part.primary_min > wanted.end:
            return
        who = "key" if self._has_keys else "secondary"
        first = tuple(dict.fromkeys((who, "primary", "address", "version", "state")))
        try:
            with PartFile(self._path(part), part.proof) as file:
                more = self._more_columns(file, wanted.columns, first)
                for group in self._groups(file, wanted, runs):
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
                    yield self._shown(file, rows, wanted.columns)
        except CorruptionError as error:
            raise CorruptionError(
                error.message,
                stream=self._view.stream,
                shard=self._view.shard,
                path=error.path,
                start=part.first,
                end=part.last + 1,
            ) from error

    def _groups(self, file: PartFile, wanted: RowFilter, runs: Runs) -> list[int]:
        """Return the groups of a file that can have wanted rows."""
        foot = file.foot
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
        secondaries = self._secondaries(rows) if wanted.ids is not None else _NO_IDS
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

    def _secondaries(self, rows: pa.Table) -> Int32s:
        """Return the ids of rows, or the numbers of their keys."""
        if not self._has_keys:
            ids: Int32s = _numpy(rows, "secondary")
            return ids
        keys, codes = distinct(_one(rows, "key"))
        here: list[Any] = keys.to_pylist()
        for key in (*here, None):
            if key not in self._numbers:
                self._numbers[key] = self._number_of(key)
        # The last is that of rows without a key, whose code is -1.
        numbers = np.array([self._numbers[key] for key in (*here, None)], np.int32)
        found: Int32s = numbers[codes]
        return found

    def _number_of(self, key: bytes | None) -> int:
        found = numbers_in(self._view, (key,))
        if not found:
            message = "a row of a part has a key that the shard has no number for"
            raise CorruptionError(message, stream=self._view.stream, shard=self._view.shard)
        return found[0]

    def _more_columns(
        self, file: PartFile, columns: Sequence[str], first: Sequence[str]
    ) -> list[str]:
        """Return what is to be read of the wanted rows, beside what tells that they are."""
        names = [name for name in columns if name not in (*first, "shard", "secondary", "late")]
        if "payload" in columns and FRAMING in file.foot.schema.names:
            fields = shown_fields(self._reader(file))
            names += [SCHEMA, FRAMING, *(column_of(name) for name in fields)]
        there = file.foot.schema.names
        return [name for name in dict.fromkeys(names) if name in there]

    def _shown(self, file: PartFile, rows: pa.Table, columns: Sequence[str]) -> pa.RecordBatch:
        arrays = [self._column(file, rows, name) for name in columns]
        schema = read_schema(tuple(columns))
        if not columns:
            counted = pa.RecordBatch.from_arrays([_one(rows, "address")], names=["address"])
            return counted.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, file: PartFile, rows: pa.Table, name: str) -> Array:
        kind = read_schema((name,)).field(0).type
        if name == "shard":
            return repeated(self._view.shard, kind, rows.num_rows)
        if name == "late":
            late: Array = _untyped.array(is_late(_numpy(rows, "state")))
            return late
        if name == "secondary":
            return int_array(self._secondaries(rows))
        if name == "payload" and FRAMING in file.foot.schema.names:
            return self._payloads(file, rows)
        if name not in rows.schema.names:
            return nulls(rows.num_rows, kind)
        column = _one(rows, name)
        return column if column.type == kind else column.cast(kind)

    def _payloads(self, file: PartFile, rows: pa.Table) -> Array:
        if "payload" not in rows.schema.names:
            rows = rows.append_column("payload", nulls(rows.num_rows, pa.binary()))
        reader = self._reader(file)
        made: Array = payloads_of(rows, self._all_writers(), shown_fields(reader), reader)
        return made

    def _reader(self, file: PartFile) -> AvroSchema:
        """Return the schema by which a part shows values."""
        numbers = file.foot.table.schemas
        if numbers not in self._readers:
            self._readers[numbers] = reader_of(self._all_writers(), numbers)
        return self._readers[numbers]

    def _all_writers(self) -> dict[int, Writer]:
        if self._writers is None:
            self._writers = {
                number: Writer(AvroSchema.parse(one.text), one.registry_id)
                for number, one in enumerate(schemas_in(self._view))
            }
        return self._writers


_NO_IDS: Final[Int32s] = np.empty(0, np.int32)


def _numpy(rows: pa.Table, name: str) -> Any:  # noqa: ANN401 - of the column's type
    return rows.column(name).to_numpy()


def _taken(rows: pa.Table, chosen: Any) -> pa.Table:  # noqa: ANN401 - an array, or None for all
    return rows if chosen is None else rows.take(chosen)


def _one(rows: pa.Table, name: str) -> Array:
    column: Any = rows.column(name)
    whole: Array = column.combine_chunks()
    return whole


def _within(runs: Runs, start: int, end: int) -> list[AddressRange]:
    """Return what of some runs, which ascend, lies in a range."""
    first = bisect_right(runs, start, key=lambda one: one.end)
    behind = bisect_left(runs, end, key=lambda one: one.start)
    return [AddressRange(max(one.start, start), min(one.end, end)) for one in runs[first:behind]]


def _in_batches(
    rows: pa.RecordBatch, columns: tuple[str, ...]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    addresses = rows.column("address")
    for first in range(0, rows.num_rows, _BATCH_ROWS):
        some = rows.slice(first, _BATCH_ROWS)
        last: Any = addresses[first + some.num_rows - 1].as_py()
        yield some.select(list(columns)), last + 1
