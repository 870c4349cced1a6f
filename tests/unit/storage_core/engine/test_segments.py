"""Segments: where the blocks of large batches lie, and what is told when they do not."""

import os
import resource
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from storage_core import ClosedError, CorruptionError, UnavailableError
from storage_core.engine.key_value import Batch
from storage_core.engine.open_files import names_open_now
from storage_core.engine.rocksdb import RocksDbStore, open_store
from storage_core.engine.segments import SegmentReader, SegmentWriter
from storage_core.format.reference import Reference, decode_reference, encode_reference
from storage_core.format.shard_state import KEY_SEGMENTS, SegmentsEnd
from tests.log.on_disk import flip_bit
from tests.log.writing.interruptions import interrupted_everywhere
from tests.unit.storage_core.engine.stores import (
    batch_of,
    key_of,
    left_by_a_crash,
    references_to,
)

APART_MIN = 1000
opened = partial(open_store, recovery="strict", apart_bytes_min=APART_MIN)


@pytest.fixture
def store(path):
    store = opened(path)
    yield store
    store.close()


def write(store: RocksDbStore, *blocks: bytes, first: int = 0) -> None:
    """Write blocks, and beside each a value of the other family, as one batch."""
    batch = Batch()
    for number, block in enumerate(blocks, start=first):
        batch.put(key_of(number), block, "log")
        batch.put(key_of(number), b"zone")
    store.write(batch)


def blocks_in(store: RocksDbStore) -> list[bytes]:
    view = store.snapshot()
    try:
        return [value for _, value in view.items("log", b"", None)]
    finally:
        view.close()


def segments(path: Path) -> list[str]:
    """Return the names of the segments of a store."""
    return sorted(one.name for one in path.glob("segments/*"))


def one_open_segment(path: Path) -> list[str]:
    return [name for name in names_open_now() if f"{path}/segments" in name]


def test_small_batches_go_the_way_of_all_keys(store, path):
    for number in range(5):
        write(store, b"x" * (APART_MIN - 1), first=number)
    assert segments(path) == []


def test_deletes_of_a_large_batch_come_before_its_puts(store):
    write(store, b"a" * APART_MIN, b"b" * APART_MIN)
    batch = Batch()
    batch.delete(key_of(0), "log")
    batch.delete(key_of(1), "log")
    batch.put(key_of(1), b"c" * APART_MIN, "log")
    store.write(batch)
    assert blocks_in(store) == [b"c" * APART_MIN]


@pytest.mark.parametrize("count", [511, 512, 513, 1500])
def test_more_blocks_than_one_call_takes_are_written(path, count):
    path.mkdir()
    writer, reader = SegmentWriter(path, apart_bytes_min=1), SegmentReader(path)
    blocks = [b"%d" % number for number in range(count)]
    references = references_to(writer, *blocks)
    assert [reader.block(one) for one in references] == blocks
    assert (path / "segments/00000001").read_bytes() == b"".join(blocks)
    writer.close()
    reader.close()


@pytest.mark.parametrize("segment_bytes", [2 * APART_MIN, APART_MIN])
def test_what_a_dead_writer_left_at_the_end_is_cut_off(path, root, segment_bytes):
    store = opened(path, segment_bytes=segment_bytes)
    write(store, b"a" * APART_MIN)
    assert store._segments is not None
    store._segments.take_blocks(batch_of(b"never written" * APART_MIN))
    copy = left_by_a_crash(store, root / "copy")
    store.close()
    again = opened(copy, segment_bytes=segment_bytes)
    seen = again.snapshot()
    write(again, b"b" * APART_MIN, first=1)
    assert list(seen.items("log", b"", None)) == [(key_of(0), b"a" * APART_MIN)]
    assert blocks_in(again) == [b"a" * APART_MIN, b"b" * APART_MIN]
    again.close()
    assert sum(one.stat().st_size for one in copy.glob("segments/*")) == 2 * APART_MIN


def test_opening_cuts_off_nothing(store, root):
    write(store, b"a" * APART_MIN)
    store._segments.take_blocks(batch_of(b"never written" * APART_MIN))
    copy = left_by_a_crash(store, root / "copy")
    before = (copy / "segments/00000001").read_bytes()
    opened(copy).close()
    assert (copy / "segments/00000001").read_bytes() == before


def test_store_in_which_no_end_was_noted_goes_on_behind_all_there_is(path):
    (path / "segments").mkdir(parents=True)
    for name in ("00000001", "00000002", "20261122"):
        (path / "segments" / name).write_bytes(b"blocks")
    writer = SegmentWriter(path, apart_bytes_min=1)
    assert references_to(writer, b"a") == [encode_reference(Reference(2, 6, 1))]
    writer.close()


