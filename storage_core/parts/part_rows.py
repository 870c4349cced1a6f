"""Splits stored rows into the tables that parts are written of, one for each value schema.

A part has, in this order, `shard`, `secondary` (or `key`, where rows belong to keys), `primary`,
`address`, `version`, `state`, `committed_at_ms`, what rows brought beside them (`key`, `headers`,
`timestamp`, `timestamp_type`), `payload`; and of values that a schema wrote `schema_id`, `schema`
(its number in the shard), `framing` and the value's fields. Columns that have nothing are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.record import State
from storage_core.format.row_columns import COMMITTED, ENVELOPE, STORED
from storage_core.format.schema_entry import SchemaEntry
from storage_core.parts.payloads import with_typed_columns
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.typed_columns import FRAMING, Writer
from storage_core.platform.arrow import one_array

RAW: Final = ""
_COMMITTED_AT: Final = STORED.index("state") + 1
# Exports lack it: of rows that are equal in two shards the one committed later is the newest.
_IN_ORDER: Final = (*STORED[:_COMMITTED_AT], COMMITTED, *STORED[_COMMITTED_AT:])
# What is left out where no row has it.
_OPTIONAL: Final = frozenset((*ENVELOPE, "payload"))
_NO_SCHEMA: Final = -1
_untyped: Any = pa
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of one part to be.

    Attributes:
        kind: The full name of the schema of their values; empty where there is none.
        is_out_of_order: Whether they were late, ahead or expired when they came.
        rows: Sorted.
        order: The columns they are sorted by.
    """

    kind: str
    is_out_of_order: bool
    rows: pa.Table
    order: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """The rows of a part as they came, and the numbers of their schemas."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)

    def add(self, batch: pa.RecordBatch, numbers: Int32s) -> None:
        self.batches.append(batch)
        self.numbers.update(_distinct(numbers))


def part_rows(
    stored: Iterable[pa.RecordBatch],
    *,
    has_keys: bool,
    writers: Sequence[Writer],
    on_rows: OnRows = ignore_rows,
) -> Iterator[PartRows]:
    """Yield stored rows by part.

    Args:
        stored: Batches with the columns of `STORED`, `COMMITTED` if it is to be shown, and
            `schema`: the number of the schema, null for none. None of them is kept for longer than
            its rows are needed.
        has_keys: Whether rows belong to keys.
        writers: The schema of each number.
        on_rows: Called with 0 between the pieces that are decoded: they are not counted.
    """
    by = ("key" if has_keys else "secondary", "primary", "address")
    by_number = dict(enumerate(writers))
    groups = _by_part(stored, [writer.schema.full_name for writer in writers])
    for kind, is_out_of_order in list(groups):
        group = groups.pop((kind, is_out_of_order))
        if kind == RAW:
            rows = _untyped.Table.from_batches(group.batches)
        else:
            rows = with_typed_columns(group.batches, by_number, sorted(group.numbers), on_rows)
        group.batches.clear()
        columns = {name: rows.column(name) for name in _columns(rows, has_keys=has_keys)}
        order = _untyped.array(_order(rows, has_keys=has_keys))
        del rows
        # One by one, so that what is sorted takes the place of what was not.
        ordered = {name: one_array(columns.pop(name)).take(order) for name in list(columns)}
        yield PartRows(kind, is_out_of_order, _untyped.table(ordered), by)


def _by_part(
    stored: Iterable[pa.RecordBatch], kinds: Sequence[str]
) -> dict[tuple[str, bool], _Group]:
    """Return rows by kind, in the order of the schemas, and by whether they are out of order."""
    names = [*dict.fromkeys((*kinds, RAW))]
    place = {name: index for index, name in enumerate(names)}
    # The last is that of rows without a schema, whose number is -1.
    of_number = np.array([*(place[kind] for kind in kinds), place[RAW]], np.int64)
    groups: dict[int, _Group] = {}
    for batch in stored:
        column: Any = batch.column("schema")
        numbers = column.fill_null(_NO_SCHEMA).to_numpy()
        is_out_of_order = batch.column("state").to_numpy() != State.NORMAL
        parts = of_number[numbers] * 2 + is_out_of_order
        present = _distinct(parts)
        for part in present:
            rows, of_rows = batch, numbers
            if len(present) > 1:
                places = np.flatnonzero(parts == part)
                rows, of_rows = batch.take(_untyped.array(places)), numbers[places]
            groups.setdefault(part, _Group()).add(rows, of_rows)
    return {(names[part // 2], bool(part % 2)): groups[part] for part in sorted(groups)}


def _distinct(numbers: npt.NDArray[Any]) -> list[int]:
    """Return which numbers there are, ascending; mostly there is one."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    distinct: list[int] = np.unique(numbers).tolist()
    return distinct


