"""What a publication does for the runs of its shards: each step that publishes rows writes one.

Only streams that copy a topic have runs: of others no log can begin from the table.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError, ShardlogError, UnsupportedFormatError
from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.app_id import owner_number
from storage_core.lake.heads.run_heads import CollectedHeads, heads_above, no_heads
from storage_core.lake.heads.run_merging import next_merge
from storage_core.lake.heads.run_names import (
    RunName,
    chain_of,
    notes_among,
    runs_among,
    runs_of_owner,
    uncovered,
)
from storage_core.lake.heads.run_notes import RunNotes, RunSettings
from storage_core.lake.heads.runs import (
    read_run,
    stored_runs,
    stored_runs_of,
    write_run,
)
from storage_core.lake.table import LakeTable
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.reader import StreamReader

# What one run is written of, where several are missing: a call that ends has written some.
PIECE_ROWS_MAX: Final = 4_000_000
_LISTED_TOGETHER: Final = 2


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
        # Of each shard the floor and the cut that were noted, and the notes of before.
        self._noted: dict[int, tuple[int, int]] = {}
        self._older_notes: dict[int, list[RunName]] = {}
        # What was listed of shards that are about to be tended.
        self._listed: dict[int, dict[str, int]] = {}

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
        self._write(table, shard, parts, addresses)
        self._uploaded.add((shard, addresses))

    def upload_notes(self, table: LakeTable, shard: int, parts: ShardParts, end: int) -> None:
        """Upload what a step says of a shard from which it takes expired rows, and adds none.

        IMPORTANT: before the commit, or who begins from the table would take the rest of their
        parts for live.

        Args:
            table: The table.
            shard: The shard.
            parts: Its part list.
            end: The published address.

        Raises:
            UnavailableError: The store refuses.
        """
        noted = (parts.floor, parts.cut)
        if self._files.meta.origin is None or self._noted.get(shard) == noted:
            return
        before = notes_among(stored_runs(table, shard))
        heads = no_heads(has_keys=self._settings.has_keys)
        notes = self._notes(shard, parts, AddressRange(end, end))
        run = write_run(table, shard, end, end, self._log(shard), heads, notes, self._scratch)
        self._noted[shard] = noted
        older = self._older_notes.setdefault(shard, [])
        older += [other for other in before if other.path != run.path]

    def whole_run_from(self, table: LakeTable, shard: int, address: int, born: int) -> int:
        """Return from where on a run is to reach that lets no run before it count in part.

        A run of a new owner lets those of others count no more that reach beyond its beginning;
        what they tell of addresses below that, as dead letters, it has to tell too.

        Args:
            table: The table.
            shard: The shard.
            address: From where on it is to reach at least.
            born: The first address that the log can ever have had: below that it knows nothing.
        """
        if self._files.meta.origin is None:
            return address
        runs = runs_of_owner(runs_among(stored_runs(table, shard)), table.owner(shard))
        # Descending, as one that begins earlier may reach into those that were taken.
        for run in sorted(runs, key=lambda run: run.end, reverse=True):
            if run.begin < address < run.end:
                address = max(born, run.begin)
        return address

    def list_all(self, table: LakeTable, shards: Collection[int]) -> None:
        """List the runs of some shards at once, by which they are tended then.

        What cannot be listed is listed again for each of them.
        """
        if self._files.meta.origin is None or len(shards) < _LISTED_TOGETHER:
            return
        with suppress(ShardlogError):
            self._listed = stored_runs_of(table, shards)

    def tend(
        self,
        table: LakeTable,
        shard: int,
        parts: ShardParts,
        born: int,
        *,
        reads_all: bool = False,
    ) -> int:
        """Write runs that are missing, and merge the newest ones once they are some.

        1. List: the runs of what is published.
        2. Write again: what none of them covers, from the parts.
        3. Merge: read those that become one, write that, and delete all that it covers. What a
           damaged one covers is taken from the parts.

        A crash leaves runs that others cover, and the next merge of these deletes them. Whatever
        fails is tried again behind the next commit, unless all are to be read: then it is raised,
        but for the merge. Runs of rows that this log never had stay as they are.

        Args:
            table: The table, loaded since the last commit.
            shard: The shard.
            parts: Its part list.
            born: The first address that the log can ever have had.
            reads_all: Whether to read all runs, and write those again that are damaged.

        Returns:
            How many runs were written that were missing or damaged.

        Raises:
            ShardlogError: Runs are all to be read, and one cannot be, or cannot be written again.
        """
        if self._files.meta.origin is None:
            return 0
        published, log = table.published(shard) or born, self._log(shard)
        again: list[RunName] = []
        try:
            if table.owner(shard) != log:
                return 0
            files = self._listed.pop(shard, None)  # 1
            if files is None:
                files = stored_runs(table, shard)
            runs = runs_of_owner(runs_among(files), log)
            others = [run for run in runs_among(files) if run not in runs and run.begin >= born]
            if reads_all:
                runs = [run for run in runs if not self._deleted_damaged(table, run, born)]
            # A run of this log lets those that others wrote of rows behind it count no more.
            while missing := uncovered(runs_of_owner(runs + again, log), born, published):
                pieces = pieces_of(parts, missing[0])
                again += [self._write(table, shard, parts, piece) for piece in pieces]  # 2
        except ShardlogError:
            if reads_all:
                raise
            return 0
        runs = runs_of_owner(runs + again, log)
        own = [run for run in runs if run.begin >= born and run.end <= published]
        # What they say the run says too that was written since.
        older = [run for run in notes_among(files) if run.end < published]
        older += [run for run in others if run.end <= published]
        with suppress(ShardlogError):
            self._merge(table, shard, parts, own, AddressRange(born, published))  # 3
            for path in {run.path for run in (*self._older_notes.pop(shard, []), *older)}:
                table.delete(path)
        return len(again)

    def _merge(
        self,
        table: LakeTable,
        shard: int,
        parts: ShardParts,
        runs: list[RunName],
        addresses: AddressRange,
    ) -> None:
        """Write one run in the place of some, if there are enough, and delete these."""
        chain = chain_of(runs, addresses.start, addresses.end)
        merged = self._merged(table, shard, parts, next_merge(chain))
        for run in runs:
            if merged is not None and merged.covers(run):
                table.delete(run.path)

    def _log(self, shard: int) -> int:
        return owner_number(self._reader.lineage(shard))

    def _deleted_damaged(self, table: LakeTable, run: RunName, born: int) -> bool:
        """Delete a run that is damaged and can be written again; tell whether it was."""
        try:
            read_run(table, run, self._scratch)
        except UnsupportedFormatError:
            return False
        except CorruptionError:
            if run.begin < born:
                return False
            table.delete(run.path)
            return True
        return False

    def _merged(
        self, table: LakeTable, shard: int, parts: ShardParts, runs: list[RunName]
    ) -> RunName | None:
        """Write one run in the place of some that follow each other."""
        if not runs:
            return None
        collected = CollectedHeads(has_keys=self._settings.has_keys)
        for run in runs:
            try:
                heads, _ = read_run(table, run, self._scratch)
            except UnsupportedFormatError:
                return None
            except CorruptionError:
                heads = self._collected(shard, parts, run.addresses)
            collected.add(heads)
        heads = heads_above(collected.all(), parts.floor)
        begin, end = runs[0].begin, runs[-1].end
        # Dead letters that were cleared since are gone.
        notes = self._notes(shard, parts, AddressRange(begin, end))
        return write_run(table, shard, begin, end, self._log(shard), heads, notes, self._scratch)

    def _write(
        self, table: LakeTable, shard: int, parts: ShardParts, addresses: AddressRange
    ) -> RunName:
        """Write the run of some addresses from the parts that have them."""
        heads = self._collected(shard, parts, addresses)
        notes = self._notes(shard, parts, addresses)
        start, end = addresses.start, addresses.end
        return write_run(table, shard, start, end, self._log(shard), heads, notes, self._scratch)

    def _collected(self, shard: int, parts: ShardParts, addresses: AddressRange) -> pa.Table:
        collected = CollectedHeads(has_keys=self._settings.has_keys)
        among = [
            entry for entry in parts.entries if addresses.overlaps(entry.first, entry.last + 1)
        ]
        for part in listed_parts(shard, self._files.shard_directory(shard), among):
            with self._explained(part):
                collected.add_part(part, addresses)
        return collected.all()

    def _notes(self, shard: int, parts: ShardParts, addresses: AddressRange) -> RunNotes:
        """Return what to say of a shard: schemas and dead letters are those of now."""
        followed = self._reader.shard(shard)
        return RunNotes(
            self._settings,
            followed.schemas(),
            parts.floor,
            parts.cut,
            tuple(followed.dead_letters(addresses.start, addresses.end)),
            parts.gaps,
            tuple(followed.state().skipped),
        )


def pieces_of(parts: ShardParts, addresses: AddressRange) -> Iterator[AddressRange]:
    """Yield a range in pieces of a bounded number of rows, unless one part has more."""
    begin, rows = addresses.start, 0
    for entry in sorted(parts.entries, key=lambda entry: entry.first):
        if not addresses.overlaps(entry.first, entry.last + 1):
            continue
        if rows and rows + entry.rows > PIECE_ROWS_MAX and begin < entry.first:
            yield AddressRange(begin, entry.first)
            begin, rows = entry.first, 0
        rows += entry.rows
    yield AddressRange(begin, addresses.end)
