"""Staged rows: any batches come back by shard, in order, and memory stays bounded on the way."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from storage_core import StagedRows, UnavailableError
from storage_core.format.record import rows_from_arrow
from storage_core.transactions.staged_rows import (
    BUFFERED_BYTES_MAX,
    StagedRowsWriter,
    StagingWriter,
    read_part,
    rows_of,
)
from tests.log.workbench import batch_of
from tests.log.writing.interruptions import interrupted_everywhere

MASK = 3


@pytest.fixture
def attempt(root):
    return root / "attempt"


@pytest.fixture
def writer(attempt):
    def begin():
        attempt.mkdir()
        return attempt

    return StagingWriter(begin, MASK, 2**20)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the operating system refuse to make a file larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def primaries(attempt, parts: tuple[StagedRows, ...]) -> list[int]:
    read = (rows for part in parts for rows in read_part(attempt.parent, part))
    return [primary for rows in read for primary in rows.primary.tolist()]


def test_rows_come_back_by_shard_and_time(writer, attempt):
    writer.write(batch_of([5, 8, 7, 9], secondary=[5, 6, 1, 2]))
    writer.write(batch_of([3, 4], secondary=[-1, 1]))
    by_shard = {shard: primaries(attempt, parts) for shard, parts in writer.finish().items()}
    assert by_shard == {1: [4, 5, 7], 2: [8, 9], 3: [3]}


def test_equal_rows_stay_in_the_order_they_came(writer, attempt):
    writer.write(batch_of([5, 5, 5], secondary=[1, 1, 1], payload=[b"a", b"b", b"c"]))
    (part,) = writer.finish()[1]
    (rows,) = read_part(attempt.parent, part)
    assert rows.payload.to_pylist() == [b"a", b"b", b"c"]


def test_part_of_a_shard_holds_no_byte_of_another(writer, attempt):
    secret = b"secret" * 9
    payload, key = [b"a", secret], [b"k", secret]
    headers = [[{"key": "h", "value": b"v"}], [{"key": secret.decode(), "value": secret}]]
    primaries = [1, int.from_bytes(b"secret!!", "little")]
    writer.write(batch_of(primaries, secondary=[0, 1], payload=payload, key=key, headers=headers))
    parts = writer.finish()
    ((ours,), (secrets,)) = parts[0], parts[1]
    data = (attempt.parent / ours.file).read_bytes()
    assert b"secret" in data[secrets.start : secrets.start + secrets.size]
    assert b"secret" not in data[ours.start : ours.start + ours.size]


def test_gathered_rows_are_written_before_they_are_too_many(writer, attempt):
    payload = bytes(2**20)
    for number in range(BUFFERED_BYTES_MAX // len(payload) + 1):
        writer.write(batch_of([number], payload=payload))
    assert (attempt / "rows-0000.arrow").stat().st_size > BUFFERED_BYTES_MAX // 2
    parts = writer.finish()
    assert rows_of(parts) == BUFFERED_BYTES_MAX // len(payload) + 1


def test_rows_in_order_are_written_sooner(root):
    attempt = root / "a"
    attempt.mkdir()
    writer = StagedRowsWriter(lambda: attempt, MASK, keeps_order=True)
    for number in range(9):
        writer.buffer(rows_from_arrow(batch_of([number], payload=bytes(2**20)), 2**20))
    assert (attempt / "rows-0000.arrow").stat().st_size > 7 * 2**20
    assert primaries(attempt, writer.finish()[1]) == list(range(9))


def test_many_small_batches_cost_no_more_memory_than_their_rows(writer, attempt):
    count = 5_000
    before = pa.total_allocated_bytes()
    for number in range(count):
        writer.write(batch_of([number]))
    # Each buffer of a batch alone is 64 bytes or more.
    assert pa.total_allocated_bytes() - before < count * 100
    assert primaries(attempt, writer.finish()[1]) == list(range(count))


def test_batch_larger_than_what_is_gathered_is_written_at_once(writer, attempt):
    writer.write(batch_of([1]))
    before = pa.total_allocated_bytes()
    writer.write(batch_of(range(2, 35), payload=bytes(2**20)))
    assert pa.total_allocated_bytes() - before < 2**20
    assert (attempt / "rows-0000.arrow").stat().st_size > BUFFERED_BYTES_MAX
    assert primaries(attempt, writer.finish()[1]) == list(range(1, 35))


def test_large_batch_whose_write_failed_is_not_taken(writer, attempt):
    large = batch_of(range(33), payload=bytes(2**20))
    with files_of_at_most(2**20), pytest.raises(UnavailableError, match="File too large"):
        writer.write(large)
    assert writer.finish() == {}
    writer.write(large)
    assert primaries(attempt, writer.finish()[1]) == list(range(33))


def test_nothing_is_made_for_no_rows(writer, attempt):
    writer.write(batch_of([]))
    assert writer.finish() == {}
    assert not attempt.exists()


def test_abandoned_rows_are_gone(writer, attempt):
    writer.write(batch_of([1], key=b"k"))
    writer.write(batch_of([2]))
    assert attempt.exists()
    writer.abandon()
    assert not attempt.exists()


def test_rows_that_could_not_be_written_are_written_by_the_next_call(root):
    attempt = root / "a"
    writer = StagingWriter(lambda: attempt, MASK, 2**20)
    writer.write(batch_of([1, 2]))
    with pytest.raises(UnavailableError, match="staging rows"):
        writer.finish()
    attempt.mkdir()
    assert primaries(attempt, writer.finish()[1]) == [1, 2]


def test_rows_of_a_write_that_failed_are_not_forgotten(writer, attempt):
    writer.write(batch_of([1, 2]))
    with files_of_at_most(10), pytest.raises(UnavailableError, match="File too large"):
        writer.finish()
    assert primaries(attempt, writer.finish()[1]) == [1, 2]


def test_rows_are_staged_once_wherever_a_call_was_interrupted(root):
    writers: list[StagingWriter] = []
    staged = set()

    def begin_another() -> None:
        attempt = root / str(len(writers))
        attempt.mkdir()
        writers.append(StagingWriter(lambda: attempt, MASK, 2**20))
        writers[-1].write(batch_of([1, 2, 3], secondary=[0, 1, 2]))

    begin_another()
    for _ in interrupted_everywhere(lambda _: writers[-1].finish(), every=3):
        # Of a sync that was cut nobody knows whether it failed.
        with suppress(UnavailableError):
            staged.add(rows_of(writers[-1].finish()))
        writers[-1].close()
        begin_another()
    assert staged == {3}


def test_names_of_the_files_are_durable_behind_the_files(writer, attempt, monkeypatch):
    synced: list[Path] = []
    sync = os.fsync

    def sync_told(descriptor: int) -> None:
        sync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", sync_told)
    writer.write(batch_of([1]))
    writer.finish()
    assert synced == [attempt / "rows-0000.arrow", attempt]


def test_files_whose_sync_failed_once_are_never_called_durable(writer, monkeypatch):
    writer.write(batch_of([1]))

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(UnavailableError, match="the disk is gone"):
            writer.finish()
    # The system reports a failed write once; the next sync would pass without it.
    with pytest.raises(UnavailableError, match="stage them again"):
        writer.finish()
    writer.abandon()
