"""The rows of a lake and of those who own its shards, beside those of one who owned all alone.

Rows are compared by all that matters of them: what they are, in which order, and whether they were
judged late.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from storage_core import StreamReader
from storage_core.lake import LakeTarget
from storage_core.lake.app_id import stream_of
from storage_core.lake.table import LakeTable
from tests.broker.lake.ledger.machines import Machine
from tests.broker.lake.ledger.values import FIELDS, Values

_TYPES: Final[dict[str, pa.DataType]] = {
    "shard": pa.int64(),
    "address": pa.int64(),
    "primary": pa.int64(),
    "timestamp": pa.int64(),
    "secondary": pa.int64(),
    "key": pa.binary(),
    "state": pa.int64(),
    "payload": pa.binary(),
    **FIELDS,
}
# Where a table has a field whose type has changed, if rows with a text came first.
_TEXT_FIRST: Final = {"level": "level_long", "level_string": "level"}
# A word of a difference, for its reader.
_NAMED_MAX: Final = 3

# Of what identity is made of: the id, or the key.
Columns = Sequence[str]


def columns_of(key_mode: str) -> Columns:
    """Return the columns that are compared of a stream whose keys are taken so."""
    identity = "key" if key_mode == "dictionary" else "secondary"
    return ["shard", "address", "primary", "timestamp", identity, "state", "payload"]


def rows_of_lake(
    reader: StreamReader, target: LakeTarget, columns: Columns
) -> tuple[pa.Table, dict[int, int]]:
    """Return the rows of a stream's table, as deltalake reads them, and up to where they go."""
    table = LakeTable.open(target, stream_of(reader))
    assert table is not None, "there is no table"
    options = dict(target.options)
    delta = DeltaTable(target.uri, version=table.version, storage_options=options)
    published = {shard: table.published(shard) or 0 for shard in reader.committed()}
    # The version that is published first has the plain name.
    names = _TEXT_FIRST if "level_long" in table.columns.names else {}
    rows = delta.to_pyarrow_table(columns=[names.get(column, column) for column in columns])
    return _ordered(rows.rename_columns([*columns]), columns), published


def rows_of(reader: StreamReader, shards: Iterable[int], columns: Columns) -> pa.Table:
    """Return the rows of some shards, in the order that they lie in; it is that of addresses."""
    own = [name for name in columns if name != "shard"]
    tables = []
    for shard in shards:
        for batch in reader.tail(shard, columns=own):
            rows = pa.table(batch.select(own))
            tables.append(rows.add_column(0, "shard", pa.array([shard] * rows.num_rows)))
    empty = pa.schema([pa.field(name, _TYPES[name]) for name in columns]).empty_table()
    rows = pa.concat_tables([empty, *(_cast(table, columns) for table in tables)])
    assert rows.equals(_ordered(rows, columns)), "rows are out of the order of their addresses"
    return rows


def dead_letters_of(reader: StreamReader, shards: Iterable[int]) -> dict[tuple[int, int], bytes]:
    """Return the dead letters that wait in some shards, by partition and offset."""
    return {
        (shard, offset): letter for shard in shards for offset, letter in reader.dead_letters(shard)
    }


def expect_equal(rows: pa.Table, wanted: pa.Table, description: str) -> None:
    """Compare rows with those that there must be, and name the first that differ."""
    if rows.equals(wanted):
        return
    places, others = _places(rows), _places(wanted)
    doubled = sorted(place for place in set(places) if places.count(place) > 1)[:_NAMED_MAX]
    lost = sorted(set(others) - set(places))
    strange = sorted(set(places) - set(others))
    message = (
        f"{description}: {rows.num_rows} rows for {wanted.num_rows}; "
        f"missing {len(lost)}, as {lost[:_NAMED_MAX]}; of nobody {strange[:_NAMED_MAX]}; "
        f"twice {doubled}; {_differing(rows, wanted)}"
    )
    raise AssertionError(message)


def typed(rows: pa.Table, values: Values) -> pa.Table:
    """Return rows as a table has them: with each field in its column, and no bytes."""
    columns = [values.columns_of(payload) for payload in rows.column("payload").to_pylist()]
    fields = pa.Table.from_pylist(columns, pa.schema(list(FIELDS.items())))
    left: Any = rows.drop_columns(["payload"])
    for name in FIELDS:
        left = left.append_column(name, fields.column(name))
    return _cast(left, left.schema.names)


def expect_union(
    machines: Sequence[Machine],
    alone: Machine,
    target: LakeTarget,
    columns: Columns,
    values: Values,
) -> pa.Table:
    """Compare the lake, and the owners above it, with who stored all alone.

    Args:
        machines: Those that shared the topic.
        alone: Who had it all.
        target: The lake.
        columns: What is compared, beside the fields of values.
        values: What the topic's records have as values.

    Returns:
        The rows.
    """
    own = [name for name in columns if name != "payload"]
    with alone.reading() as reader:
        ends = reader.committed()
        wanted = rows_of(reader, sorted(ends), columns)
        in_lake, published = rows_of_lake(reader, target, [*columns, *FIELDS])
    below = wanted.filter(_below(wanted, published))
    expect_equal(in_lake.select([*own, *FIELDS]), typed(below, values), "the lake")
    # Where versions were merged columns tell the value, and not its bytes.
    pairs = zip(in_lake["payload"].to_pylist(), below["payload"].to_pylist(), strict=True)
    assert all(left in (None, payload) for left, payload in pairs), "bytes of other values"
    owned: set[int] = set()
    for machine in machines:
        if shards := machine.whole_shards(ends):
            owned.update(shards)
            with machine.reading() as reader:
                rows = rows_of(reader, shards, columns)
            theirs = wanted.filter(pc.is_in(wanted["shard"], pa.array(shards, pa.int64())))
            expect_equal(rows, theirs, machine.name)
    rest = {shard for shard, end in ends.items() if published[shard] < end}
    assert rest <= owned, f"nobody has the rest of {sorted(rest - owned)}"
    return wanted


def _below(rows: pa.Table, published: dict[int, int]) -> pa.BooleanArray:
    return pa.array([address < published[shard] for shard, address in _places(rows)], pa.bool_())


def _ordered(rows: pa.Table, columns: Columns) -> pa.Table:
    return _cast(rows, columns).sort_by([("shard", "ascending"), ("address", "ascending")])


def _cast(rows: pa.Table, columns: Columns) -> pa.Table:
    schema = pa.schema([pa.field(name, _TYPES[name]) for name in columns])
    return rows.select([*columns]).cast(schema)


def _places(rows: pa.Table) -> list[tuple[int, int]]:
    shards, addresses = rows["shard"].to_numpy(), rows["address"].to_numpy()
    return list(zip(shards.tolist(), addresses.tolist(), strict=True))


def _differing(rows: pa.Table, wanted: pa.Table) -> str:
    by_place: dict[tuple[int, int], dict[str, Any]] = {
        (row["shard"], row["address"]): row for row in wanted.to_pylist()
    }
    differing = [
        (row, by_place[row["shard"], row["address"]])
        for row in rows.to_pylist()
        if row != by_place.get((row["shard"], row["address"]), row)
    ]
    return f"{len(differing)} differ, as {differing[:_NAMED_MAX]}"
