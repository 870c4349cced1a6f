"""The shelf: the images of a stream's parts in a Delta table of a local directory, without a store.

shelf = Shelf(lab.root, directory)
shelf.publish(begin=5)       all parts, as if the rows below address 5 had been published before
shelf.rows()                 what delta-rs reads, by shard and address
shelf.files()                each image, with the part that it stands for
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from storage_core import StreamReader
from storage_core.format.keys import INT64_MAX
from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image import Image, images
from storage_core.lake.statistics import indexed_property
from storage_core.lake.table_columns import TableColumns, table_columns
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.sql.whole_transactions import snapshot_of_shards

Row = dict[str, Any]


@dataclass(frozen=True)
class Shelved:
    """An image, and the part that it stands for."""

    part: Part
    parts: ShardParts
    image: Image


class Shelf:
    """A Delta table with the images of all parts of a stream."""

    def __init__(self, root: Path, name: str, directory: Path) -> None:
        self._root = root
        self._name = name
        self.directory = directory
        self._scratch = directory.with_name(f"{directory.name}-scratch")
        self._scratch.mkdir()
        self.shelved: list[Shelved] = []
        self.columns: TableColumns | None = None

    def publish(self, begin: int = 0) -> None:
        """Make the table hold the images of the parts that there are, cut at an address."""
        with StreamReader.open(self._root, self._name) as reader:
            listed = list(_parts(reader))
            self.columns = table_columns(reader, self._before())
        self._evolve()
        pieces = [AddressRange(0, begin), AddressRange(begin, INT64_MAX)]
        self.shelved = [
            Shelved(part, parts, image)
            for part, parts in listed
            for image in images(part, parts, self.columns, pieces, self._scratch)
        ]
        self._commit()

    @property
    def table(self) -> deltalake.DeltaTable:
        """The table as it is now."""
        return deltalake.DeltaTable(str(self.directory))

    def rows(self) -> list[Row]:
        """Return the rows that delta-rs reads, by shard and address."""
        table = self.table.to_pyarrow_dataset().to_table()
        rows: list[Row] = table.to_pylist(maps_as_pydicts="strict")
        return sorted(rows, key=lambda row: (row["shard"], row["address"]))

    def _before(self) -> pa.Schema | None:
        if not self.directory.exists():
            return None
        schema: Any = self.table.schema().to_arrow()
        return pa.schema(schema)

    def _evolve(self) -> None:
        assert self.columns is not None
        if not self.directory.exists():
            deltalake.DeltaTable.create(
                str(self.directory),
                deltalake.Schema.from_arrow(self.columns.schema),
                partition_by=["shard"],
                configuration=dict(indexed_property(self.columns.schema)),
            )
        elif self.columns.added:
            added = deltalake.Schema.from_arrow(pa.schema(self.columns.added))
            self.table.alter.add_columns(added.fields)

    def _commit(self) -> None:
        """Add what the table lacks, and remove what stands for no part any more.

        IMPORTANT: no commit removes and adds one path: delta-rs then has the file, Spark has not.
        """
        table = self.table
        before = {file["path"]: file for file in _files(table)}
        new = {shelved.image.path: shelved for shelved in self.shelved}
        actions: list[AddAction | RemoveAction] = []
        for path in new.keys() - before.keys():
            image, shard = new[path].image, {"shard": str(new[path].part.shard)}
            (self.directory / path).parent.mkdir(exist_ok=True)
            shutil.copyfile(image.source, self.directory / path)
            actions.append(AddAction(path, image.size, shard, 0, True, image.stats))
        for path in before.keys() - new.keys():
            size, number = before[path]["size_bytes"], path.split("/")[0].removeprefix("shard=")
            actions.append(RemoveAction(path, False, 0, size, {"shard": number}))
        table.create_write_transaction(actions, "append", table.schema(), partition_by=["shard"])


def _files(table: deltalake.DeltaTable) -> list[Row]:
    actions: Any = table.get_add_actions(flatten=True)
    rows: list[Row] = pa.table(actions).to_pylist()
    return rows


def _parts(reader: StreamReader) -> Iterator[tuple[Part, ShardParts]]:
    files = reader.rows.shards.files
    for shard, snapshot in snapshot_of_shards(reader, files).items():
        directory = files.shard_directory(shard)
        for part in listed_parts(shard, directory, snapshot.parts.entries):
            yield part, snapshot.parts
