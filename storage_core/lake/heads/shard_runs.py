"""What a publication does for the runs of its shards: each step that publishes rows writes one.

Only streams that copy a topic have runs: of others no log can begin from the table.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_heads import GatheredHeads
from storage_core.lake.heads.run_notes import RunNotes, RunSettings
from storage_core.lake.heads.runs import write_run
from storage_core.lake.table import LakeTable
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.reader import StreamReader


class HeadsRuns:
    """Writes the runs of a stream's shards, while a call publishes."""

    def __init__(
        self,
        reader: StreamReader,
        scratch: Path,
        explained: Callable[[Part], AbstractContextManager[None]],
    ) -> None:
        """Begin with a reader by path.

        Args:
            reader: The stream.
            scratch: An empty directory.
            explained: Says of a part that cannot be read whether the part list still has it.
        """
        self._reader = reader
        self._explained = explained
        self._scratch = scratch
        self._files = reader.rows.shards.files
        self._settings = RunSettings.of(self._files.meta)
        # What was uploaded before another's commit came between.
        self._uploaded: set[tuple[int, AddressRange]] = set()

    def upload(
        self, table: LakeTable, shard: int, parts: ShardParts, addresses: AddressRange
    ) -> None:
        """Upload the run of what a step publishes; no commit names it.

        IMPORTANT: before the commit, so that below what is published no head is missing. Where the
        commit fails the run is passed over, and the next one has its rows too.

        Args:
            table: The table.
            shard: The shard.
            parts: Its part list.
            addresses: From what was published to what will be.

        Raises:
            PartGoneError: A part was deleted since the part list was read.
            CorruptionError: One is damaged.
            UnavailableError: The store refuses, or a part cannot be read now.
        """
        is_done = (shard, addresses) in self._uploaded or addresses.start >= addresses.end
        if self._files.meta.origin is None or is_done:
            return
        among = [
            entry for entry in parts.entries if addresses.overlaps(entry.first, entry.last + 1)
        ]
        gathered = GatheredHeads(has_keys=self._settings.has_keys)
        for part in listed_parts(shard, self._files.shard_directory(shard), among):
            with self._explained(part):
                gathered.add_part(part, addresses)
        start, end = addresses.start, addresses.end
        notes = self._notes(shard, parts, addresses)
        write_run(table, shard, start, end, gathered.all(), notes, self._scratch)
        self._uploaded.add((shard, addresses))

    def _notes(self, shard: int, parts: ShardParts, addresses: AddressRange) -> RunNotes:
        """Return what to say of a shard: schemas and dead letters are those of now."""
        followed = self._reader.shard(shard)
        return RunNotes(
            self._settings,
            followed.schemas(),
            parts.floor,
            parts.cut,
            tuple(followed.dead_letters(addresses.start, addresses.end)),
        )