def numbered(batch: pa.RecordBatch, numbers: dict[tuple[int, bytes], int]) -> pa.RecordBatch:
    """Return a batch with the numbers of its rows' schemas in the place of their fingerprints."""
    ids: Any = batch.column("schema_id")
    schemas: Any = batch.column("schema_fingerprint")
    columns = {name: batch.column(name) for name in batch.schema.names}
    del columns["schema_fingerprint"]
    if ids.null_count == len(ids):
        columns["schema"] = _untyped.nulls(len(ids), pa.int32())
    else:
        encoded = schemas.dictionary_encode()
        fingerprints = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(0).to_numpy()
        pairs = ids.fill_null(0).to_numpy().astype(np.int64) << 32 | codes
        has_schema = ids.is_valid().to_numpy(zero_copy_only=False)
        if has_schema.all() and (pairs == pairs[0]).all():
            # All rows of most batches.
            distinct, inverse = pairs[:1], np.zeros(len(pairs), np.int64)
        else:
            distinct, inverse = np.unique(pairs, return_inverse=True)
        number_of = np.full(len(distinct), _NO_SCHEMA, np.int32)
        for index in np.unique(inverse[has_schema]):
            pair = int(distinct[index])
            number_of[index] = numbers[pair >> 32, fingerprints[pair & 0xFFFFFFFF]]
        columns["schema"] = _untyped.array(number_of[inverse], mask=~has_schema)
    return pa.RecordBatch.from_pydict(columns)


def stored_columns(*, has_keys: bool) -> tuple[str, ...]:
    """Return the stored columns that parts and exports have of a shard's rows."""
    return tuple(name for name in STORED if not (has_keys and name == "secondary"))


def part_columns(*, has_keys: bool) -> tuple[str, ...]:
    """Return the stored columns of which parts are built that can replace blocks."""
    return (*stored_columns(has_keys=has_keys), COMMITTED)


def numbers_of(entries: Sequence[SchemaEntry]) -> dict[tuple[int, bytes], int]:
    """Return the number of each schema by its registry id and fingerprint."""
    return {(entry.registry_id, entry.fingerprint): n for n, entry in enumerate(entries)}


def _order(rows: pa.Table, *, has_keys: bool) -> Int64s:
    """Return the rows' places by (secondary or key, primary, address)."""
    primaries, addresses = rows.column("primary").to_numpy(), rows.column("address").to_numpy()
    if not has_keys:
        owners = rows.column("secondary").to_numpy()
    else:
        encoded: Any = rows.column("key").combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        rank = np.empty(len(texts) + 1, np.int64)
        rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(1, len(texts) + 1)
        # Rows without a key come first.
        rank[-1] = 0
        owners = rank[encoded.indices.fill_null(-1).to_numpy()]
    return np.lexsort((addresses, primaries, owners))


def _columns(rows: pa.Table, *, has_keys: bool) -> list[str]:
    """Return the columns that have values, in the order of parts."""
    names = [name for name in _IN_ORDER if name in rows.schema.names]
    if has_keys:
        names.remove("key")
        names.insert(1, "key")
    names = [
        name
        for name in names
        if name not in _OPTIONAL
        or rows.column(name).null_count < len(rows)
        or (has_keys and name == "key")
    ]
    if rows.column("schema").null_count == len(rows):
        names.remove("schema_id")
        return names
    # The value's fields stand behind.
    framing = rows.schema.names.index(FRAMING)
    return [*names, "schema", *rows.schema.names[framing:]]
