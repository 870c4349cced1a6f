"""The Delta table of a stream: loaded, made, changed by one commit at a time.

A commit names the files that are added and removed, and in the shard's `txn` action up to which
address its rows are published: one atomic step. It takes the version after the loaded one, or none:
of two who loaded one version, one is refused. Where what others committed meanwhile concerns other
shards alone, it takes a later version; else the caller must compare anew.

An answer may be lost behind a commit that was taken, so after any failure the table is loaded again
and tells what became of it. What was taken is read back.

One thread at a time.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from storage_core.errors import ForeignDataError, ShardlogError, UnavailableError
from storage_core.lake.app_id import LakeStream
from storage_core.lake.delta.commits import NOTHING_BEHIND, commit_id_in, new_commit_id, once
from storage_core.lake.delta.loaded_version import LoadedVersion
from storage_core.lake.delta.shard_notes import ShardNote, ShardNotes
from storage_core.lake.delta.state import (
    checkpoint_paths,
    history_properties,
    latest_version,
    log_path,
    row_counts,
)
from storage_core.lake.delta.table_checks import refuse_unusable
from storage_core.lake.delta.table_creation import make_table
from storage_core.lake.delta.vacuum import deletable_files, files_within_history
from storage_core.lake.delta_errors import LakeConflictError, LakeFileGoneError, store_errors
from storage_core.lake.file_store import FileStore, StoredFile, store_options
from storage_core.lake.image_names import SHARD, shard_directory
from storage_core.lake.read_back import Committed, read_back, refuse_unshown
from storage_core.lake.shard_change import ShardChange, ShardFiles, TableFile
from storage_core.lake.target import LakeTarget
from storage_core.platform.clock import Clock, SystemClock

__all__ = ["LakeConflictError", "LakeFileGoneError", "LakeTable", "TableFile"]

# How often a commit takes a later version, where others publish other shards meanwhile.
TRIES_MAX: Final = 50
CHECKPOINT_EVERY: Final = 10
_NS_A_MS: Final = 1_000_000
_CLOCK: Final = SystemClock()


class LakeTable:
    """The table of one stream, as it was when it was loaded last."""

    def __init__(
        self, target: LakeTarget, stream: LakeStream, loaded: LoadedVersion, clock: Clock
    ) -> None:
        """Hold a table that was loaded and checked; `open` and `create` do so.

        Args:
            target: Where it is.
            stream: The stream.
            loaded: The table.
            clock: Tells when files are added and removed.
        """
        self.target: Final = target
        self._stream = stream
        self._clock = clock
        self._store = FileStore(target)
        self._loaded = loaded

    @classmethod
    def open(cls, target: LakeTarget, stream: LakeStream, *, clock: Clock = _CLOCK) -> Self | None:
        """Load the table of a stream; None where there is none.

        Raises:
            ForeignDataError: The table is of another stream, or none of shardlog.
            UnsupportedFormatError: It needs features of Delta that shardlog does not have.
            InvalidRequestError: It has a property that breaks its promises, or the store refuses.
            UnavailableError: The store does not answer.
        """
        with store_errors(target.uri, "loading the table"):
            try:
                delta = DeltaTable(target.uri, storage_options=store_options(target))
            except TableNotFoundError:
                return None
        refuse_unusable(delta, target, stream)
        with store_errors(target.uri, "reading up to where shards are published, and by whom"):
            loaded = LoadedVersion(delta, stream)
        return cls(target, stream, loaded, clock)

    @classmethod
    def create(
        cls, target: LakeTarget, stream: LakeStream, columns: pa.Schema, *, clock: Clock = _CLOCK
    ) -> Self:
        """Make the table of a stream, or open the one that somebody else made meanwhile.

        Args:
            target: Where it is to be.
            stream: The stream.
            columns: Its columns; `shard` is added where they lack it.
            clock: Tells when files are added and removed.

        Raises:
            ForeignDataError: Something else lies there.
            InvalidRequestError: The store lets two create one file at once (atomic_create.py); or
                Delta has no such type as a column's.
            UnavailableError: The store does not answer.
        """
        FileStore(target).make_directory()
        made = cls.open(target, stream, clock=clock)
        if made is not None:
            return made
        try:
            make_table(target, stream, columns)
        except ForeignDataError:
            # What lies there may be a table that somebody else has made meanwhile.
            made = cls.open(target, stream, clock=clock)
            if made is None:
                raise
            return made
        opened = cls.open(target, stream, clock=clock)
        if opened is None:
            message = f"{target.uri}: the store does not show the table that it took"
            raise UnavailableError(message, stream=stream.name)
        return opened

    @property
    def version(self) -> int:
        """The version that was loaded."""
        return self._delta.version()

    @property
    def columns(self) -> pa.Schema:
        """The columns, `shard` among them."""
        # It comes by Arrow's interface between libraries, of which its types do not tell.
        return pa.schema(self._delta.schema().to_arrow())  # type: ignore[arg-type] # as above

    def published(self, shard: int) -> int | None:
        """Return up to which address a shard's rows are in the table; None if none ever were."""
        return self._note(shard).published

    def owner(self, shard: int) -> int | None:
        """Return the number of the log that publishes a shard; None where none is named."""
        return self._note(shard).owner

    def has_owned(self, shard: int, number: int) -> bool:
        """Tell whether a log has become the owner of a shard, be it the owner still or not."""
        with self._errors("reading who published a shard"):
            became = self._delta.transaction_version(self._stream.owned_app_id(shard, number))
        return became is not None

    def files(self, shard: int | None = None) -> dict[str, int]:
        """Return the paths and sizes of the table's files.

        Args:
            shard: The shard whose files; None for those of all.
        """
        with self._errors("listing the table's files"):
            return dict(self._loaded.sizes_of(shard))

    def foreign_files(self) -> list[str]:
        """Return the paths of the table's files that another program wrote, in order."""
        with self._errors("listing the table's files"):
            return self._loaded.foreign_files

    def rows(self, shard: int) -> dict[str, int]:
        """Return how many rows files of a shard have, of those whose statistics say so."""
        with self._errors("reading the table's statistics"):
            return row_counts(self._delta, shard_directory(shard))

    def stored(self, shard: int) -> dict[str, int]:
        """Return the paths and sizes of what the store has in a shard's directory."""
        return self.listed(shard_directory(shard).removesuffix("/"))

    def listed(self, directory: str, *, recursive: bool = False) -> dict[str, int]:
        """Return the paths and sizes of the files in a directory below the table."""
        files = self._store.listed(directory, recursive=recursive)
        return {file.path: file.size for file in files if not file.is_directory}

    def delete(self, path: str) -> None:
        """Delete a file that no version names; one that is gone already is no error."""
        self._store.delete(path)

    def add_columns(self, fields: "Sequence[pa.Field[Any]]") -> None:
        """Add columns that the table does not have, and load it again.

        Raises:
            LakeConflictError: Somebody else has committed since the table was loaded.
        """
        with self._altering("adding columns"):
            self._delta.alter.add_columns(
                list(Schema.from_arrow(pa.schema(fields)).fields),
                commit_properties=once(),
                post_commithook_properties=NOTHING_BEHIND,
            )

    def put(self, path: str, file: Path) -> None:
        """Upload a file whole; no version names it yet.

        Raises:
            UnavailableError: The store refuses, or does not have all of it afterwards.
        """
        self._store.put(path, file)

    def get(self, path: str, into: Path) -> None:
        """Download a file whole.

        Raises:
            LakeFileGoneError: The store has none.
            UnavailableError: The store refuses, or the file cannot be written.
        """
        self._store.get(path, into)

    def commit(
        self,
        shard: int,
        adds: Sequence[TableFile],
        removes: Sequence[str],
        end: int,
        *,
        owner: int | None = None,
    ) -> None:
        """Add and remove files of one shard, as `commit_all` does.

        Args:
            shard: The shard.
            adds: Files that were uploaded.
            removes: Paths of files whose rows are in those that are added, or have expired.
            end: The exclusive end of the addresses that are published then.
            owner: The number of the log that publishes the shard then; None: as it is.

        Raises:
            LakeConflictError: Somebody else has changed the shard since the table was loaded.
            UnavailableError: The store refuses, or does not show what it took.
            CorruptionError: It has lost a file that was uploaded.
        """
        committed = self.commit_all([ShardChange(shard, adds, removes, end, owner)])
        if committed.conflicts:
            raise self._conflict()
        committed.raise_first()

    def commit_all(self, changes: Sequence[ShardChange]) -> Committed:
        """Add and remove files of some shards, and say up to where these are published, at once.

        1. Commit as the version after the loaded one, if there is none yet.
        2. If that fails, load the table: the commit was taken, and its answer lost; or somebody has
           changed some of the shards, and all begins at 1 with the others.
        3. Read back: the table has the addresses, and the store each file that was added. What is
           wrong there is told beside what is committed (read_back.py).

        The newest version is loaded on return, and after a failure if it can be.

        Args:
            changes: What changes, of each shard one.

        Returns:
            What became of them.

        Raises:
            LakeConflictError: Others commit all the time.
            UnavailableError: The store refuses, or does not show what it took.
        """
        loaded = self.version
        left = {change.shard: change for change in changes}
        before = {shard: self._shard_files(shard) for shard in left}
        for shard, change in left.items():
            change.refuse_senseless(before[shard])
        done = Committed()
        for _ in range(TRIES_MAX if left else 0):
            version, commit_id = self.version + 1, new_commit_id()
            try:
                with self._errors("committing to the table"):
                    notes = self._commit(left.values(), before, commit_id)  # 1
            except (LakeConflictError, UnavailableError) as error:
                self.reload()  # 2
                if self._is_commit(version, commit_id):
                    break
                if not isinstance(error, LakeConflictError):
                    raise
                # A version that another program wrote is followed by none.
                same = [] if self.foreign_files() else [*left]
                left = {at: left[at] for at in same if self._shard_files(at) == before[at]}
                if not left:
                    break
            else:
                wanted = {shard: change.after(before[shard]) for shard, change in left.items()}
                done = self._loaded_own(wanted, notes, commit_id)
                break
        else:
            raise self._conflict()
        if left and done.fault is None:
            done = self._read_back(left, loaded)  # 3
        if left and done.fault is None and self.version % CHECKPOINT_EVERY == 0:
            # The commit counts whether or not a checkpoint can be written; a later one will be.
            with suppress(UnavailableError):
                self.checkpoint()
        conflicts = frozenset(change.shard for change in changes) - left.keys()
        return replace(done, conflicts=conflicts)

    def commit_ids(self) -> tuple[str, str] | None:
        """Return the ids of the newest commit and of the one before it; None if one has none."""
        with self._errors("reading the newest commits"):
            return self._loaded.commit_ids()

    def renew(self) -> None:
        """Load the newest version of a table that was loaded some time ago.

        It may have been moved away since, and another one begun in its place.

        Raises:
            ForeignDataError: Another table lies there.
            UnavailableError: The table is gone, or the store does not answer.
        """
        with suppress(ShardlogError), self._errors("looking whether the table is there"):
            if self._loaded.is_newest():
                return
        self._reload_newer()

    def reload(self) -> None:
        """Load the newest version of the table, which was loaded a moment ago.

        Raises:
            ForeignDataError: Another table lies there.
            UnavailableError: The table is gone, or the store does not answer.
        """
        with suppress(ShardlogError), self._errors("looking for a newer version"):
            if latest_version(self._delta) == self.version:
                return
        self._reload_newer()

    def _loaded_own(
        self, wanted: Mapping[int, ShardFiles], notes: ShardNotes, commit_id: str
    ) -> Committed:
        """Load the version that a commit has made: it counts, whether or not that can be done."""
        with suppress(ShardlogError), self._errors("loading what was committed"):
            is_loaded = self._loaded.advance_to(notes, commit_id)
            if is_loaded and wanted == {shard: self._shard_files(shard) for shard in wanted}:
                return Committed()
        try:
            self._reload_newer()
        except ShardlogError as error:
            return Committed(fault=error)
        return Committed()

    def _reload_newer(self) -> None:
        """Load the newest version, of which it is known that it is not loaded."""
        with suppress(ShardlogError), self._errors("loading a newer version"):
            if self._loaded.advance():
                refuse_unusable(self._delta, self.target, self._stream)
                return
        opened = type(self).open(self.target, self._stream, clock=self._clock)
        if opened is None:
            message = f"the table at {self.target.uri} is gone: its disk may not be mounted"
            raise UnavailableError(message, stream=self._stream.name)
        self._loaded = opened._loaded  # noqa: SLF001 - of this class

    def checkpoint(self) -> None:
        """Write a checkpoint of the loaded version, from which the table is loaded faster."""
        with self._errors("writing a checkpoint"):
            self._delta.create_checkpoint()
        for path in checkpoint_paths(self.version):
            self._store.sync(path)

    def expire_history(self, keep: timedelta) -> None:
        """Delete commits of the log that are older than a time, behind a checkpoint.

        Args:
            keep: How long a version can be read after there is a newer one. `vacuum` leaves the
                files of such versions alone.

        Raises:
            LakeConflictError: Somebody else has committed since the table was loaded.
        """
        wanted = history_properties(keep)
        if not wanted.items() <= self._delta.metadata().configuration.items():
            with self._altering("setting how long versions are kept"):
                self._delta.alter.set_table_properties(wanted, commit_properties=once())
        self.checkpoint()
        with self._errors("deleting old versions of the log"):
            self._delta.cleanup_metadata()

    def vacuum(self, grace: timedelta, *, dry_run: bool, spared: Collection[str] = ()) -> list[str]:
        """Delete files that no version names which can still be read; return their paths.

        Args:
            grace: How old a file is at least that was uploaded and that no version ever named.
            dry_run: Delete nothing.
            spared: Paths of files that stay whatever the table says.

        Raises:
            UnavailableError: The store refuses; some files may be deleted.
        """
        self.reload()
        with self._errors("looking for files that no version names"):
            deletable = deletable_files(self._delta, self._store, grace, self._clock)
        deletable.sort(key=lambda file: file.path)
        return [
            file.path
            for file in deletable
            if file.path not in spared and self._deleted(file, dry_run=dry_run)
        ]

    def within_history(self) -> set[str]:
        """Return the paths of files that stay for older versions, as the loaded one says."""
        with self._errors("looking for files of older versions"):
            return files_within_history(self._delta)

    def _deleted(self, file: StoredFile, *, dry_run: bool) -> bool:
        """Delete a file that no version names, unless that has changed since it was listed."""
        # IMPORTANT: before each, since all of them may take hours. A name has the same rows for
        # ever, so whoever tries an upload anew that died long ago writes and commits this file.
        self.reload()
        if file.path in self.files() or self._store.written_ms(file.path) != file.written_ms:
            return False
        if not dry_run:
            self._store.delete(file.path)
        return True

    def _is_commit(self, version: int, commit_id: str) -> bool:
        """Tell whether a version is the commit of an id: another owner's may change the same."""
        with self._errors("reading what was committed"), suppress(LakeFileGoneError):
            return commit_id_in(self._store.read(log_path(version))) == commit_id
        return False

    def _commit(
        self,
        changes: Collection[ShardChange],
        before: Mapping[int, ShardFiles],
        commit_id: str,
    ) -> ShardNotes:
        """Commit as the version after the loaded one, and as no other; return what it notes."""
        now_ms = self._clock.now_ns() // _NS_A_MS
        notes = self._loaded.notes.then({of.shard: of.note(before[of.shard]) for of in changes})
        ends = {of.shard: of.end for of in changes}
        transactions = [
            txn for of in changes for txn in of.transactions(self._stream, before[of.shard].owner)
        ]
        try:
            self._delta.create_write_transaction(
                [action for of in changes for action in of.actions(before[of.shard], now_ms)],
                "append",
                self._delta.schema(),
                partition_by=[SHARD],
                commit_properties=once(commit_id, notes.metadata(ends), transactions),
                post_commithook_properties=NOTHING_BEHIND,
            )
        except CommitFailedError as error:
            raise self._conflict() from error
        return notes

    def _note(self, shard: int) -> ShardNote:
        """Return what the table says of a shard."""
        with self._errors("reading up to where a shard is published, and by whom"):
            return self._loaded.note(shard)

    @property
    def _delta(self) -> DeltaTable:
        return self._loaded.delta

    def _shard_files(self, shard: int) -> ShardFiles:
        with self._errors("reading what the table is"):
            table_id = str(self._delta.metadata().id)
        return ShardFiles(table_id, self.published(shard), self.files(shard), self.owner(shard))

    def _read_back(self, changes: Mapping[int, ShardChange], loaded: int) -> Committed:
        """See that the newest version and the store have what was committed, or more."""
        is_newer = self.version > loaded
        states = {shard: self._shard_files(shard) for shard in changes} if is_newer else {}
        refuse_unshown(changes.values(), states, self.target.uri, self._stream)
        versions = range(loaded + 1, self.version + 1)
        return read_back(changes.values(), states, versions, self._store, self._stream)

    @contextmanager
    def _altering(self, doing: str) -> Iterator[None]:
        """Change the table itself, and load it then."""
        try:
            with self._errors(doing):
                try:
                    yield
                except CommitFailedError as error:
                    raise self._conflict() from error
        finally:
            self.reload()
        self._store.sync(log_path(self.version))

    def _conflict(self) -> LakeConflictError:
        message = f"somebody else has committed to the table at {self.target.uri}"
        return LakeConflictError(message, stream=self._stream.name)

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return store_errors(self.target.uri, doing)
