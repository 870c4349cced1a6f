"""Beginning a shard from its table: a new log in this root, with the rows that another published.

Of the rows only those are brought here that came out of order, and those of files that were
rewritten for the table. The others stay where they are: reads bring what they need of them, as of
parts whose files are gone from here (parts/part_home.py).
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Final

from storage_core.catalog.begun_shards import BegunLog, log_in_making, put_begun_log
from storage_core.catalog.origin import RETRY_SHARDS_FROM
from storage_core.catalog.stream_file import StreamFiles
from storage_core.engine.environment import Environment
from storage_core.engine.key_value import KeyValueStore
from storage_core.errors import ForeignDataError, ShardlogError, UnavailableError
from storage_core.format.block import BlockPlace
from storage_core.format.keys import INT64_MIN
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange
from storage_core.lake.beginning.begun_store import BegunState, BegunStore
from storage_core.lake.beginning.joined_zones import OutOfOrderRows, with_expired, zones_of
from storage_core.lake.beginning.late_copies import copies_of, out_of_order_rows, places_of
from storage_core.lake.beginning.part_columns import group_rows, part_addresses
from storage_core.lake.beginning.positions import origin_table
from storage_core.lake.beginning.rewritten_parts import bring_file, part_again
from storage_core.lake.beginning.shard_facts import (
    LogHeads,
    heads_with_files,
    log_heads,
    notes_told,
    ranges_within,
)
from storage_core.lake.beginning.table_parts import (
    TableFooter,
    TablePart,
    entry_of,
    read_footers,
)
from storage_core.lake.beginning.wide_windows import windows_of
from storage_core.lake.file_store import FileStore
from storage_core.lake.heads.run_notes import RunNotes, RunSettings
from storage_core.lake.heads.runs import ShardHeadsRead, read_runs
from storage_core.lake.maintenance.foreign_files import refuse_foreign_files
from storage_core.lake.publishing.notes import LakeNote, LakeNotes
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from storage_core.parts.snapshot import listed_parts, parts_directory
from storage_core.platform.durable_file import sync_directory, taking_errors
from storage_core.read.answer import trimmed_rows_of
from storage_core.read.cold.rows import ColdRows
from storage_core.read.snapshot import whole_snapshot
from storage_core.retention.expiry import terms_of

_STORE: Final = "db"
_NS_A_MS: Final = 10**6
# How often it is begun anew where somebody publishes the shard meanwhile.
_LOADS_MAX: Final = 20
# Called with how many of a shard's files were looked at, and how many there are.
OnFiles = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class BegunShard:
    """A shard whose log begins from its table.

    Attributes:
        shard: The shard's number.
        start: The first address of its rows.
        end: The exclusive end: where its source goes on.
        rows: How many rows the table has.
        files: How many files have them.
        archived: Whether the log took the place of another, which is archived.
        damaged_runs: Paths of heads runs that are damaged.
        without_run: Ranges of addresses that no heads run covers, since one is damaged or gone, or
            an older shardlog published them: heads were made of the rows, and dead letters that
            lie there are not known.
    """

    shard: int
    start: int
    end: int
    rows: int
    files: int
    archived: bool
    damaged_runs: tuple[str, ...] = ()
    without_run: tuple[AddressRange, ...] = ()


def begin_from_lake(  # noqa: PLR0913 - what a call is told
    root: str | PathLike[str],
    name: str,
    shards: Collection[int],
    target: LakeTarget | None = None,
    *,
    expire: bool = False,
    on_progress: OnFiles | None = None,
    environment: Environment | None = None,
) -> dict[int, BegunShard]:
    """Let shards have logs that begin with what their table has; durable on return.

    For each shard that the table has, one after the other:

    1. Load: how far it is published and by whom, its files, and what the heads runs beside the
       table tell of them.
    2. Look at the end of each file; bring those here whose rows are out of order, and those that
       were rewritten, which become parts again.
    3. Write a log that nobody knows yet: its parts, the schemas and keys of their rows, heads,
       windows, zones, copies of rows out of order, dead letters; committed up to where the shard
       is published. All of it becomes durable.
    4. Put it in its place: options.json names it. A log that was there is archived, until a publish
       finds that the table has all of its rows (covered_logs.py). A note says how far it is
       published (notes.py).

    A crash before 4 leaves what the next call clears away; to call it again is harmless. Who
    publishes the shard loses nothing by it, and is refused once the new log has published.

    Args:
        root: The directory that holds the streams.
        name: The stream, whose shards are the partitions of an origin.
        shards: The shards, whether this root has them or not; nobody writes to them meanwhile.
        target: Where the table is, as the stream's option `lake` says; if None by that option.
        expire: Whether rows that are older than the stream keeps, by the clock, are hidden from the
            beginning, as the next expiry would hide them.
        on_progress: Called with how many files were looked at, and how many there are.
        environment: Time and stores, for tests.

    Returns:
        What began, by shard; shards that were never published are left out.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake, or no origin; or another
            program wrote the table.
        ForeignDataError: The table is of another stream, or of other settings than this one's.
        CorruptionError: A file is damaged or missing in the store.
        ShardLockedError: A writer holds a shard.
        UnavailableError: The store does not answer, the disk refuses, or another process has put
            a log in the place of a shard meanwhile.
    """
    files, place, table = origin_table(root, name, target)
    begun: dict[int, BegunShard] = {}
    if table is None:
        return begun
    outside = environment or Environment()
    terms = terms_of(files, None, outside.clock)
    floor = INT64_MIN if not expire or terms.floor is None else terms.floor
    for shard in sorted(set(shards)):
        if table.published(shard) is not None:
            course = _Course(files, shard, table, FileStore(place), outside, on_progress, floor)
            try:
                files, begun[shard] = course.run()
            except ShardlogError as error:
                raise error.placed(name, shard) from error
            now_ms = outside.clock.now_ns() // _NS_A_MS
            lineage = files.settings.lineages[shard].hex()
            note = LakeNote(place.uri, lineage, begun[shard].end, now_ms)
            LakeNotes(files.directory.parent).write(name, {shard: note})
    return begun


class _Course:
    """One shard's way from a table to a log."""

    def __init__(  # noqa: PLR0913 - what it is done with
        self,
        files: StreamFiles,
        shard: int,
        table: LakeTable,
        store: FileStore,
        outside: Environment,
        on_files: OnFiles | None,
        floor: int,
    ) -> None:
        self._files = files
        self._shard = shard
        self._table = table
        self._lake = store
        self._outside = outside
        self._on_files = on_files or _ignore_files
        self._floor = floor
        self._has_keys = files.meta.has_keys

    def run(self) -> tuple[StreamFiles, BegunShard]:
        """Follow the steps of `begin_from_lake`; return the stream's files as they are then."""
        end, paths, read = self._load()  # 1
        notes = notes_told(read, RunSettings.of(self._files.meta))
        self._refuse_other_settings(notes.settings)
        notes = replace(notes, floor=max(self._floor, notes.floor))
        footers = read_footers(self._lake, paths)
        clock = self._outside.clock
        with log_in_making(self._files, self._shard, end) as log:
            with taking_errors(log.directory, "beginning a log from the lake"):
                parts = self._parts(log, footers, notes.schemas, read.damaged)  # 2
                state = self._state(log, parts, notes, read.missing, end)
                heads = self._heads(log, parts, read, notes.floor)
                self._write(log, state, parts, notes, heads)  # 3
            # Rows of retried dead letters have addresses of their own in each log.
            is_copy = self._shard < RETRY_SHARDS_FROM
            files = put_begun_log(self._files, log, state.born, clock, is_copy=is_copy)  # 4
        rows = sum(part.entry.rows for part in parts)
        first = min((part.entry.first for part in parts), default=end)
        begun = BegunShard(
            self._shard,
            state.start,
            end,
            rows,
            len(paths),
            archived=log.replaced is not None,
            damaged_runs=read.damaged,
            without_run=tuple(ranges_within(read.missing, first, end)),
        )
        return files, begun

    def _load(self) -> tuple[int, dict[str, int], ShardHeadsRead]:
        """Step 1: return how far the shard is published, its files, and what the runs tell.

        Runs are no part of a version: whoever publishes meanwhile may merge them beyond it.
        """
        table, shard = self._table, self._shard
        for _ in range(_LOADS_MAX):
            published, files = table.published(shard), table.files(shard)
            if published is None:
                # It was asked before: another table has come in the place of that.
                message = "the table was made anew meanwhile; try again"
                raise UnavailableError(message)
            refuse_foreign_files(table)
            read = read_runs(table, shard, 0, published)
            table.reload()
            if (table.published(shard), table.files(shard)) == (published, files):
                return published, files, read
        message = "somebody else publishes the shard all the time; try again"
        raise UnavailableError(message)

    def _refuse_other_settings(self, theirs: RunSettings) -> None:
        """Refuse rows that another stream's settings judged.

        Raises:
            ForeignDataError: They are others.
        """
        own = RunSettings.of(self._files.meta)
        for name in ("unit", "jitter", "key_mode"):
            current, was = getattr(own, name), getattr(theirs, name)
            if current != was:
                message = (
                    f"the table was published by a stream whose {name} is {was}, and here it is "
                    f"{current}: make the stream with the same, or give it another lake"
                )
                raise ForeignDataError(message, stream=self._files.meta.name, shard=self._shard)

    def _parts(
        self,
        log: BegunLog,
        footers: Sequence[TableFooter],
        schemas: Sequence[SchemaEntry],
        damaged_runs: Sequence[str],
    ) -> list[TablePart]:
        """Step 2: return the parts of the log; those that are to be here are."""
        directory = parts_directory(log.directory)
        directory.mkdir()
        now_ms = self._outside.clock.now_ns() // _NS_A_MS
        parts = []
        for number, file in enumerate(footers):
            proof, facts = file.proof, file.facts
            if file.name.rewritten_digest is not None:
                proof, facts = part_again(
                    self._lake, file.path, file.name, directory, number, has_keys=self._has_keys
                )
            entry = entry_of(facts, proof, number, schemas, now_ms, damaged_runs=damaged_runs)
            if entry.is_out_of_order and file.name.rewritten_digest is None:
                bring_file(self._lake, file.path, file.name, directory / entry.file_name)
            parts.append(TablePart(entry, facts))
            self._on_files(number + 1, len(footers))
        return parts

    def _state(
        self,
        log: BegunLog,
        parts: Sequence[TablePart],
        notes: RunNotes,
        missing: Sequence[AddressRange],
        end: int,
    ) -> BegunState:
        start = min((part.entry.first for part in parts), default=end)
        # Where runs begin the log did whose rows they tell of; below that it had nothing.
        begins = [gap.end for gap in missing[:1] if gap.start == 0 and gap.end < end]
        begin = min([start, *begins, *(address for address, _ in notes.dead_letters)])
        has_expired = notes.floor > INT64_MIN or notes.cut > begin
        if not has_expired:
            # Nothing of it is gone.
            start = begin
        return BegunState(
            log.lineage,
            born=begin,
            start=start,
            end=end,
            floor=notes.floor,
            cut=notes.cut,
            has_expired=has_expired,
            owner=self._table.owner(self._shard),
            gaps=ranges_within(notes.gaps, start, end),
            skipped=ranges_within(notes.skipped, start, end),
        )

    def _heads(
        self, log: BegunLog, parts: Sequence[TablePart], read: ShardHeadsRead, floor: int
    ) -> LogHeads:
        listed = list(listed_parts(self._shard, log.directory, [part.entry for part in parts]))
        heads = heads_with_files(read, listed, has_keys=self._has_keys)
        return log_heads(heads, floor, has_keys=self._has_keys)

    def _write(
        self,
        log: BegunLog,
        state: BegunState,
        parts: Sequence[TablePart],
        notes: RunNotes,
        heads: LogHeads,
    ) -> None:
        """Step 3."""
        directory = parts_directory(log.directory)
        with closing(self._outside.open_store(log.directory / _STORE, "strict")) as store:
            begun = BegunStore(store, state)
            begun.put_parts([part.entry for part in parts], notes.schemas, heads.keys)
            begun.put_heads(heads)
            rows = self._copied(store, begun, log, state, parts)
            of_group = partial(group_rows, self._shard, directory)
            begun.put_windows(windows_of(parts, rows, self._files.meta.scheme, of_group))
            of_part = partial(part_addresses, self._shard, directory)
            zones = zones_of(parts, rows, state.start, of_part)
            begun.finish(
                with_expired(zones) if state.has_expired else zones,
                notes.dead_letters,
                sum(zone.block_bytes for zone in zones),
            )
        for place in (directory, log.directory / _STORE, log.directory):
            sync_directory(place)

    def _copied(
        self,
        store: KeyValueStore,
        begun: BegunStore,
        log: BegunLog,
        state: BegunState,
        parts: Sequence[TablePart],
    ) -> OutOfOrderRows:
        """Write the copies of rows out of order; return what else is needed of these rows."""
        meta = self._files.meta
        place = BlockPlace(log.lineage, self._shard)
        rows_of = trimmed_rows_of(log.directory)
        places = []
        with closing(whole_snapshot(place, meta, state.born, store.snapshot(), rows_of)) as view:
            cold = ColdRows(view, parts_directory(log.directory))
            for part in parts:
                if part.is_out_of_order:
                    rows = out_of_order_rows(cold, part.entry)
                    places.append(places_of(rows))
                    for copies, ahead in copies_of(rows, meta.scheme):
                        begun.put_copies(copies, ahead)
        return OutOfOrderRows.of(places)


def _ignore_files(_done: int, _total: int) -> None:
    """Do nothing."""
