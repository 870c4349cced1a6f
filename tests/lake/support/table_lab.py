"""The vocabulary of tests of a table: files of one row are put and committed, and read by others.

lab = TableLab(store)           a table of its own, made
lab.add(1, 2)                   files of the addresses 1 and 2 of shard 3 are uploaded
lab.keep(1, 2)                  and committed
lab.other()                     the same table, loaded by somebody else
lab.addresses()                 of the rows, as deltalake itself reads the table
lab.streamed()                  of the rows that a reader meets who streams the table
"""

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from storage_core.lake.app_id import LakeStream
from storage_core.lake.table import LakeTable, TableFile
from storage_core.lake.target import LakeTarget
from tests.lake.support.stores import Store

STREAM: Final = LakeStream("orders", "topic-id")
COLUMNS: Final = pa.schema([pa.field("address", pa.int64()), pa.field("primary", pa.int64())])
SHARD: Final = 3


class TableLab:
    """A table, and the store that it lies on."""

    def __init__(self, store: Store, target: LakeTarget | None = None, **how: Any) -> None:
        self.store = store
        self.target = target or store.target()
        self.table = LakeTable.create(self.target, STREAM, COLUMNS, **how)

    def other(self, target: LakeTarget | None = None) -> LakeTable:
        """Return the table as somebody else loads it now."""
        table = LakeTable.open(target or self.target, STREAM)
        assert table is not None
        return table

    def add(self, *addresses: int, shard: int = SHARD, is_new: bool = True) -> list[TableFile]:
        """Upload a file for each address."""
        return [self.add_of([address], shard, is_new=is_new) for address in addresses]

    def add_of(
        self, addresses: Iterable[int], shard: int = SHARD, *, is_new: bool = True
    ) -> TableFile:
        """Upload a file of some addresses."""
        rows = list(addresses)
        path = path_of(rows[0], rows[-1], shard)
        with TemporaryDirectory() as directory:
            file = Path(directory) / "file.parquet"
            pq.write_table(pa.table({"address": rows, "primary": rows}, COLUMNS), file)
            self.table.put(path, file)
            stats = json.dumps({"numRecords": len(rows)})
            return TableFile(path, file.stat().st_size, len(rows), stats, is_new)

    def keep(self, *addresses: int, shard: int = SHARD) -> list[str]:
        """Upload a file for each address and commit them; return their paths."""
        files = self.add(*addresses, shard=shard)
        self.table.commit(shard, files, [], addresses[-1] + 1)
        return [file.path for file in files]

    def delta(self, version: int | None = None) -> DeltaTable:
        """Return the table as deltalake opens it."""
        options = dict(self.target.options)
        return DeltaTable(self.target.uri, version=version, storage_options=options)

    def addresses(self, version: int | None = None) -> list[int]:
        """Return the addresses of the rows of a version, as deltalake reads them."""
        rows = self.delta(version).to_pyarrow_table(columns=["address"]).to_pylist()
        return sorted(row["address"] for row in rows)

    def streamed(self) -> list[int]:
        """Return the first addresses of the files that a reader meets who streams the table."""
        return sorted(
            int(action["add"]["path"].partition("/")[2][:20])
            for action in self.log()
            if action.get("add", {}).get("dataChange")
        )

    def log(self) -> list[dict[str, Any]]:
        """Return the actions of all commits, oldest first."""
        return [
            json.loads(line)
            for path in self.store.paths(self.target)
            if path.startswith("_delta_log/") and path.endswith(".json")
            for line in self.store.read(self.target, path).splitlines()
        ]


def path_of(first: int, last: int, shard: int = SHARD) -> str:
    """Return the path of a file of some addresses."""
    return f"shard={shard}/{first:020}-{last:020}-{first * 1000 + last:032x}.parquet"
