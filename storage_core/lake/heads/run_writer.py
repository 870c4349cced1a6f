"""Writes heads runs of a stream's shards: their heads from parts, and what is noted of a shard."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.app_id import owner_number
from storage_core.lake.heads.run_heads import CollectedHeads
from storage_core.lake.heads.run_names import RunName
from storage_core.lake.heads.run_notes import RunNotes, RunSettings
from storage_core.lake.heads.runs import write_run
from storage_core.lake.maintenance.unread import FilePlace, one_file_alone
from storage_core.lake.table import LakeTable
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.reader import StreamReader


@dataclass(frozen=True, slots=True)
class RunWriter:
    """Writes runs of the log in force. One thread.

    Attributes:
        reader: The stream.
        scratch: An empty directory.
        explained: Says of a part that cannot be read whether the part list still has it.
    """

    reader: StreamReader
    scratch: Path
    explained: Callable[[Part], AbstractContextManager[None]]

    @property
    def has_keys(self) -> bool:
        """Whether the stream's rows belong to keys."""
        return self._settings().has_keys

    def write(
        self, table: LakeTable, shard: int, parts: ShardParts, addresses: AddressRange
    ) -> RunName:
        """Write the run of some addresses from the parts that have them.

        Raises:
            PartGoneError: A part was deleted since the part list was read.
            CorruptionError: One is damaged.
            UnreadFileError: The store does not give one that is not here, and gives others.
            UnavailableError: The store refuses, or a part cannot be read now.
        """
        heads = self.collected(table, shard, parts, addresses)
        return self.put(table, shard, parts, addresses, heads)

    def put(
        self,
        table: LakeTable,
        shard: int,
        parts: ShardParts,
        addresses: AddressRange,
        heads: pa.Table,
    ) -> RunName:
        """Write the run of some addresses, whose heads are given.

        Raises:
            UnavailableError: The store refuses.
        """
        notes = self._notes(shard, parts, addresses)
        start, end, log = addresses.start, addresses.end, owner_number(self.reader.lineage(shard))
        return write_run(table, shard, start, end, log, heads, notes, self.scratch)

    def collected(
        self, table: LakeTable, shard: int, parts: ShardParts, addresses: AddressRange
    ) -> pa.Table:
        """Return the heads of the rows of some addresses, from parts; raises as `write` does."""
        collected = CollectedHeads(has_keys=self.has_keys)
        among = [
            entry for entry in parts.entries if addresses.overlaps(entry.first, entry.last + 1)
        ]
        directory = self.reader.rows.shards.files.shard_directory(shard)
        for part in listed_parts(shard, directory, among):
            with self.explained(part), one_file_alone(table, FilePlace.of_part(part)):
                collected.add_part(part, addresses)
        return collected.all()

    def _notes(self, shard: int, parts: ShardParts, addresses: AddressRange) -> RunNotes:
        """Return what to say of a shard: schemas and dead letters are those of now."""
        followed = self.reader.shard(shard)
        return RunNotes(
            self._settings(),
            followed.schemas(),
            parts.floor,
            parts.cut,
            tuple(followed.dead_letters(addresses.start, addresses.end)),
            parts.gaps,
            tuple(followed.state().skipped),
        )

    def _settings(self) -> RunSettings:
        return RunSettings.of(self.reader.rows.shards.files.meta)