def test_reading_on_once_the_store_is_closed_is_told(store):
    write(store, b"a" * APART_MIN, b"b" * APART_MIN)
    items = store.snapshot().items("log", b"", None)
    next(items)
    store.close()
    with pytest.raises(ClosedError):
        next(items)


def test_closed_reader_opens_no_segment(path):
    path.mkdir()
    writer, reader = SegmentWriter(path, apart_bytes_min=1), SegmentReader(path)
    (reference,) = references_to(writer, b"a")
    writer.close()
    assert reader.block(reference) == b"a"
    reader.close()
    with pytest.raises(ClosedError):
        reader.block(reference)
    assert one_open_segment(path) == []


# --- interruptions ----------------------------------------------------------------------------


def test_interrupted_write_can_be_repeated_and_spoils_no_other_block(path):
    path.mkdir()
    begun = partial(SegmentWriter, path, segment_bytes=200, apart_bytes_min=1)
    writers, reader, written = [begun()], SegmentReader(path), {}

    def write_one(place: int) -> SegmentsEnd:
        block = b"block %d" % place
        (reference,) = references_to(writers[-1], block)
        assert reference not in written
        written[reference] = block
        segment_place = decode_reference(reference)
        return SegmentsEnd(segment_place.segment, segment_place.offset + segment_place.size)

    write_one(-1)
    for place in interrupted_everywhere(lambda _: references_to(writers[-1], b"interrupted")):
        end = write_one(place)
        writers[-1].close()
        assert one_open_segment(path) == []
        writers.append(begun(end))
    assert len(written) > 20
    assert len(segments(path)) > 2
    blocks = [reader.block(reference) for reference in written]
    assert blocks == list(written.values())
    reader.close()
    writers[-1].close()


def test_blocks_of_a_batch_that_is_written_again_are_written_once(path):
    path.mkdir()
    writer, blocks = SegmentWriter(path, apart_bytes_min=1), [b"block 0"]
    batches = [batch_of(b"block 0")]
    for _ in interrupted_everywhere(lambda _: writer.take_blocks(batches[-1])):
        for _ in range(2):
            writer.take_blocks(batches[-1])
            assert len(batches[-1].puts) == (3 if len(blocks) == 1 else 2)
        blocks.append(b"block %d" % len(blocks))
        batches.append(batch_of(blocks[-1]))
    assert len(blocks) > 20
    assert (path / "segments/00000001").read_bytes() == b"".join(blocks)
    writer.close()


def test_batch_that_is_run_again_once_it_was_written_takes_no_more_of_the_segment(store, path):
    batch = batch_of(b"a" * APART_MIN)
    for _ in range(2):
        store.write(batch)
        assert blocks_in(store) == [b"a" * APART_MIN]
    assert (path / "segments/00000001").stat().st_size == APART_MIN


def test_batch_that_was_written_is_written_again_where_it_comes_anew(store, path):
    for number in range(2):
        write(store, b"a" * APART_MIN, first=number)
    assert blocks_in(store) == [b"a" * APART_MIN] * 2
    assert (path / "segments/00000001").stat().st_size == 2 * APART_MIN


def test_interrupted_read_leaves_the_right_segment_open(path):
    path.mkdir()
    writer = SegmentWriter(path, segment_bytes=5, apart_bytes_min=1)
    reader = SegmentReader(path)
    (first,) = references_to(writer, b"first")
    (second,) = references_to(writer, b"other")
    writer.close()
    for _ in interrupted_everywhere(lambda _: reader.block(second)):
        assert reader.block(first) == b"first"
    reader.close()


# --- what goes wrong --------------------------------------------------------------------------


def remove(segment: Path) -> None:
    segment.unlink()


def cut_off(segment: Path) -> None:
    os.truncate(segment, APART_MIN - 1)


@pytest.mark.parametrize(
    ("spoil", "message"), [(remove, "a segment is missing"), (cut_off, "ends before byte 1000")]
)
def test_block_that_is_not_there_is_told_with_its_file(store, path, spoil, message):
    write(store, b"a" * APART_MIN)
    spoil(path / "segments/00000001")
    with pytest.raises(CorruptionError, match=f"{message}.*segments/00000001"):
        blocks_in(store)


def as_empty(segment: Path) -> None:
    segment.write_bytes(b"")


def as_directory(segment: Path) -> None:
    segment.unlink()
    segment.mkdir()


