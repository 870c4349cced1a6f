"""The lab: one stream on a disk that can die, and the words tests use for what is done to it.

    lab = Lab(options)
    lab.create()
    lab.append(record)
    lab.arm(Crash(shard=1, call=2))
    lab.commit()               raises SimulatedCrash before the second writing call of shard 1
    lab.bury()
    lab.open()
    lab.rows_of(lab.tail(1))   plain tuples

Each shard has a `FaultyDisk` of its own: calls of one shard come in a fixed order even where
several shards commit beside each other, so that a crash at the n-th call is always the same.
Before it stands a witness that holds the writer to its order on every call (witness.py).
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from storage_core import (
    AppendReport,
    Environment,
    LostRangeError,
    PartBuilder,
    Stream,
    StreamOptions,
    StreamReader,
    Transaction,
)
from storage_core.engine.commit_marker import MarkerWriter
from storage_core.engine.key_value import KeyValueStore, Recovery
from storage_core.format.window import UNITS_PER_SECOND
from storage_core.platform.arrow import Array, nulls
from storage_core.testing import ManualClock, SimulatedCrash
from tests.dying_files import DyingFiles
from tests.far_reader import FarReader
from tests.model.keyed import has_keys, key_of
from tests.model.schemas import with_schemas
from tests.strategies import NOW, BatchForm, Crash, Given, GivenCaps
from tests.witness import Witness

STREAM: Final = "stream"
Range = tuple[int, int]
# A process that dies keeps its page cache, so a disk in memory loses exactly as much.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a private directory is made inside it


class Lab:
    """One stream, its writer, a reader beside it, its disks and its clock."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.root = Path(tempfile.mkdtemp(prefix="shardlog-lab-", dir=_fast_directory()))
        self._unit_ns = 10**9 // UNITS_PER_SECOND.get(options.unit, 1)
        self.clock = ManualClock(wall_ns=NOW * self._unit_ns)
        self.witnesses = [Witness() for _ in range(options.shards)]
        self._writer: Stream | None = None
        self._reader: StreamReader | FarReader | None = None
        self._files = DyingFiles(self.root, self._die)
        self.reads_from_afar = False
        """Whether the next reader is opened in another process."""

    # --- life and death --------------------------------------------------------------------

    def create(self) -> None:
        """Make the stream."""
        self._writer = Stream.create(
            self.root, STREAM, self.options, environment=self.environment()
        )

    def open(self) -> None:
        """Open the stream, recovering what a crash left."""
        self._writer = Stream.open(self.root, STREAM, environment=self.environment())

    def close(self) -> None:
        """Close the writer cleanly."""
        self.writer.close()

    def reopen(self) -> None:
        """Close the writer and open it again."""
        self.close()
        self.open()

    def reopen_while_parts_are_away(self) -> None:
        """Close the writer, and open it again where no file of a part is."""
        self.close()
        places = [path for name in ("sealed", "parts") for path in self.root.glob(f"*/*/{name}")]
        for path in places:
            path.rename(path.with_name(f"{path.name}-away"))
        self.open()
        for path in places:
            # What an opening makes of nothing is empty.
            with suppress(FileNotFoundError):
                path.rmdir()
            path.with_name(f"{path.name}-away").rename(path)

    def leave_by_exception(self) -> None:
        """Leave the writer's block by an exception, and open the stream again."""
        with suppress(_LeftError), self.writer:
            _leave()
        self.open()

    def arm(self, crash: Crash) -> None:
        """Let the process die before the n-th next writing call of a shard."""
        if crash.call:
            disk = self.witnesses[crash.shard % self.options.shards].disk
            disk.crash_at = disk.calls + crash.call

    def disarm(self) -> None:
        """Let the disks live."""
        for witness in self.witnesses:
            witness.disk.crash_at = None

    def kill(self) -> None:
        """Let the process die here and now."""
        for witness in self.witnesses:
            witness.disk.crash_at = 0
        self.bury()

    def bury(self) -> None:
        """Let go of all that the dead process held, as the kernel would."""
        writer, self._writer = self._writer, None
        if writer is not None:
            for shard in writer._shards.values():
                shard.abandon()
        for witness in self.witnesses:
            witness.disk.bury()
        self.disarm()

    def dies(self, call: Callable[[], object], file_call: int = 0) -> bool:
        """Tell whether the process died in this call, at a call to files if that is named."""
        with self._files.armed(file_call):
            try:
                call()
            except SimulatedCrash:
                return True
        return False

    def _die(self) -> None:
        """Let the process die at a call to a file, for all that it has open."""
        for witness in self.witnesses:
            witness.disk.crash_at = 0
        message = "crashed at a call to a file"
        raise SimulatedCrash(message)

    def clean_up(self) -> None:
        """Close everything and remove the root."""
        self.close_reader()
        self.bury()
        shutil.rmtree(self.root, ignore_errors=True)

    # --- time and disks --------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Wall time in the stream's unit."""
        return self.clock.now_ns() // self._unit_ns

    def let_pass(self, units: int) -> None:
        """Move time on."""
        self.clock.advance(units * self._unit_ns / 10**9)

    def flush(self, shard: int) -> None:
        """Move what a shard's store holds in memory to files."""
        self.writer._shards[shard]._store.flush()

    def environment(self) -> Environment:
        """Return an environment with these disks and this clock."""
        return Environment(self.clock, self._open_store, self._open_marker, has_index_worker=False)

    def _open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:
        return self._witness_of(path).open_store(path, recovery)

    def _open_marker(self, path: Path) -> tuple[MarkerWriter | None, int]:
        return self._witness_of(path).open_marker(path)

    def _witness_of(self, path: Path) -> Witness:
        return self.witnesses[int(path.parent.name.removeprefix("shard-"))]

    # --- writing ---------------------------------------------------------------------------

    @property
    def writer(self) -> Stream:
        """The open stream."""
        assert self._writer is not None, "the writer is dead"
        return self._writer

    def append(self, record: Given) -> None:
        """Append one record, by itself where that can be."""
        if has_keys(self.options):
            self.append_batch([record])
            return
        self.writer.append(*record)

    def append_batch(
        self,
        records: Sequence[Given],
        form: BatchForm = "batch",
        *,
        shard: int | None = None,
        addresses: Sequence[int] | None = None,
        source: dict[str, int] | None = None,
    ) -> AppendReport:
        """Append a batch."""
        batch, schemas = with_schemas(
            as_arrow(records, form, keyed=has_keys(self.options)), records
        )
        return self.writer.append_batch(
            batch, shard=shard, addresses=addresses, source=source, schemas=schemas
        )

    def transaction(
        self, name: str, steps: Iterable[Given | Sequence[Given]], rows_total: int
    ) -> None:
        """Run a transaction of single records and batches."""
        with self.writer.transaction(name, rows_total) as transaction:
            self.stage(transaction, steps)

    def abort_transaction(self, name: str, steps: Sequence[Given | Sequence[Given]]) -> None:
        """Leave a transaction by an exception."""
        unfinished = self.writer.transaction(name, rows_in(steps))
        with suppress(_LeftError), unfinished as transaction:
            self.stage(transaction, steps)
            _leave()

    def die_in_transaction(self, name: str, steps: Sequence[Given | Sequence[Given]]) -> None:
        """Let the process die before a transaction's block is left."""
        transaction = self.writer.transaction(name, rows_in(steps))
        self.stage(transaction, steps)
        self.kill()
        transaction._writer.close()

    def stage(self, transaction: Transaction, steps: Iterable[Given | Sequence[Given]]) -> None:
        """Hand single records and batches to a transaction."""
        if not has_keys(self.options):
            stage(transaction, steps)
            return
        for step in steps:
            records = [step] if isinstance(step, Given) else step
            transaction.append_batch(as_arrow(records, keyed=True))

    def commit(self) -> dict[int, int]:
        """Commit."""
        return self.writer.commit()

    def commit_while_appending(self, shard: int, records: Sequence[Given]) -> bool:
        """Commit while another caller appends during a shard's sync; tell whether it synced."""
        witness = self.witnesses[shard]
        witness.during_sync = lambda: self.append_batch(records, shard=shard)
        self.commit()
        has_synced = witness.during_sync is None
        witness.during_sync = None
        return has_synced

    def expire(self, floor: int, caps: GivenCaps) -> None:
        """Let everything below a floor expire, if the stream has a retention, and above caps."""
        options = self.writer.options
        if (options.records_max, options.bytes_max) != (caps.records_max, caps.bytes_max):
            self.writer.alter(records_max=caps.records_max, bytes_max=caps.bytes_max)
        retention = self.options.retention
        now = floor
        if retention is not None:
            now += int(retention.total_seconds()) * UNITS_PER_SECOND[self.options.unit]
        expected = self.writer.expire(now, dry_run=True)
        done = self.writer.expire(now)
        assert {**expected.shards} == {**done.shards}

    def seal(self, then: str) -> None:
        """Make parts of what is committed; then trim, compact, or do nothing."""
        self.writer.seal()
        if then == "trim":
            self.writer.trim()
        elif then == "compact":
            self.writer.compact()

    def maintain(self, *, has_builder: bool) -> None:
        """Do what is due of parts, here or by the process that makes them."""
        self.writer.maintain(_part_builder() if has_builder else None)

    def damage_part(self, index: int) -> None:
        """Cut the file of a part whose blocks are all there in half, if there is one."""
        parts = [one for one in self.writer.parts() if one.entry.first >= self.trimmed(one.shard)]
        if parts:
            part = parts[index % len(parts)]
            os.truncate(part.path, part.entry.size // 2)

    def rebuild_parts(self) -> None:
        """Make parts again that are damaged."""
        self.writer.seal(rebuild=True)

    def trimmed(self, shard: int) -> int:
        """Return the address below which the blocks of a shard are gone."""
        return self.writer._shards[shard].commit_path.progress.state.trimmed

    def cut(self, shard: int) -> int:
        """Return the address below which caps have taken all of a shard."""
        return self.writer._shards[shard].commit_path.progress.state.cut

    def blocks(self, shard: int) -> list[tuple[int, int]]:
        """Return where the committed blocks of a shard end, and their bytes."""
        view = self.writer._shards[shard].snapshots.committed()
        try:
            zones = view.zones(view.state.start, view.committed)
            return [(one.end, one.block_bytes) for one in zones if one.end <= view.committed]
        finally:
            view.close()

    def floor(self, shard: int) -> int:
        """Return the floor that a shard has."""
        return self.writer._shards[shard].state().floor

    # --- reading ---------------------------------------------------------------------------

    @property
    def reader(self) -> Any:
        """A reader beside the writer, here or in another process, opened when first needed."""
        if self._reader is None and self.reads_from_afar:
            self._reader = FarReader(self.root, STREAM)
        elif self._reader is None:
            # Its pauses move no clock but its own.
            environment = Environment(ManualClock())
            self._reader = StreamReader.open(self.root, STREAM, environment=environment)
        return self._reader

    @property
    def has_reader(self) -> bool:
        """Tell whether a reader is open."""
        return self._reader is not None

    def close_reader(self) -> None:
        """Close the reader; the next look opens another."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


@cache
def _part_builder() -> PartBuilder:
    """Return the one process that makes parts for all that is tried."""
    return PartBuilder()


class _LeftError(Exception):
    """What a caller's own code raises."""


def _leave() -> None:
    raise _LeftError


# --- rows and batches ----------------------------------------------------------------------


def as_arrow(
    records: Sequence[Given], form: BatchForm = "batch", *, keyed: bool = False
) -> pa.RecordBatch | pa.Table:
    """Return records as a batch of the exact types, of types that cast, or as a chunked table.

    Where records belong to keys each has that which stands for its id.
    """
    primaries, secondaries, payloads, versions = (
        zip(*records, strict=True) if records else ((), (), (), ())
    )
    is_wide = form == "wide"
    columns: dict[str, Array] = {
        "payload": pa.array(payloads, pa.large_binary() if is_wide else pa.binary()),
        "secondary": pa.array(secondaries, pa.int64() if is_wide else pa.int32()),
        "primary": pa.array(primaries, pa.int64()),
    }
    if keyed:
        kind = pa.large_binary() if is_wide else pa.binary()
        columns["key"] = pa.array([key_of(one) for one in secondaries], kind)
        columns["secondary"] = nulls(len(records), pa.null() if is_wide else pa.int32())
    if any(versions):
        columns["version"] = pa.array(versions, pa.uint64() if is_wide else pa.uint16())
    batch = pa.RecordBatch.from_pydict(columns)
    if form != "table":
        return batch
    middle = len(records) // 2
    return pa.Table.from_batches([batch.slice(0, middle), batch.slice(middle)])


def rows_of(batches: pa.Table | Iterable[pa.RecordBatch]) -> list[tuple[object, ...]]:
    """Return rows as plain tuples in the order of their columns."""
    if isinstance(batches, pa.Table):
        batches = batches.to_batches()
    return [
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def replayed(reads: Any, shard: int) -> tuple[list[tuple[object, ...]], list[Range]]:
    """Return what `tail` still has of a shard, and the ranges of addresses that have expired."""
    rows: list[tuple[object, ...]] = []
    gone: list[Range] = []
    position: int | None = 0
    while position is not None:
        start, position = position, None
        try:
            for batch in reads.tail(shard, start):
                rows += rows_of([batch])
        except LostRangeError as error:
            position = error.end
            gone.append((error.start or 0, error.end or 0))
    return rows, gone


def stage(transaction: Transaction, steps: Iterable[Given | Sequence[Given]]) -> None:
    """Hand single records and batches to a transaction.

    Every other batch brings keys, which are null: of other columns than the one before it is a
    write of its own when the transaction is finished, and the process may die between the two.
    """
    for number, step in enumerate(steps):
        if isinstance(step, Given):
            transaction.append(*step)
            continue
        batch = as_arrow(step)
        keys = nulls(len(step), pa.binary())
        transaction.append_batch(batch.append_column("key", keys) if number % 2 else batch)


def rows_in(steps: Iterable[Given | Sequence[Given]]) -> int:
    """Return how many records single records and batches are."""
    return sum(1 if isinstance(step, Given) else len(step) for step in steps)


def _fast_directory() -> Path | None:
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None
