"""Rows of parts as rows of the log: with the very columns that blocks would have given.

    normal       those that were neither late nor future-dated, in no order, by row group
    of_slice     all of some addresses, as they came
    decoded      the same as the files have them; `as_log_rows` makes rows of the log of some

Which addresses are wanted the caller says, by runs: zones know which of them have rows that
still stand. Payloads that parts leave out are rebuilt, of the rows that are wanted alone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.part_entry import PartEntry
from storage_core.format.row_columns import SCHEMA, schema_of
from storage_core.format.shard_state import AddressRange
from storage_core.parts.footer import Footer
from storage_core.parts.part_home import OpenerOf, opener_of
from storage_core.parts.payloads import payloads_of
from storage_core.parts.row_groups import PartFile
from storage_core.parts.snapshot import index_of, listed_part
from storage_core.parts.typed_columns import FRAMING, Writer, columns_in, reader_schema
from storage_core.platform.arrow import Array, distinct, int_array, nulls, one_array, repeated
from storage_core.read.cold.slices import ColdSlice
from storage_core.read.columns import is_late, no_rows
from storage_core.read.keyed import numbers_in
from storage_core.read.row_filter import Int32s, Int64s, Mask, RowFilter
from storage_core.read.rows import in_order
from storage_core.read.schema_columns import schemas_in
from storage_core.read.snapshot import ShardSnapshot

Runs = Sequence[AddressRange]
_untyped: Any = pa
_NO_IDS: Final[Int32s] = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """The rows of some addresses of a part as its file has them, payloads not rebuilt.

    Attributes:
        part: Its entry.
        footer: Of its file.
        rows: As they lie in the file, each column in one piece.
        addresses: Of the rows, ascending.
        order: The place of the row that has each of them; None if they lie so.
    """

    part: PartEntry
    footer: Footer
    rows: pa.Table
    addresses: Int64s
    order: Int64s | None

    @property
    def bytes_held(self) -> int:
        """What it takes in memory."""
        order = 0 if self.order is None else self.order.nbytes
        return int(self.rows.nbytes) + self.addresses.nbytes + order


class ColdRows:
    """The rows of a snapshot's parts. One thread at a time.

    What is read raises `CorruptionError` where a part is damaged, or has gone since the snapshot
    was taken, and `UnavailableError` where it cannot be read now.
    """

    def __init__(
        self, snapshot: ShardSnapshot, directory: Path, opener_of: OpenerOf = opener_of
    ) -> None:
        """Read the parts of a snapshot, whose files lie in a directory, or elsewhere.

        Raises:
            CorruptionError: An entry of the part list is damaged.
        """
        self._snapshot = snapshot
        self._directory = directory
        self._opener_of = opener_of
        self._index = index_of(snapshot)
        self._has_keys = snapshot.meta.has_keys
        self._writers: dict[int, Writer] | None = None
        self._readers: dict[tuple[int, ...], AvroSchema] = {}
        self._key_numbers: dict[bytes | None, int] = {}

    def normal(self, wanted: RowFilter, runs: Runs) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of some addresses that were neither late nor future-dated.

        They are unsorted. Row groups that cannot have a wanted id or time are not read.
        """
        for part in self._index.overlapping_any(runs):
            # Those out of order have the late, the future-dated and the expired.
            if not part.is_out_of_order:
                yield from self._rows(part, wanted, _within(runs, part.first, part.last + 1))

    def of_slice(self, cut: ColdSlice, columns: tuple[str, ...]) -> pa.RecordBatch:
        """Return all rows of a slice by their addresses, those that had expired among them."""
        wanted = _all_with(columns)
        rows = [batch for part in cut.parts for batch in self._rows(part, wanted, [cut.range])]
        return in_order(rows, ("address",), columns) if rows else no_rows(columns)

    def decoded(self, cut: ColdSlice, columns: tuple[str, ...]) -> list[DecodedPart]:
        """Return the rows of a slice, with what `as_log_rows` needs to give them these columns."""
        wanted = _all_with(columns)
        parts = (self._decoded(part, wanted, [cut.range]) for part in cut.parts)
        return [part for part in parts if part is not None]

    def as_log_rows(
        self, decoded: DecodedPart, first: int, end: int, columns: tuple[str, ...]
    ) -> pa.RecordBatch:
        """Return rows by their addresses, from one place among these to before another."""
        rows: Any = decoded.rows
        if decoded.order is None:
            rows = rows.slice(first, end - first)
        else:
            rows = rows.take(int_array(decoded.order[first:end]))
        with self._placed(decoded.part):
            return self._as_log_rows(decoded.footer, rows, columns)

    def _decoded(self, part: PartEntry, wanted: RowFilter, runs: Runs) -> DecodedPart | None:
        chunks: dict[str, list[Array]] = {}
        footer: Footer | None = None
        for file_footer, rows in self._file_rows(part, wanted, runs):
            footer = file_footer
            for name in rows.schema.names:
                chunks.setdefault(name, []).append(one_array(rows.column(name)))
        if footer is None:
            return None
        # One by one, so that what is put together takes the place of what was not.
        whole = _untyped.table({name: _whole(chunks.pop(name)) for name in list(chunks)})
        addresses: Int64s = _numpy(whole, "address")
        if (addresses[1:] >= addresses[:-1]).all():
            return DecodedPart(part, footer, whole, addresses, None)
        order = np.argsort(addresses)
        return DecodedPart(part, footer, whole, addresses[order], order)

    def _rows(self, part: PartEntry, wanted: RowFilter, runs: Runs) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a part, by row group."""
        for footer, rows in self._file_rows(part, wanted, runs):
            with self._placed(part):
                batch = self._as_log_rows(footer, rows, wanted.columns)
            yield batch

    # --- rows as the files have them -------------------------------------------------------

    def _file_rows(
        self, part: PartEntry, wanted: RowFilter, runs: Runs
    ) -> Iterator[tuple[Footer, pa.Table]]:
        """Yield the wanted rows of a part as its file has them, by row group."""
        if part.primary_max < wanted.start or part.primary_min > wanted.end:
            return
        identity = "key" if self._has_keys else "secondary"
        first = (identity, "primary", "address", "version", "state")
        listed = listed_part(self._snapshot.shard, self._directory, part)
        with self._placed(part), PartFile(listed.path, part.proof, self._opener_of(listed)) as file:
            more = self._more_columns(file.footer, wanted.columns, first)
            for group in self._row_groups(file.footer, wanted, runs):
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
        """Say of what keeps a part from being read which part it is, and of which addresses."""
        try:
            try:
                yield
            except FileNotFoundError as error:
                message = "the part is gone"
                raise CorruptionError(message, path=Path(error.filename)) from error
        except (CorruptionError, UnavailableError) as error:
            raise type(error)(
                error.message,
                stream=self._snapshot.stream,
                shard=self._snapshot.shard,
                path=error.path,
                start=part.first,
                end=part.last + 1,
            ) from error

    def _row_groups(self, footer: Footer, wanted: RowFilter, runs: Runs) -> list[int]:
        """Return the row groups of a file that can have wanted rows."""
        mask = footer.may_lie_between("primary", wanted.start, wanted.end)
        mask &= footer.may_lie_between("address", runs[0].start, runs[-1].end - 1)
        if wanted.ids is not None and not self._has_keys:
            mask &= footer.may_have("secondary", wanted.ids)
        if wanted.keys is not None:
            mask &= footer.may_have_keys(wanted.keys)
        groups: list[int] = np.flatnonzero(mask).tolist()
        return groups

    def _mask(self, rows: pa.Table, wanted: RowFilter, runs: Runs) -> Mask:
        addresses: Int64s = _numpy(rows, "address")
        secondaries = self._secondaries(rows) if wanted.ids is not None else _NO_IDS
        mask = wanted.choose_rows(
            secondaries, _numpy(rows, "primary"), addresses, _numpy(rows, "version")
        )
        starts = np.array([run.start for run in runs], np.int64)
        ends = np.array([run.end for run in runs], np.int64)
        run = np.searchsorted(starts, addresses, side="right") - 1
        mask &= (run >= 0) & (addresses < ends[run])
        return mask

    # --- rows as the log has them ----------------------------------------------------------

    def _more_columns(
        self, footer: Footer, columns: Sequence[str], first: Sequence[str]
    ) -> list[str]:
        """Return what is to be read of the wanted rows, beside what tells that they are."""
        names = [name for name in columns if name not in (*first, "shard", "secondary", "late")]
        stored = footer.schema.names
        if "payload" in columns and FRAMING in stored:
            names += [SCHEMA, FRAMING, *columns_in(self._reader(footer), stored).values()]
        return [name for name in dict.fromkeys(names) if name in stored]

    def _as_log_rows(
        self, footer: Footer, rows: pa.Table, columns: Sequence[str]
    ) -> pa.RecordBatch:
        """Return rows of a file as rows of the log.

        Raises:
            CorruptionError: One has a key that the shard has no number for.
        """
        arrays = [self._column(footer, rows, name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(tuple(columns)))

    def _column(self, footer: Footer, rows: pa.Table, name: str) -> Array:
        kind = schema_of((name,)).field(0).type
        if name == "shard":
            return repeated(self._snapshot.shard, kind, rows.num_rows)
        if name == "late":
            late: Array = _untyped.array(is_late(_numpy(rows, "state")))
            return late
        if name == "secondary":
            return int_array(self._secondaries(rows))
        if name == "payload" and FRAMING in footer.schema.names:
            return self._payloads(footer, rows)
        if name not in rows.schema.names:
            return nulls(rows.num_rows, kind)
        column: Array = one_array(rows.column(name))
        return column if column.type == kind else column.cast(kind)

    def _secondaries(self, rows: pa.Table) -> Int32s:
        """Return the ids of rows, or the numbers of their keys."""
        if not self._has_keys:
            ids: Int32s = _numpy(rows, "secondary")
            return ids
        distinct_keys, codes = distinct(one_array(rows.column("key")))
        # The last is that of rows without a key, whose code is -1.
        keys: list[Any] = [*distinct_keys.to_pylist(), None]
        for key in keys:
            if key not in self._key_numbers:
                self._key_numbers[key] = self._number_of(key)
        numbers: Int32s = np.array([self._key_numbers[key] for key in keys], np.int32)
        return numbers[codes]

    def _number_of(self, key: bytes | None) -> int:
        numbers = numbers_in(self._snapshot, (key,))
        if not numbers:
            message = "a row of a part has a key that the shard has no number for"
            raise CorruptionError(message, stream=self._snapshot.stream, shard=self._snapshot.shard)
        return numbers[0]

    def _payloads(self, footer: Footer, rows: pa.Table) -> Array:
        if "payload" not in rows.schema.names:
            rows = rows.append_column("payload", nulls(rows.num_rows, pa.binary()))
        reader = self._reader(footer)
        columns = columns_in(reader, footer.schema.names)
        payloads: Array = payloads_of(rows, self._all_writers(), columns, reader)
        return payloads

    def _reader(self, footer: Footer) -> AvroSchema:
        """Return the schema by which a part shows values."""
        numbers = footer.table.schemas
        if numbers not in self._readers:
            self._readers[numbers] = reader_schema(self._all_writers(), numbers)
        return self._readers[numbers]

    def _all_writers(self) -> dict[int, Writer]:
        if self._writers is None:
            self._writers = {
                number: Writer(AvroSchema.stored(schema.text), schema.registry_id)
                for number, schema in enumerate(schemas_in(self._snapshot))
            }
        return self._writers


def _all_with(columns: tuple[str, ...]) -> RowFilter:
    return RowFilter(INT64_MIN, INT64_MAX, 0, INT64_MAX, None, None, columns, is_replay=True)


def _are_all_wanted(footer: Footer, group: int, wanted: RowFilter, runs: Runs) -> bool:
    """Tell whether all rows of a row group are wanted, by what the footer tells of it."""
    if not wanted.is_all_primaries or not wanted.is_replay:
        return False
    if any(condition is not None for condition in (wanted.ids, wanted.keys, wanted.versions)):
        return False
    least, most = footer.table.bounds["address"]
    whole = AddressRange(int(least[group]), int(most[group]) + 1)
    if whole.start < wanted.address_start or whole.end > wanted.address_end:
        return False
    return _within(runs, whole.start, whole.end) == [whole]


def _numpy(rows: pa.Table, name: str) -> Any:  # noqa: ANN401 - of the column's type
    return rows.column(name).to_numpy()


def _taken(rows: pa.Table, chosen: Any) -> pa.Table:  # noqa: ANN401 - an array, or None for all
    return rows if chosen is None else rows.take(chosen)


def _whole(chunks: list[Array]) -> Array:
    whole: Array = chunks[0] if len(chunks) == 1 else _untyped.concat_arrays(chunks)
    return whole


def _within(runs: Runs, start: int, end: int) -> list[AddressRange]:
    """Return what of some runs, which ascend, lies in a range."""
    first = bisect_right(runs, start, key=lambda run: run.end)
    behind = bisect_left(runs, end, key=lambda run: run.start)
    return [AddressRange(max(run.start, start), min(run.end, end)) for run in runs[first:behind]]
