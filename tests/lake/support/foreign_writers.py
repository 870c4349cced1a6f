"""What other programs write into a table, wherever its files lie: none of them has a shard's name.

WRITERS              what one does to a table with rows of shard 1
FOREIGN_SHARDS       the number of a shard that the path of its file tells, of each
"""

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

Writer = Callable[[DeltaTable], None]
NOBODYS: Final = 99


def append_to_shard_1(table: DeltaTable) -> None:
    """Write a row again."""
    _append(table, 1)


def append_to_another_shard(table: DeltaTable) -> None:
    """Write a row of a shard that nobody has."""
    _append(table, NOBODYS)


def append_to_no_shard(table: DeltaTable) -> None:
    """Write a row whose shard is null."""
    _append(table, None)


def add_outside_of_directories(table: DeltaTable) -> None:
    """Name a file of shard 1 that lies in no directory."""
    added = AddAction("part-0.snappy.parquet", 100, {"shard": "1"}, 0, True, '{"numRecords":1}')
    table.create_write_transaction([added], "append", table.schema(), partition_by=["shard"])


def move_shard_1(table: DeltaTable) -> None:
    """Let all rows of a shard be those of another."""
    table.update(updates={"shard": str(NOBODYS)}, predicate="shard = 1")


FOREIGN_SHARDS: Final[Mapping[Writer, int | None]] = {
    append_to_shard_1: 1,
    append_to_another_shard: NOBODYS,
    append_to_no_shard: None,
    add_outside_of_directories: None,
    move_shard_1: NOBODYS,
}
WRITERS: Final = tuple(FOREIGN_SHARDS)


def _append(table: DeltaTable, shard: int | None) -> None:
    rows = pa.table(table.to_pyarrow_table()).slice(0, 1)
    place = rows.schema.get_field_index("shard")
    write_deltalake(
        table, rows.set_column(place, "shard", pa.array([shard], pa.int32())), mode="append"
    )
