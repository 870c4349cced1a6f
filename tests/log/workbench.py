"""The vocabulary of the scenarios: a stream on a bench, used, broken and looked at.

bench.append([10, 20])          two rows of id 1, primaries 10 and 20
bench.commit()                  durable and visible
bench.keep([10, 20])            both
bench.crash()                   the process is gone; nothing was committed on the way
bench.reopen()                  close, if open, and open again
bench.cut_log(20)               the end of the write-ahead log is gone
bench.drop_from_log(100, 120)     another log goes on behind a hole
bench.damage_block(first)       one bit of a stored block is flipped
bench.primaries()               what `read` shows
rows_of(batches)                batches as a list of dictionaries
"""

import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import (
    AppendReport,
    Environment,
    StagingArea,
    Stream,
    StreamOptions,
    StreamReader,
    TransactionId,
)
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import RocksDbStore, open_store
from storage_core.format.block import HEADER_BYTES
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    FAMILY_LOG,
    PREFIX_DONE,
    PREFIX_KEY,
    PREFIX_PLACE,
    head_key,
    log_key,
    prefix_end,
    zone_key,
)
from storage_core.format.row_columns import ENVELOPE
from storage_core.format.schema_entry import schema_key
from storage_core.format.shard_state import (
    KEY_FLOOR,
    KEY_HEADS,
    KEY_HEADS_MOST,
    KEY_START,
    encode_int,
    encode_range_end,
    lost_key,
)
from storage_core.read.columns import block_columns
from storage_core.write.ledger import NUMBERED_KEPT
from storage_core.write.shard import Shard
from tests.faults.support.file_formats import LOG_BLOCK
from tests.log.disks import STALL_MAX_S, BesideThread, ReinedDisk
from tests.snapshots import snapshot

TYPES: Mapping[str, pa.DataType] = {
    "primary": pa.int64(),
    "secondary": pa.int32(),
    "payload": pa.binary(),
    "version": pa.uint16(),
    **ENVELOPE,
    "schema": pa.int32(),
}


def batch_of(primary: Iterable[int], **columns: Any) -> pa.RecordBatch:
    """Return a batch; a column given as one value is the same in each row."""
    primaries = list(primary)
    values = {"secondary": 1, "payload": b"x", **columns, "primary": primaries}
    return pa.RecordBatch.from_pydict(
        {
            name: pa.array(
                value if isinstance(value, list | range) else [value] * len(primaries),
                TYPES[name],
            )
            for name, value in values.items()
        }
    )


def each_a_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give every other batch a key; a transaction stages them apart then, and writes them apart."""
    for number, batch in enumerate(batches):
        key = pa.array([None] * len(batch), pa.binary())
        yield batch.append_column("key", key) if number % 2 else batch


def rows_of(batches: pa.Table | Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Return the rows of batches or of a table."""
    if isinstance(batches, pa.Table):
        return batches.to_pylist()
    return [row for batch in batches for row in batch.to_pylist()]


def column_of(batches: pa.Table | Iterable[pa.RecordBatch], name: str) -> list[Any]:
    """Return one column of batches or of a table."""
    return [row[name] for row in rows_of(batches)]


def settle(stream: Stream) -> None:
    """Let what is removed behind a stream's writes be removed."""
    for shard in stream._shards.values():
        store: Any = shard._store
        while hasattr(store, "_store") or hasattr(store, "_behind"):
            store = getattr(store, "_store", None) or store._behind
        store._compactor.settle()


