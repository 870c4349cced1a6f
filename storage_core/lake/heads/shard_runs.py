"""What a publication does for the runs of its shards: each step that publishes rows writes one.

Only streams that copy a topic have runs: of others no log can begin from the table.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

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
    runs_that_count,
    uncovered,
)
from storage_core.lake.heads.run_pieces import missing_pieces, pieces_beside
from storage_core.lake.heads.run_writer import RunWriter
from storage_core.lake.heads.runs import read_run, stored_runs, stored_runs_of
from storage_core.lake.maintenance.unread import (
    FilePlace,
    OnUnread,
    UnreadFileError,
    one_file_alone,
)
from storage_core.lake.table import LakeFileGoneError, LakeTable
from storage_core.parts.snapshot import Part
from storage_core.reader import StreamReader
from storage_core.sql.part_groups import PartGoneError

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
        self._scratch = scratch
        self._files = reader.rows.shards.files
        self._writer = RunWriter(reader, scratch, explained)
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
        self._writer.write(table, shard, parts, addresses)
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
        heads = no_heads(has_keys=self._writer.has_keys)
        run = self._writer.put(table, shard, parts, AddressRange(end, end), heads)
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
        on_fault: Callable[[ShardlogError], None] | None = None,
    ) -> int:
        """Write runs that are missing, and merge the newest ones once they are some.

        1. List: the runs of what is published. Where all are to be read, those that are damaged
           count no more.
        2. Write again: what none of them covers, from the parts. Damaged ones go once others cover
           what they did.
        3. Merge: read those that become one, write that, and delete all that it covers. What a
           damaged one covers, or one that the store does not give, is taken from the parts.

        A crash leaves runs that others cover, and the next merge of these deletes them. Whatever
        fails is tried again behind the next commit, unless all are to be read: then it is raised,
        but for the merge, and for a run or a part that cannot be read while the store gives others;
        that is told, and keeps no other run from being read and written. Runs of rows that this log
        never had stay as they are.

        Args:
            table: The table, loaded since the last commit.
            shard: The shard.
            parts: Its part list.
            born: The first address that the log can ever have had.
            on_fault: All runs are to be read, and those written again that are damaged; called with
                what keeps one from being so. None: only what is missing is written.

        Returns:
            How many runs were written that were missing or damaged.

        Raises:
            ShardlogError: Runs are all to be read, and the store refuses.
        """
        if self._files.meta.origin is None:
            return 0
        published, log = table.published(shard) or born, self._log(shard)
        try:
            if table.owner(shard) != log:
                return 0
            files = self._listed.pop(shard, None)  # 1
            if files is None:
                files = stored_runs(table, shard)
            runs = runs_of_owner(runs_among(files), log)
            others = [run for run in runs_among(files) if run not in runs and run.begin >= born]
            damaged = [] if on_fault is None else self._damaged(table, shard, runs, born, on_fault)
            sound = [run for run in runs if run not in damaged]
            addresses = AddressRange(born, published)
            again = self._written_again(table, shard, parts, sound, addresses, on_fault)  # 2
            runs = runs_of_owner(sound + again, log)
            # IMPORTANT: behind that, or a run that cannot be written again would be missing.
            for run in damaged:
                is_replaced = not uncovered(runs, run.begin, min(run.end, published))
                # One that was written of the same heads has the name of the damaged one.
                if is_replaced and run.path not in {one.path for one in again}:
                    table.delete(run.path)
            _, alone = runs_that_count(files, log, published)
            again += self._notes_again(table, shard, parts, alone, on_fault)
        except ShardlogError:
            if on_fault is not None:
                raise
            return 0
        if uncovered(runs, born, published):
            return len(again)
        own = [run for run in runs if run.begin >= born and run.end <= published]
        # What they say the run says too that was written since.
        older = [run for run in notes_among(files) if run.end < published]
        older += [run for run in others if run.end <= published]
        with suppress(ShardlogError):
            self._merge(table, shard, parts, own, addresses)  # 3
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

    def _damaged(
        self,
        table: LakeTable,
        shard: int,
        runs: Iterable[RunName],
        born: int,
        on_unread: OnUnread,
    ) -> list[RunName]:
        """Read runs; return those that are damaged, or gone, and can be written again."""
        damaged = []
        for run in runs:
            try:
                with one_file_alone(table, FilePlace(run.path, shard, run.addresses)):
                    read_run(table, run, self._scratch)
            except UnreadFileError as unread:
                on_unread(unread)
            except UnsupportedFormatError:
                continue
            except (CorruptionError, LakeFileGoneError):
                if run.begin >= born:
                    damaged.append(run)
        return damaged

    def _notes_again(
        self,
        table: LakeTable,
        shard: int,
        parts: ShardParts,
        alone: Sequence[RunName],
        on_fault: Callable[[ShardlogError], None] | None,
    ) -> Iterator[RunName]:
        """Write what is noted of a shard, if all is to be read and notes of its end are damaged."""
        if on_fault is None or not alone:
            return
        damaged = self._damaged(table, shard, alone, alone[0].begin, on_fault)
        if not damaged:
            return
        heads = no_heads(has_keys=self._writer.has_keys)
        run = self._writer.put(table, shard, parts, alone[0].addresses, heads)
        for other in damaged:
            # Of the same notes it has the name of the damaged one.
            if other.path != run.path:
                table.delete(other.path)
        yield run

    def _written_again(  # noqa: PLR0913 - what is missing, and whom to tell
        self,
        table: LakeTable,
        shard: int,
        parts: ShardParts,
        runs: Collection[RunName],
        addresses: AddressRange,
        on_fault: Callable[[ShardlogError], None] | None,
    ) -> list[RunName]:
        """Write from the parts what none of some runs covers; return what was written."""
        again = []
        left = missing_pieces(runs, self._log(shard), parts, addresses)
        # IMPORTANT: the last first, as a run of this log lets those of others behind it count no
        # more. So these count as long as what is to be in their place cannot be written.
        while left:
            piece = left.pop()
            try:
                again.append(self._writer.write(table, shard, parts, piece))
            except (CorruptionError, PartGoneError, UnreadFileError) as error:
                if on_fault is None:
                    raise
                on_fault(error)
                if any(run.addresses.overlaps(piece.start, piece.end) for run in runs):
                    break
                left += pieces_beside(piece, error)
        return again

    def _merged(
        self, table: LakeTable, shard: int, parts: ShardParts, runs: list[RunName]
    ) -> RunName | None:
        """Write one run in the place of some that follow each other."""
        if not runs:
            return None
        collected = CollectedHeads(has_keys=self._writer.has_keys)
        for run in runs:
            try:
                with one_file_alone(table, FilePlace(run.path, shard, run.addresses)):
                    heads, _ = read_run(table, run, self._scratch)
            except UnsupportedFormatError:
                return None
            except (CorruptionError, UnreadFileError):
                heads = self._writer.collected(table, shard, parts, run.addresses)
            collected.add(heads)
        heads = heads_above(collected.all(), parts.floor)
        # Dead letters that were cleared since are gone.
        addresses = AddressRange(runs[0].begin, runs[-1].end)
        return self._writer.put(table, shard, parts, addresses, heads)
