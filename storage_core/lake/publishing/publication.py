"""What one call publishes a stream with: its reader, its table, and what was uploaded so far.

The steps of `publish_shard` are its methods. One thread at a time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.errors import (
    CorruptionError,
    ForeignDataError,
    LostRangeError,
    ShardlogError,
    UnavailableError,
)
from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.app_id import stream_of
from storage_core.lake.heads.shard_runs import HeadsRuns
from storage_core.lake.image import Image, images
from storage_core.lake.image_names import image_of_path
from storage_core.lake.maintenance.addresses import visible_addresses
from storage_core.lake.maintenance.foreign_files import refuse_foreign_files
from storage_core.lake.maintenance.unread import (
    FilePlace,
    OnUnread,
    UnreadFileError,
    one_file_alone,
)
from storage_core.lake.publishing.consent import Consent
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.publishing.local_deletion import with_files_gone, with_logs_removed
from storage_core.lake.publishing.lost_table import open_table
from storage_core.lake.publishing.mirror import MirrorStep, ShardListing
from storage_core.lake.publishing.notes import LakeNote, LakeNotes
from storage_core.lake.publishing.open_tables import OpenTables
from storage_core.lake.publishing.ownership import PublishingLog, log_of
from storage_core.lake.publishing.repair import refuse_lost_parts, repair_step, with_lost_parts
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.publishing.unchanged import ShardMarks, TableCommits, encode_whole
from storage_core.lake.read_back import Committed
from storage_core.lake.shard_change import ShardChange
from storage_core.lake.table import LakeConflictError, LakeTable, TableFile
from storage_core.lake.table_columns import TableColumns, table_columns
from storage_core.lake.target import LakeTarget
from storage_core.parts.part_home import local_files
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.snapshot import Part, part_path, parts_directory
from storage_core.platform.clock import SystemClock
from storage_core.reader import StreamReader
from storage_core.sql.part_groups import PART_GONE, PartGoneError, damaged_part

_NOTHING: Final = Consent()
_NS_A_MS: Final = 1_000_000
# The files of so many shards are listed by one request.
_LISTED_ALONE: Final = 8


class Publication:
    """A stream and its table, while a call publishes."""

    def __init__(  # noqa: PLR0913 - how a call is bounded and followed
        self,
        reader: StreamReader,
        target: LakeTarget,
        scratch: Path,
        on_rows: OnRows | None,
        consent: Consent = _NOTHING,
        tables: OpenTables | None = None,
    ) -> None:
        """Begin with a reader by path.

        Args:
            reader: The stream.
            target: Where its table is.
            scratch: An empty directory, for files that are not uploaded as they lie.
            on_rows: Called again and again with how many rows were uploaded so far.
            consent: What the caller consents to.
            tables: Those of other calls, if there were any.
        """
        self._reader = reader
        self.consent = consent
        self._target = target
        self._scratch = scratch
        self._on_rows = on_rows or ignore_rows
        self._files = reader.rows.shards.files
        self._stream = stream_of(reader)
        self._tables = tables or OpenTables()
        self._table = self._tables.take(target, self._stream)
        # Whether the table was loaded, or seen to be the newest version, a moment ago.
        self._is_fresh = self._table is not None
        # The version that was loaded last, and whether all since the first one are of this call.
        self._version = None if self._table is None else self._table.version
        self._is_alone = True
        self._uploaded: set[str] = set()
        self._visible: dict[bytes, bool] = {}
        self._rows = 0
        self.commits = 0
        """How many versions of the table were made."""
        self._heads = HeadsRuns(reader, scratch, self._explained)

    def delete_local(
        self, published: ShardPublished, bytes_max: int, on_unread: OnUnread
    ) -> ShardPublished:
        """Let what the table has of a shard go from this machine; return how much did too.

        Only the stream's own lake counts, since reads look there. Archived logs are compared where
        something was committed.

        Args:
            published: What was published.
            bytes_max: After how many bytes of files to leave the rest for another call.
            on_unread: Called with why a file stays that the store does not give.

        Raises:
            CorruptionError: The store has another file than the part list says.
            UnavailableError: The store cannot be read now, or the disk refuses.
        """
        reader, table = self._reader, self._table
        if table is None or not self._is_own:
            return published
        if published.commits:
            published = with_logs_removed(reader, table, published, self.parts, self._go_on)
        return with_files_gone(reader, self._target, table, published, bytes_max, on_unread)

    def _go_on(self) -> None:
        self._on_rows(self._rows)

    def list_heads(self, shards: Sequence[int]) -> None:
        """List the heads runs of all shards at once, where many of them are to be tended."""
        count = len(self._reader.rows.shards.opened())
        if self._table is not None and len(shards) * _LISTED_ALONE > count:
            self._heads.list_all(self._table, shards)

    def tend_heads(self, shard: int, on_fault: Callable[[ShardlogError], None]) -> int:
        """Write heads runs of a shard that are missing, and merge some, where the table has it.

        Where the caller wants a repair, all are read, and those that are damaged written again;
        `on_fault` is called with what keeps one from being so.

        Returns:
            How many were written that were missing or damaged.
        """
        if self._table is None:
            return 0
        born, parts = self._reader.born(shard), self.parts(shard)
        on_fault_of_run = on_fault if self.consent.repair else None
        return self._heads.tend(self._table, shard, parts, born, on_fault=on_fault_of_run)

    def note(self, published: Mapping[int, ShardPublished]) -> None:
        """Leave a note of how far shards are published in the stream's own lake (notes.py)."""
        table, lake = self._table, self._reader.options.lake
        if table is None or lake is None or not self._is_own:
            return
        now_ms = SystemClock().now_ns() // _NS_A_MS
        notes = {
            shard: LakeNote(lake, self._reader.lineage(shard), done.end, now_ms)
            for shard, done in published.items()
            if table.published(shard) is not None
        }
        LakeNotes(self._files.directory.parent).write(self._files.meta.name, notes)

    def note_whole(
        self, marks: Mapping[int, ShardMarks], published: Mapping[int, ShardPublished]
    ) -> None:
        """Note that nothing is left to publish, unless others have changed the table meanwhile.

        Args:
            marks: Those of all shards, from before their part lists were read.
            published: What was published of each.
        """
        if self._table is None or not self._is_alone:
            return
        ids = self._table.commit_ids()
        if ids is not None:
            commits = TableCommits(self._table.version, *ids)
            note = encode_whole(self._target.uri, commits, marks, published)
            LakeNotes(self._files.directory.parent).write_whole(self._files.meta.name, note)

    def end(self) -> None:
        """Leave the table to the next call: all has been done."""
        if self._table is not None:
            self._tables.put_back(self._target, self._stream, self._table)

    def load(self) -> LakeTable | None:
        """Return the table as it is now; None where this root has published none there.

        Raises:
            InvalidRequestError: Another program wrote it.
            UnavailableError: There is none, and it has; or the store does not answer.
        """
        if self._table is None:
            self._table = open_table(self._reader, self._target, accepts_loss=self.consent.create)
        elif not self._is_fresh:
            self._table.reload()
        self._is_fresh = False
        self._saw_version()
        if self._table is not None:
            refuse_foreign_files(self._table)
        return self._table

    def parts(self, shard: int) -> ShardParts:
        """Return the part list of a shard in one snapshot.

        Raises:
            InvalidRequestError: There is no such shard, or the reader asks a server.
            CorruptionError: The part list is damaged.
        """
        return follower_of(self._reader, shard).parts()

    def listing(self, shard: int, parts: ShardParts) -> ShardListing:
        """Return the part list and the files of a shard.

        Raises:
            LakeOwnerError: Another log publishes the shard.
            ForeignDataError: The table has rows that this stream does not have any more.
            LostRangeError: The table ends before the log begins.
        """
        table, born = self._table, self._reader.born(shard)
        published = None if table is None else table.published(shard)
        if table is not None and not self.consent.take_over:
            owner, uri = table.owner(shard), self._target.uri
            self._log(shard).refuse_other(owner, self._files.meta.name, uri)
        if published is not None:
            self._refuse_older_copy(shard, parts, published)
            self._refuse_hole(shard, published, born)
        paths = [] if table is None else table.files(shard)
        listing = ShardListing(
            parts.entries,
            max(parts.sealed, born),
            born,
            born if published is None else published,
            {path: image_of_path(path) for path in paths},
        )
        if not self.consent.repair:
            return listing
        has_rows = partial(self._has_visible_rows, shard, parts)
        return with_lost_parts(listing, parts, has_rows, self.consent.nowhere)

    def repair_step(self, shard: int, listing: ShardListing) -> MirrorStep | None:
        """Return a step that makes files anew which the table names and the store lacks."""
        if self._table is None:
            return None
        stored = self._table.stored(shard)
        sound = {path: size for path, size in stored.items() if path not in self.consent.damaged}
        nowhere = self.consent.nowhere
        return repair_step(listing, self._table.files(shard), sound, nowhere)

    def refuse_lost_parts(self, shard: int, listing: ShardListing, parts: ShardParts) -> None:
        """Tell of a part that the table lacks, as `repair.refuse_lost_parts` does.

        Raises:
            CorruptionError: There is one.
        """
        refuse_lost_parts(listing, parts, self._files.meta.name, shard)

    def claims(self, shard: int, listing: ShardListing) -> bool:
        """Tell whether the log is to become a shard's owner, though nothing is to be published."""
        table, is_behind = self._table, listing.sealed < listing.begin
        if table is None or is_behind or table.published(shard) is None:
            return False
        return table.owner(shard) != self._log(shard).number

    def prepare(self) -> TableColumns | None:
        """Make the table, or give it the columns that it lacks.

        Returns:
            The columns of the table; None where it has changed, and all is to be compared anew.

        Raises:
            LakeConflictError: Somebody else has changed the table meanwhile.
        """
        table = self._table
        columns = table_columns(self._reader, None if table is None else table.columns)
        if table is None:
            self._table = LakeTable.create(self._target, self._stream, columns.schema)
        elif columns.added:
            table.add_columns(columns.added)
        else:
            return columns
        self._saw_version(is_changed=True)
        return None

    def upload(
        self, shard: int, parts: ShardParts, step: MirrorStep, columns: TableColumns, begin: int
    ) -> list[TableFile]:
        """Upload the files that a step adds.

        Raises:
            PartGoneError: A part was deleted since the part list was read.
            CorruptionError: A part is damaged.
        """
        files: list[TableFile] = []
        for added in step.adds:
            part = self._part(shard, added.entry)
            with self._explained(part):
                # Of a part that another lake has, a copy.
                with one_file_alone(self._loaded, FilePlace.of_part(part)):
                    part = replace(part, path=local_files([part])[0])
                with _writing(self._scratch):
                    made = images(part, parts, columns, added.pieces, self._scratch)
                files += [self._put(image, part, begin) for image in made]
        since = begin
        if self._loaded.owner(shard) != self._log(shard).number:
            since = self._own_since(shard, parts, begin)
            born = self._reader.born(shard)
            since = self._heads.whole_run_from(self._loaded, shard, since, born)
        self._heads.upload(self._loaded, shard, parts, AddressRange(since, step.end))
        has_expired = parts.floor > INT64_MIN or parts.cut > self._reader.born(shard)
        if step.removes and begin == step.end and has_expired:
            self._heads.upload_notes(self._loaded, shard, parts, begin)
        return files

    def change(self, shard: int, files: Sequence[TableFile], step: MirrorStep) -> ShardChange:
        """Return what a commit changes of a shard by a step whose files are uploaded."""
        named = self._loaded.files(shard)
        # Of files that the store had lost the table may have the name still.
        again = {file.path for file in files if file.path in named}
        adds = [file for file in files if file.path not in again]
        removes = [path for path in step.removes if path not in again]
        return ShardChange(shard, adds, removes, step.end, self._log(shard).number)

    def commit(self, changes: Sequence[ShardChange]) -> Committed:
        """Commit what steps change, load the table again, and see that it has that.

        Raises:
            LakeConflictError: Others commit all the time.
            UnavailableError: The store does not show what it took.
        """
        if not changes:
            return Committed()
        done = self._loaded.commit_all(changes)
        is_changed = len(done.conflicts) < len(changes)
        self._is_fresh = done.fault is None
        self._saw_version(is_changed=is_changed)
        self.commits += is_changed
        return done

    def is_of_shard(self, error: ShardlogError) -> bool:
        """Tell whether an error is that of one shard, be it of its disk, and not the store's."""
        if isinstance(error, CorruptionError | UnreadFileError):
            return True
        if isinstance(error, ForeignDataError):
            return error.shard is not None
        return error.path is not None and error.path.is_relative_to(self._files.directory)

    def conflict(self, shard: int) -> LakeConflictError:
        """Return the error of a shard that somebody else changes all the time."""
        message = f"somebody else has committed to the table at {self._target.uri}"
        return LakeConflictError(message, stream=self._files.meta.name, shard=shard)

    def _own_since(self, shard: int, parts: ShardParts, begin: int) -> int:
        """Return from where on rows below the published address are to be this log's own."""
        names = [image_of_path(path) for path in self._loaded.files(shard)]
        imaged = {name.entry_digest for name in names}
        # Of a log that began from these files some are parts again.
        begun = {(name.first, name.last) for name in names if name.rewritten_digest is not None}
        if self._loaded.owner(shard) != self._log(shard).predecessor:
            begun = set()
        firsts = [
            entry.first
            for entry in parts.entries
            if entry.digest.hex() not in imaged and (entry.first, entry.last) not in begun
        ]
        return max(self._reader.born(shard), min([begin, *firsts]))

    def _log(self, shard: int) -> PublishingLog:
        return log_of(self._reader, shard, self._table)

    def _refuse_older_copy(self, shard: int, parts: ShardParts, published: int) -> None:
        """Refuse a stream that has less than it published, unless others copy its topic too.

        Raises:
            ForeignDataError: What it has from there on are other rows than the table's.
        """
        if self._files.meta.origin is None and parts.sealed < published:
            message = (
                f"the table at {self._target.uri} has rows up to {published} of a shard that has "
                f"parts up to {parts.sealed}: an older copy was put in its place; publish it to "
                "another place"
            )
            raise ForeignDataError(message, stream=self._files.meta.name, shard=shard)

    def _refuse_hole(self, shard: int, published: int, born: int) -> None:
        """Refuse a log that begins above what is published: nobody would publish what is between.

        Raises:
            LostRangeError: It does.
        """
        if published < born and not self.consent.hole:
            message = (
                "the table ends before the log begins, and what lies between would never be "
                "published: let another root publish it, begin the log where the table ends, or "
                "accept the hole (`shardlog lake publish --accept-hole`)"
            )
            raise LostRangeError(
                message, stream=self._files.meta.name, shard=shard, start=published, end=born
            )

    def _has_visible_rows(self, shard: int, parts: ShardParts, entry: PartEntry) -> bool:
        """Look into a part, once; one that cannot be read is taken to have some."""
        if entry.digest not in self._visible:
            part = self._part(shard, entry)
            try:
                count = visible_addresses(replace(part, path=local_files([part])[0]), parts).size
            except (FileNotFoundError, CorruptionError, UnavailableError):
                # Whoever uploads it says what is wrong.
                count = 1
            self._visible[entry.digest] = count > 0
        return self._visible[entry.digest]

    def _put(self, image: Image, part: Part, begin: int) -> TableFile:
        """Upload a file, unless this call did so before another's commit came between."""
        if image.path not in self._uploaded:
            self._loaded.put(image.path, image.source)
            self._uploaded.add(image.path)
            self._rows += image.rows
            self._on_rows(self._rows)
        if image.source != part.path:
            image.source.unlink()
        is_new = image_of_path(image.path).first >= begin
        return TableFile(image.path, image.size, image.rows, image.stats, is_new)

    def _saw_version(self, *, is_changed: bool = False) -> None:
        """Take note of the version that is loaded, and whether this call has made it."""
        version = None if self._table is None else self._table.version
        before, self._version = self._version, version
        if before is None:
            # It was made, or somebody else made it at the same time.
            self._is_alone &= not is_changed or version == 0
        else:
            self._is_alone &= version == before + is_changed

    @property
    def _is_own(self) -> bool:
        """Whether the table is where the stream's option `lake` says."""
        return self._target.is_lake_of(self._reader.options.lake)

    @property
    def _loaded(self) -> LakeTable:
        assert self._table is not None, "it is loaded or made before anything is uploaded"
        return self._table

    def _part(self, shard: int, entry: PartEntry) -> Part:
        directory = parts_directory(self._files.shard_directory(shard))
        return Part(shard, part_path(directory, entry), entry)

    @contextmanager
    def _explained(self, part: Part) -> Iterator[None]:
        """Say of a part's file that is missing or damaged whether the part list still has it."""
        try:
            yield
        except (FileNotFoundError, ShardlogError) as error:
            if part.entry not in self.parts(part.shard).entries:
                raise PartGoneError(PART_GONE) from error
            if isinstance(error, FileNotFoundError):
                where = "" if self._reader.options.lake is None else " here and in the lake"
                raise self._damaged(part, f"a part is missing{where}") from error
            if type(error) is CorruptionError:
                raise self._damaged(part, error.message) from error
            raise

    def _damaged(self, part: Part, damage: str) -> CorruptionError:
        message = (
            f"{damage}, so it cannot be published; `seal` with rebuild builds it again, if the log "
            "has its rows, and `shardlog lake repair` brings it from whoever has the file"
        )
        return damaged_part(self._files.meta.name, part, message)


@contextmanager
def _writing(scratch: Path) -> Iterator[None]:
    """Translate what the system, or Arrow, refuses to whoever writes a part again.

    Raises:
        UnavailableError: There is no memory or no disk for it.
    """
    doing = "files for the lake cannot be written"
    try:
        yield
    except FileNotFoundError:
        # The part's own.
        raise
    except (OSError, pa.ArrowException, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "there is no memory for it"
        message = f"{doing}: {reason}"
        raise UnavailableError(message, path=scratch) from error