@contextmanager
def _held_beside(held: AbstractContextManager[object]) -> Iterator[None]:
    """Let another thread be inside a block of the log."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with held:
            inside.set()
            assert leave.wait(STALL_MAX_S)

    with BesideThread(hold):
        assert inside.wait(STALL_MAX_S)
        yield
        leave.set()


class Workbench:
    """One stream, and what may befall it."""

    def __init__(
        self,
        root: Path,
        name: str,
        *,
        environment: Environment | None = None,
        disk: ReinedDisk | None = None,
        **options: Any,
    ) -> None:
        self.root = root
        self.name = name
        # Nobody but the test writes, unless it brings an environment of its own.
        alone = environment or Environment(has_index_worker=False)
        self.environment = disk.environment if disk is not None else alone
        options.setdefault("shards", 1)
        self.stream = Stream.create(
            root, name, StreamOptions(**options), environment=self.environment
        )

    # --- use ---------------------------------------------------------------------------------

    def append(self, primary: Iterable[int], **columns: Any) -> AppendReport:
        """Append a batch; `addresses`, `source`, `shard`, `attachments` go to the call."""
        call = {
            key: columns.pop(key)
            for key in ("addresses", "source", "shard", "attachments")
            if key in columns
        }
        return self.stream.append_batch(batch_of(primary, **columns), **call)

    def keep(self, primary: Iterable[int], **columns: Any) -> None:
        """Append a batch and commit it."""
        self.append(primary, **columns)
        self.commit()

    def commit(self) -> dict[int, int]:
        return self.stream.commit()

    def primaries(self, **request: Any) -> list[int]:
        """Return the primaries that `read` shows, in its order."""
        return column_of(self.stream.read(**request), "primary")

    def arrivals(self, **request: Any) -> list[int]:
        """Return the primaries that `scan` shows, in its order."""
        return column_of(self.stream.scan(**request), "primary")

    def tail(self, name: str, start: int = 0, end: int | None = None) -> list[Any]:
        """Return one column of what `tail` shows of shard 0."""
        return column_of(self.stream.tail(0, start, end), name)

    def rows_block_by_block(self, columns: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return all rows of shard 0, each block read by itself."""
        view = self.shard.snapshots.committed()
        blocks = [view.block(zone) for zone in view.zones(0, view.committed)]
        rows = rows_of(block_columns(one, 0, columns, None) for one in blocks)
        view.close()
        return rows

    def held_by_another_thread(self, shard: int = 0) -> AbstractContextManager[None]:
        """Let another thread be inside a shard, where only one can append."""
        return _held_beside(self.stream._shards[shard].guard.appending())

    def looked_after_by_another_thread(self, shard: int = 0) -> AbstractContextManager[None]:
        """Let another thread look after a whole shard, as expiry and verify do."""
        return _held_beside(self.stream._shards[shard].guard.maintenance_lock)

    def store_held_by_another_thread(self) -> AbstractContextManager[None]:
        """Let another thread be inside the store of shard 0."""
        store: Any = self.shard._store
        return _held_beside(store._lock)

    def read_beside(self, environment: Environment | None = None) -> StreamReader:
        """Return a reader as another process has it."""
        return StreamReader.open(self.root, self.name, environment=environment)

    def flush(self) -> None:
        """Let what the store of shard 0 has in memory go to files."""
        self.shard._store.flush()

    def flush_state(self) -> None:
        """Let what the store of shard 0 has in memory go to files, the blocks left out."""
        store: Any = self.shard._store
        store._database.flush()

    # --- ends and beginnings -----------------------------------------------------------------

    def close(self) -> None:
        self.stream.close()

    def open(self, **how: Any) -> Stream:
        """Open the stream again; it must be closed."""
        how.setdefault("environment", self.environment)
        self.stream = Stream.open(self.root, self.name, **how)
        return self.stream

    def reopen(self, **how: Any) -> Stream:
        self.close()
        return self.open(**how)

    def crash(self) -> None:
        """Let the process be gone: its files are what the kernel had of them at this moment."""
        self.settle()
        stores = [path for path in self.directory.glob("shard-*/db") if path.is_dir()]
        for store in stores:
            snapshot(store, store.with_name("db-at-crash"))
        self.release()
        for store in stores:
            shutil.rmtree(store)
            store.with_name("db-at-crash").rename(store)

    def settle(self) -> None:
        """Let what is removed behind be removed."""
        settle(self.stream)

    def segments(self) -> list[int]:
        """Return the numbers of the segments that are there."""
        return sorted(int(path.name) for path in self.database.glob("segments/*"))

    def release(self) -> None:
        """Free locks and files without a commit, whatever state the stream is in."""
        for shard in self.shards():
            shard.abandon()

    def shards(self) -> list[Shard]:
        return list(self.stream._shards.values())

    @property
    def shard(self) -> Shard:
        return self.stream._shards[0]

    # --- what lies on the disk ---------------------------------------------------------------

    @property
    def directory(self) -> Path:
        return self.root / self.name

    @property
    def shard_directory(self) -> Path:
        return self.directory / "shard-0000"

    @property
    def database(self) -> Path:
        return self.shard_directory / "db"

    @property
    def marker(self) -> Path:
        return self.shard_directory / "marker"

    @property
    def staging(self) -> Path:
        return self.directory / "staging"

    def remembered(self, shard: int = 0) -> list[str]:
        """Return the ids of transactions that a shard knows as done, oldest first."""
        view = self.stream._shards[shard].snapshots.committed()
        by_place = [name for _, name in view.meta_items(PREFIX_PLACE, prefix_end(PREFIX_PLACE))]
        by_name = [key[1:] for key, _ in view.meta_items(PREFIX_DONE, prefix_end(PREFIX_DONE))]
        view.close()
        assert sorted(by_place) == sorted(by_name)
        return [name.decode() for name in by_place]

    def numbered_keys(self) -> int:
        """Return how many keys shard 0 has given a number."""
        view = self.shard.snapshots.whole()
        count = sum(1 for _ in view.meta_items(PREFIX_KEY, prefix_end(PREFIX_KEY)))
        view.close()
        return count

    def store(self) -> RocksDbStore:
        """Open the store of shard 0 behind the stream's back; the stream must be closed."""
        return open_store(self.database, "strict")

    def change(
        self,
        *puts: tuple[str, bytes, bytes],
        deletes: Iterable[bytes] = (),
        deleted_blocks: Iterable[int] = (),
    ) -> None:
        """Put and delete keys behind the stream's back."""
        batch = Batch()
        for family, key, value in puts:
            batch.put(key, value, family)
        for key in deletes:
            batch.delete(key)
        for first in deleted_blocks:
            batch.delete(log_key(first), FAMILY_LOG)
        store = self.store()
        store.write(batch)
        store.close()

    def expire_below(self, primary: int) -> None:
        """Let everything below a primary be expired; the stream is open again."""
        self.close()
        self.change((FAMILY_DEFAULT, KEY_FLOOR, encode_int(primary)))
        self.open()

    def start_at(self, address: int) -> None:
        """Let the log begin at a block, as expiry will."""
        self.change((FAMILY_DEFAULT, KEY_START, encode_int(address)))

    def lose(self, start: int, end: int) -> None:
        """Let a range be one that somebody accepted the loss of."""
        self.change((FAMILY_DEFAULT, lost_key(start), encode_range_end(end)))

    def remove_zone(self, first: int) -> None:
        """Break the chain of zones at a block."""
        self.change(deletes=[zone_key(first)])

    def remove_schema(self, number: int) -> None:
        """Remove a schema from the shard's dictionary behind the stream's back."""
        self.change(deletes=[schema_key(number)])

    def stored(self, key: bytes) -> bytes | None:
        """Return what the store has under a key; the stream must be closed."""
        store = self.store()
        (value,) = store.get_many([key])
        store.close()
        return value

    def call_heads_written(self, through: int) -> None:
        """Let the next open replay no block below an address, so that it reads none of them."""
        self.change((FAMILY_DEFAULT, KEY_HEADS, encode_int(through)))

    def has_head_on_disk(self, secondary: int) -> bool:
        """Tell whether an id's head is on disk; the stream must be closed."""
        return self.stored(head_key(secondary)) is not None

    def forget_largest_of_heads(self) -> None:
        """Let nothing be known of all heads together."""
        self.change(deletes=[KEY_HEADS_MOST])

    def rows_on_disk(self, first: int) -> bytes:
        """Return what is stored of a block's rows, without its place; the stream must be closed."""
        store = self.store()
        item = store.snapshot().at_or_after(FAMILY_LOG, log_key(first))
        store.close()
        assert item is not None
        return item[1][HEADER_BYTES:]

    def damage_block(self, first: int) -> None:
        """Flip a bit of a block; its own checksum is all that can tell."""
        store = self.store()
        item = store.snapshot().at_or_after(FAMILY_LOG, log_key(first))
        store.close()
        assert item is not None
        self.change((FAMILY_LOG, item[0], item[1][:-1] + bytes([item[1][-1] ^ 1])))

    def write_ahead_log(self) -> Path:
        """Return the newest write-ahead log of shard 0."""
        return max(self.database.glob("*.log"))

    def cut_log(self, bytes_off: int) -> None:
        """Cut bytes off the end of the newest write-ahead log; the stream must have crashed."""
        log = self.write_ahead_log()
        log.write_bytes(log.read_bytes()[:-bytes_off])

    def drop_from_log(self, start: int, end: int) -> None:
        """Let one write-ahead log end at one place, and another go on from a later one.

        The places are sizes that the newest had; the stream must have crashed.
        """
        log = self.write_ahead_log()
        data = log.read_bytes()
        assert len(data) < LOG_BLOCK, "records of a longer one know where they lie"
        log.write_bytes(data[:start])
        log.with_name(f"{int(log.stem) + 100:06}.log").write_bytes(data[end:])


def transact(bench: Workbench, *names: str, secondary: int = 1) -> None:
    """Run transactions of one row each, whose primary is the name."""
    for name in names:
        with bench.stream.transaction(name, 1) as transaction:
            transaction.append(int(name), secondary, b"")


def publish(
    bench: Workbench,
    transaction: TransactionId,
    primaries: Sequence[int],
    secondaries: Sequence[int],
) -> None:
    """Stage a transaction's rows and publish it; whoever finishes it lets them land."""
    area = StagingArea.open(bench.root, bench.name)
    writer = area.writer(transaction)
    writer.write(batch_of(primaries, secondary=list(secondaries)))
    area.publish(transaction, writer.finish())


def pass_numbers(bench: Workbench, series: str, secondary: int = 1) -> list[str]:
    """Let as many numbers of a series land as a shard remembers; return their names."""
    numbers = [TransactionId(series, number) for number in range(100, 100 + NUMBERED_KEPT)]
    for number in numbers:
        publish(bench, number, [1], [secondary])
        bench.stream.finish_transactions()
    return [number.name for number in numbers]
