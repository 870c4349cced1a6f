"""Goal: a reader in another process sees what is committed: no hole, no ghost, no mixture.

Method: the writer is another process, the reader this one. One shard whose row at address n
follows from n, so that every answer can be computed from what was committed before and after the
question.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from storage_core import LostRangeError, Stream, StreamOptions, StreamReader
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.faults.support.remote import STOPPED, RemoteWriter, stop_at_write
from tests.faults.support.workload import Row
from tests.faults.support.writer import each_a_write, table_of
from tests.snapshots import snapshot

STREAM = "followed"
IDS = 4
FLUSHED_BYTES = 24 * 2**20
PAYLOAD_BYTES = 4096
BATCH = 16


def numbered_row(number: int, edition: int = 0) -> Row:
    """Return the row at an address; another edition has another payload."""
    size = PAYLOAD_BYTES if edition == 0 else 100
    payload = Random(number << 8 | edition).randbytes(size)
    return Row(number * 10, number % IDS, payload, edition)


def write_rows(stream: Stream, start: int, end: int, edition: int = 0) -> int:
    """Append rows at their addresses, and do not commit."""
    rows = table_of([numbered_row(number, edition) for number in range(start, end)])
    stream.append_batch(rows, addresses=np.arange(start, end))
    return end


def commit(stream: Stream) -> int:
    return stream.commit()[0]


def write_and_commit(stream: Stream, start: int, end: int, edition: int = 0) -> int:
    write_rows(stream, start, end, edition)
    return commit(stream)


def write_for_long(stream: Stream, start: int, end: int) -> int:
    """Append and commit a batch at a time."""
    for address in range(start, end, BATCH):
        write_and_commit(stream, address, min(address + BATCH, end))
    return end


def flush(stream: Stream) -> None:
    """Move what is in memory to files."""
    for shard in stream._shards.values():
        shard._store.flush()


def write_rows_and_flush(stream: Stream, start: int, end: int) -> None:
    """Append rows that reach files, but no commit."""
    write_rows(stream, start, end)
    flush(stream)


def transact(stream: Stream, start: int, end: int) -> int:
    """Write rows as one transaction; counted addresses are the same as explicit ones here."""
    with stream.transaction(f"from {start}", end - start) as staged:
        parts = (range(at, min(at + BATCH, end)) for at in range(start, end, BATCH))
        tables = (table_of([numbered_row(number, 1) for number in part]) for part in parts)
        for table in each_a_write(tables):
            staged.append_batch(table)
    return end


def numbers_and_editions(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, int]]:
    """Return address and edition of each row, after a look at the whole row."""
    rows = []
    for batch in batches:
        for row in batch.to_pylist():
            number, edition = row["address"], row["version"]
            whole = Row(row["primary"], row["secondary"], row["payload"], row["version"])
            assert whole == numbered_row(number, edition), f"another row at {number}"
            rows.append((number, edition))
    return rows


def editions(*parts: tuple[range, int]) -> list[tuple[int, int]]:
    """Return what `numbers_and_editions` should find."""
    return [(number, edition) for numbers, edition in parts for number in numbers]


def ask_anything(reader: StreamReader, chance: Random) -> None:
    """Ask one question; the answer lies between what was committed before and after."""
    before = reader.refresh()[0]
    start = chance.randrange(max(1, before))
    some_id = chance.randrange(IDS)
    match chance.choice(["tail", "read", "latest", "scan"]):
        case "tail":
            rows = numbers_and_editions(reader.tail(0, start, before))
            assert rows == editions((range(start, before), 0))
        case "read":
            rows = numbers_and_editions(reader.read(some_id, start * 10).to_batches())
            first = start + (some_id - start) % IDS
            assert rows == editions((range(first, first + IDS * len(rows), IDS), 0))
            assert first + IDS * len(rows) >= before
        case "latest":
            newest = reader.latest(some_id)
            assert not newest or newest[some_id].address >= before - IDS
            assert newest or before <= some_id
        case _:
            rows = numbers_and_editions(reader.scan(start=start * 10))
            assert rows == editions((range(start, start + len(rows)), 0))
            assert start + len(rows) >= before
    assert reader.refresh()[0] >= before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    options = StreamOptions(shards=1, block_records=64)
    Stream.create(tmp_path / "root", STREAM, options).close()
    return tmp_path / "root"


@pytest.fixture
def reader(root: Path) -> Iterator[StreamReader]:
    with StreamReader.open(root, STREAM) as opened:
        opened.refresh()
        yield opened


def test_reader_beside_a_writer_that_flushes_all_the_time_sees_no_hole(
    root: Path, reader: StreamReader
) -> None:
    seed = fault_seed()
    chance, end = Random(seed), FLUSHED_BYTES // PAYLOAD_BYTES
    with naming_seed(seed), RemoteWriter(root, STREAM, write_buffer_bytes=256 * 1024) as writer:
        writer.start(write_for_long, 0, end)
        while reader.committed()[0] < end:
            ask_anything(reader, chance)
        assert writer.finish() == end
        assert numbers_and_editions(reader.tail(0, 0)) == editions((range(end), 0))


def test_reader_follows_a_writer_that_flushed_and_fell_silent(
    root: Path, reader: StreamReader
) -> None:
    with RemoteWriter(root, STREAM) as writer:
        for end in (100, 200, 300):
            writer.do(write_and_commit, end - 100, end)
            reader.refresh()
            writer.do(flush)
            assert reader.refresh() == {0: end}
            assert numbers_and_editions(reader.tail(0, 0)) == editions((range(end), 0))
            assert reader.latest(3)[3].address == end - 1


def test_reader_sees_nothing_between_append_and_commit(root: Path, reader: StreamReader) -> None:
    with RemoteWriter(root, STREAM) as writer:
        writer.do(write_and_commit, 0, 100)
        writer.do(write_rows, 100, 200)
        for after in (None, flush):
            if after is not None:
                writer.do(after)
            assert reader.refresh() == {0: 100}
            assert reader.latest(3)[3].address == 99
            assert numbers_and_editions(reader.scan()) == editions((range(100), 0))
        writer.do(commit)
        reader.refresh()
        assert reader.latest(3)[3].address == 199


@pytest.mark.parametrize("at_write", [1, 2, 5])
def test_reader_sees_nothing_of_a_transaction_before_its_end(
    root: Path, reader: StreamReader, at_write: int
) -> None:
    with RemoteWriter(root, STREAM) as writer:
        writer.do(write_and_commit, 0, 100)
        writer.do(stop_at_write, at_write)
        writer.start(transact, 100, 300)
        assert writer.finish() == STOPPED
        assert reader.refresh() == {0: 100}
        assert reader.latest(3)[3].address == 99
        assert numbers_and_editions(reader.scan()) == editions((range(100), 0))
        writer.wake()
        assert writer.finish() == 300
        assert reader.refresh() == {0: 300}
        assert reader.latest(3)[3].address == 299


def keep_synced(root: Path) -> Path:
    """Copy the store as it is on disk right after a commit."""
    return snapshot(root / STREAM / "shard-0000" / "db", root.parent / "kept")


def set_back(root: Path, synced: Path) -> None:
    """Leave only what was synced then: power is gone, and the same file names come again."""
    store = root / STREAM / "shard-0000" / "db"
    shutil.rmtree(store)
    shutil.copytree(synced, store)


@pytest.mark.parametrize("lost", [write_rows, write_rows_and_flush])
@pytest.mark.parametrize("follows", [True, False])
def test_reader_over_a_lost_tail_and_a_new_writer_sees_no_mixture(
    root: Path, reader: StreamReader, follows: bool, lost
) -> None:
    with RemoteWriter(root, STREAM) as writer:
        writer.do(write_and_commit, 0, 100)
        synced = keep_synced(root)
        writer.do(lost, 100, 250)
        if follows:
            assert reader.refresh() == {0: 100}
            assert len(numbers_and_editions(reader.scan())) == 100
    set_back(root, synced)
    expected = editions((range(100), 0), (range(100, 220), 1))
    with RemoteWriter(root, STREAM) as writer:
        assert writer.do(write_and_commit, 100, 220, 1) == 220
        for after in (None, flush):
            if after is not None:
                writer.do(after)
            assert reader.refresh() == {0: 220}
            assert numbers_and_editions(reader.tail(0, 0)) == expected
            assert numbers_and_editions(reader.scan()) == expected
            assert reader.latest(3)[3].version == 1


def test_reader_over_a_lost_committed_range_is_told(root: Path, reader: StreamReader) -> None:
    with RemoteWriter(root, STREAM) as writer:
        writer.do(write_and_commit, 0, 100)
        synced = keep_synced(root)
        writer.do(write_and_commit, 100, 250)
        assert reader.refresh() == {0: 250}
    set_back(root, synced)
    with RemoteWriter(root, STREAM) as writer:
        assert writer.do(write_and_commit, 250, 300, 1) == 300
        assert reader.refresh() == {0: 300}
        for ask in (reader.scan, reader.latest, lambda: reader.tail(0, 90, 110)):
            with pytest.raises(LostRangeError, match=r"\[100, 250\)"):
                list(ask())
        assert numbers_and_editions(reader.tail(0, 250)) == editions((range(250, 300), 1))
        writer.do(Stream.accept_loss, 0, 100, 250)
        reader.refresh()
        left = editions((range(100), 0), (range(250, 300), 1))
        assert numbers_and_editions(reader.scan()) == left


def test_snapshot_beside_a_store_that_flushes_behind_is_of_one_moment(root: Path) -> None:
    with RemoteWriter(root, STREAM, write_buffer_bytes=64 * 1024) as writer:
        for end in range(100, 1000, 100):
            writer.do(write_and_commit, end - 100, end)
            copy = root.parent / f"copy-{end}"
            snapshot(root, copy)
            with StreamReader.open(copy, STREAM) as reader:
                assert reader.refresh() == {0: end}
                assert numbers_and_editions(reader.tail(0, 0)) == editions((range(end), 0))