def as_dangling_link(segment: Path) -> None:
    segment.unlink()
    segment.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("spoil", "number", "message"),
    [
        (remove, 1, "a segment is missing"),
        (remove, 2, "a segment is missing"),
        (remove, 3, "a segment is missing"),
        (as_directory, 2, "a segment is missing"),
        (as_dangling_link, 3, "a segment is missing"),
        (cut_off, 3, "999 of 1000 bytes"),
        (as_empty, 3, "0 of 1000 bytes"),
    ],
)
def test_store_is_refused_until_its_segments_are_back(path, tmp_path, spoil, number, message):
    store = opened(path, segment_bytes=APART_MIN)
    blocks = [bytes([number]) * APART_MIN for number in range(3)]
    for index, block in enumerate(blocks):
        write(store, block, first=index)
    store.close()
    copied = shutil.copytree(path / "segments", tmp_path / "copied")
    spoil(path / f"segments/{number:08d}")
    names = segments(path)
    for _ in range(2):
        refused = pytest.raises(
            CorruptionError, match=rf"{message}.*restore.*segments/{number:08d}"
        )
        with refused as error:
            opened(path)
        # Whoever keeps the error, and its trace with it, keeps no segment open.
        assert error.value.path == path / f"segments/{number:08d}"
        assert one_open_segment(path) == []
    assert segments(path) == names
    shutil.rmtree(path / "segments")
    with pytest.raises(CorruptionError, match=r"a segment is missing.*segments/00000001"):
        opened(path)
    assert not (path / "segments").exists()
    shutil.copytree(copied, path / "segments")
    again = opened(path)
    assert blocks_in(again) == blocks
    again.close()


def test_store_whose_blocks_are_given_up_goes_on_behind_them(store, path):
    write(store, b"a" * APART_MIN)
    store.close()
    segment = path / "segments/00000001"
    segment.write_bytes(bytes(APART_MIN))
    again = opened(path)
    write(again, b"b" * APART_MIN, first=1)
    assert blocks_in(again) == [bytes(APART_MIN), b"b" * APART_MIN]
    again.close()


@pytest.mark.parametrize("name", ["20261122", "9" * 20, "00000001.bak", "1", "lost+found"])
@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_is_no_segment_is_passed_over(store, path, name, make):
    write(store, b"a" * APART_MIN)
    store.close()
    make(path / "segments" / name)
    again = opened(path, segment_bytes=APART_MIN)
    write(again, b"b" * APART_MIN, first=1)
    assert blocks_in(again) == [b"a" * APART_MIN, b"b" * APART_MIN]
    again.close()
    assert segments(path) == sorted(["00000001", "00000002", name])


@pytest.mark.parametrize("written", [0, 1])
def test_what_stands_where_the_next_segment_belongs_is_told_at_opening(path, written):
    store = opened(path)
    for number in range(written):
        write(store, b"a" * APART_MIN, first=number)
    store.close()
    odd = path / f"segments/{written + 1:08d}"
    odd.mkdir(parents=True)
    with pytest.raises(CorruptionError, match=rf"not a file.*{odd.name}"):
        opened(path)


def test_file_where_the_segments_belong_is_told_at_opening(store, path):
    store.close()
    (path / "segments").write_bytes(b"")
    with pytest.raises(CorruptionError, match=r"not a directory.*segments"):
        opened(path)


def test_last_segment_that_cannot_be_written_is_told_at_opening(store, path):
    write(store, b"a" * APART_MIN)
    store.close()
    segment = path / "segments/00000001"
    # The system lets nobody write to a program that is running.
    shutil.copy2("/bin/sleep", segment)
    with subprocess.Popen([segment, "60"]) as running:
        try:
            with pytest.raises(UnavailableError, match=r"opening the last segment.*00000001"):
                opened(path)
        finally:
            running.kill()


def test_damaged_note_of_the_end_is_told(store, path):
    write(store, b"a" * APART_MIN)
    batch = Batch()
    batch.put(KEY_SEGMENTS, b"short")
    store.write(batch)
    store.close()
    with pytest.raises(CorruptionError, match="where the segments end"):
        opened(path)


def test_damaged_reference_is_told(store, path):
    write(store, b"a" * APART_MIN)
    store.close()
    (table,) = (one for one in path.glob("*.sst") if b"SLRF" in one.read_bytes())
    flip_bit(table, table.read_bytes().index(b"SLRF") + 9)
    again = opened(path)
    with pytest.raises(CorruptionError):
        blocks_in(again)
    again.close()


def test_disk_that_fills_up_under_a_segment_is_told_and_changes_nothing(store, path):
    write(store, b"a" * APART_MIN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * APART_MIN, before[1]))
    try:
        with pytest.raises(UnavailableError, match="writing blocks"):
            write(store, b"b" * APART_MIN, b"c" * APART_MIN, first=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert blocks_in(store) == [b"a" * APART_MIN]
    # What the failed batch had taken is free again.
    assert (path / "segments/00000001").stat().st_size == APART_MIN
    write(store, b"d" * APART_MIN, first=1)
    assert blocks_in(store) == [b"a" * APART_MIN, b"d" * APART_MIN]


def test_closed_store_writes_no_segment(store, path):
    store.close()
    with pytest.raises(ClosedError):
        write(store, b"a" * APART_MIN)
    assert segments(path) == []
