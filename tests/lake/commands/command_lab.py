"""The lab: a stream, its table in a store, and `shardlog lake` over both.

lab.lake("publish")             runs the command, with a file of the store's options
lab.file_of(0)                  a file of a shard in the table, and its range of addresses
lab.change(path, change)        a file of the table with other bytes in the store
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from storage_core import StreamReader
from storage_core.lake.app_id import stream_of
from storage_core.lake.image_names import image_of_path
from storage_core.lake.table import LakeTable
from tests.lake.publish.publish_lab import PublishLab
from tests.lake.support.stores import Store
from tests.log.parts.parts_lab import NAME
from tests.unit.connectors.command import Ran, Shardlog

# A store of this machine answers, however busy that is.
_PATIENT: Final = {"timeout": "600s", "connect_timeout": "600s", "retry_timeout": "600s"}


class CommandLab(PublishLab):
    """A stream whose table is in a store, and the command."""

    def __init__(self, place: Path, store: Store, shardlog: Shardlog, **options: Any) -> None:
        target = store.target()
        super().__init__(place, store, lake=target.uri, **options)
        self.store = store
        self._shardlog = shardlog
        self._options = place / "options.toml"
        options_of_store = {**target.options, **_PATIENT}
        lines = [f"{name} = {json.dumps(value)}" for name, value in options_of_store.items()]
        self._options.write_text("\n".join(lines))

    def lake(self, verb: str, *arguments: object) -> Ran:
        """Run a command of `shardlog lake` over the stream."""
        of_store = ("--lake-options", self._options)
        return self._shardlog("lake", verb, self.root, NAME, *of_store, *arguments)

    def opened_table(self) -> LakeTable:
        """Return the table as it is now."""
        with StreamReader.open(self.root, NAME) as reader:
            table = LakeTable.open(self.target, stream_of(reader))
        assert table is not None
        return table

    def file_of(self, shard: int) -> tuple[str, int, int]:
        """Return the first file of a shard in the table, and the range of its addresses."""
        path = min(self.opened_table().files(shard))
        name = image_of_path(path)
        return path, name.first, name.last + 1

    def change(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Put other bytes in the place of a file in the store."""
        data = self.store.read(self.target, path)
        self.store.write(self.target, path, change(data))
