"""Reading segments: few files stay open, and damage is told from a system that refuses."""

import errno
import os
import resource
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event

import pytest

from storage_core import ClosedError, CorruptionError, UnavailableError
from storage_core.engine.open_files import names_open_now
from storage_core.engine.rocksdb import open_store
from storage_core.engine.segments import SegmentReader, SegmentWriter
from storage_core.format.reference import Reference, encode_reference
from tests.unit.forks import in_fork
from tests.unit.storage_core.engine.stores import key_of, put, references_to

SIZE = 1000


@pytest.fixture
def reader(path):
    return SegmentReader(path)


@pytest.fixture
def reference(path):
    return block_in(path, 1)


def block_in(path: Path, number: int, content: bytes = b"a") -> bytes:
    """Make a segment with a block; return what refers to it."""
    segment = path / f"segments/{number:08d}"
    segment.parent.mkdir(parents=True, exist_ok=True)
    segment.write_bytes(content * SIZE)
    return encode_reference(Reference(number, 0, SIZE))


def open_segments(path: Path) -> list[str]:
    return [name for name in names_open_now() if f"{path}/segments" in name]


# --- what stays open --------------------------------------------------------------------------


def test_views_of_a_store_hold_one_segment_open_however_many_they_are(path):
    store = open_store(path, "strict", apart_bytes_min=SIZE)
    put(store, 0, 1, size=SIZE)
    left_half_way = []
    for _ in range(50):
        items = store.snapshot().items("log", b"", None)
        assert next(items)[0] == key_of(0)
        left_half_way.append(items)
    assert len(open_segments(path)) == 2
    store.close()
    assert open_segments(path) == []


def test_reader_that_is_dropped_leaves_no_segment_open(path, reference):
    reader = SegmentReader(path)
    assert reader.block(reference) == b"a" * SIZE
    assert len(open_segments(path)) == 1
    del reader
    assert open_segments(path) == []


def test_trace_of_an_error_holds_no_segment_open(path, reader, reference):
    os.truncate(path / "segments/00000001", 1)
    with pytest.raises(CorruptionError) as raised:
        reader.block(reference)
    reader.close()
    assert open_segments(path) == []
    assert raised.value.path == path / "segments/00000001"


def test_threads_read_each_its_segment_until_it_is_closed_and_leave_none_open(path, reader):
    contents = [b"a", b"b", b"c"]
    references = [block_in(path, number, one) for number, one in enumerate(contents)]
    are_warm = Barrier(7)

    def read_until_closed(first: int) -> bool:
        with suppress(ClosedError):
            for turn in range(first, 10**9):
                if reader.block(references[turn % 3]) != contents[turn % 3] * SIZE:
                    return False
                if turn == first + 300:
                    are_warm.wait()
        return True

    with ThreadPoolExecutor(6) as threads:
        reading = [threads.submit(read_until_closed, first) for first in range(6)]
        are_warm.wait()
        reader.close()
        assert all(one.result() for one in reading)
    assert open_segments(path) == []


def test_fork_closes_a_view_though_a_thread_of_its_parent_is_reading_a_block(path, monkeypatch):
    store = open_store(path, "strict", apart_bytes_min=SIZE)
    put(store, 0, size=SIZE)
    view, is_reading, may_go_on, pread = store.snapshot(), Event(), Event(), os.pread

    def waiting_pread(descriptor: int, size: int, offset: int) -> bytes:
        is_reading.set()
        may_go_on.wait()
        return pread(descriptor, size, offset)

    def close_view() -> None:
        # Ended by force if it hangs.
        signal.alarm(60)
        view.close()

    monkeypatch.setattr(os, "pread", waiting_pread)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(view.at_or_after, "log", b"")
        is_reading.wait()
        try:
            assert in_fork(close_view) is None
        finally:
            may_go_on.set()
        assert reading.result() == (key_of(0), (0).to_bytes(SIZE, "big"))
    store.close()


# --- what the system does in pieces -----------------------------------------------------------


def test_block_is_whole_though_each_read_ends_early(reader, reference, monkeypatch):
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, 300), at))
    assert reader.block(reference) == b"a" * SIZE


def test_blocks_are_whole_though_writes_end_inside_them(path, reader, monkeypatch):
    ends = [7, 1, 25]

    def short_pwritev(descriptor: int, pieces: Sequence[bytes], offset: int) -> int:
        size = ends.pop(0) if ends else None
        return os.pwrite(descriptor, b"".join(pieces)[:size], offset)

    blocks = [b"0123456789" * 3, b"abcdefghij", b"", b"x"]
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    writer = SegmentWriter(path, apart_bytes_min=1)
    assert [reader.block(one) for one in references_to(writer, *blocks)] == blocks
    writer.close()


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        (0, SIZE + 1),
        (SIZE, 1),
        (0, 2**40),
        (2**40, 10),
        (2**63, 10),
        (2**64 - 1, 2**64 - 1),
    ],
)
def test_false_reference_is_refused_before_anything_is_read(reader, reference, offset, size):
    with pytest.raises(CorruptionError, match=rf"ends before byte {offset + size}.*00000001"):
        reader.block(encode_reference(Reference(1, offset, size)))
    assert reader.block(reference) == b"a" * SIZE


@pytest.mark.parametrize("number", [0, 2, 2**64 - 1])
def test_reference_to_no_segment_is_told(reader, reference, number):
    assert reader.block(reference) == b"a" * SIZE
    with pytest.raises(CorruptionError, match=rf"a segment is missing.*segments/0*{number}\b"):
        reader.block(encode_reference(Reference(number, 0, SIZE)))


def test_segment_that_is_removed_is_missed_though_it_was_being_read(path, reader, reference):
    assert reader.block(reference) == b"a" * SIZE
    (path / "segments/00000001").unlink()
    with pytest.raises(CorruptionError, match=r"a segment is missing.*segments/00000001"):
        reader.block(reference)
    block_in(path, 1)
    assert reader.block(reference) == b"a" * SIZE


def make_a_directory(segment: Path) -> None:
    segment.unlink()
    segment.mkdir()


def make_all_a_file(segment: Path) -> None:
    shutil.rmtree(segment.parent)
    segment.parent.write_bytes(b"")


@pytest.mark.parametrize("spoil", [make_a_directory, make_all_a_file])
def test_segment_that_is_no_file_is_damage(path, reader, reference, spoil):
    spoil(path / "segments/00000001")
    with pytest.raises(CorruptionError, match="segments/00000001"):
        reader.block(reference)


def test_block_that_the_disk_cannot_read_now_is_no_damage(reader, reference, monkeypatch):
    def pread(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as failing:
        failing.setattr(os, "pread", pread)
        with pytest.raises(UnavailableError, match=r"Input/output error.*segments/00000001"):
            reader.block(reference)
    assert reader.block(reference) == b"a" * SIZE


def test_too_many_open_files_are_no_damage(reader, reference):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(UnavailableError, match=r"reading a block: Too many.*segments/00000001"):
            reader.block(reference)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert reader.block(reference) == b"a" * SIZE
