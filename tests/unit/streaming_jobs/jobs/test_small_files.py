"""Small files become larger ones; whoever looks sees each row once, before and after."""

import errno
import os
import queue
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core.testing import ManualClock
from streaming_jobs.jobs.landing import OWN
from streaming_jobs.jobs.small_files import delete_leftovers, join_small

DAY = "day=2026-11-23"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / DAY).mkdir()
    return tmp_path


def put(lake: Path, first: int, count: int, kind: pa.DataType | None = None) -> None:
    for number in range(first, first + count):
        table = pa.table({"number": pa.array([number], kind or pa.int64())})
        # As files land: whole, under their name.
        pq.write_table(table, lake / "file")
        (lake / "file").rename(lake / DAY / f"batch-{number}-0.parquet")


def seen(lake: Path) -> list[Any]:
    """Return the numbers in the files of one listing; taken again where a file has gone."""
    while True:
        try:
            files = list((lake / DAY).glob("*.parquet"))
            tables = [pq.read_table(file) for file in files]
        except FileNotFoundError:
            continue
        return sorted(n for table in tables for n in table.column("number").to_pylist())


def test_seven_files_stay(lake):
    put(lake, 0, 7)
    assert join_small(lake, [lake / DAY]) == 0
    assert len(list((lake / DAY).iterdir())) == 7


def test_files_of_another_schema_are_not_joined(lake):
    put(lake, 0, 7)
    put(lake, 7, 7, pa.int32())
    assert join_small(lake, [lake / DAY]) == 0
    put(lake, 14, 1)
    assert join_small(lake, [lake / DAY]) == 7
    assert seen(lake) == list(range(15))


def test_files_that_are_large_enough_are_left(lake):
    put(lake, 0, 20)
    assert join_small(lake, [lake / DAY], size_wanted=10) == 0


def test_files_stay_few_and_rows_are_all_there_over_many_batches(lake):
    for number in range(0, 300, 5):
        put(lake, number, 5)
        join_small(lake, [lake / DAY])
    assert len(list((lake / DAY).iterdir())) < 24
    assert seen(lake) == list(range(300))


def test_reader_beside_sees_each_row_once_at_any_moment(lake):
    put(lake, 0, 64)
    visible_rows = 64
    looks: queue.SimpleQueue[tuple[int, list[int]]] = queue.SimpleQueue()
    is_done = threading.Event()

    def look() -> None:
        while not is_done.is_set():
            looks.put((visible_rows, seen(lake)))

    reader = threading.Thread(target=look)
    reader.start()
    for first in range(64, 128, 8):
        join_small(lake, [lake / DAY])
        put(lake, first, 8)
        visible_rows = first + 8
        # At least one look begins beside each join.
        looked = looks.get(timeout=60)
        assert set(range(looked[0])) <= set(looked[1])
        assert len(set(looked[1])) == len(looked[1])
    is_done.set()
    reader.join()
    assert seen(lake) == list(range(128))


def is_as_it_was(lake: Path, files: int) -> bool:
    """Tell whether a partition has its files, and nothing was left beside."""
    aside = lake / OWN / "joined"
    current = list((lake / DAY).glob("*.parquet"))
    return len(current) == files and not (aside.exists() and list(aside.iterdir()))


def test_disk_without_room_leaves_small_files_as_they_are(lake, monkeypatch, caplog):
    put(lake, 0, 8)

    def write(_files: object, place: Path) -> None:
        place.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("streaming_jobs.jobs.small_files._write", write)
    assert join_small(lake, [lake / DAY]) == 0
    assert is_as_it_was(lake, 8)
    assert "small files stay as they are" in caplog.text
    assert "No space left on device" in caplog.text
    monkeypatch.undo()
    assert join_small(lake, [lake / DAY]) == 7


def test_file_that_cannot_be_read_leaves_small_files_as_they_are(lake, caplog):
    put(lake, 0, 8)
    (lake / DAY / "mine.parquet").write_bytes(b"no Parquet" * 60)
    assert join_small(lake, [lake / DAY]) == 0
    assert is_as_it_was(lake, 9)
    assert "mine.parquet" in caplog.text


def test_directory_within_a_partition_leaves_small_files_as_they_are(lake):
    put(lake, 0, 8)
    (lake / DAY / "mine").mkdir()
    assert join_small(lake, [lake / DAY]) == 0
    assert is_as_it_was(lake, 8)


def test_partition_that_is_gone_is_passed_by(lake):
    put(lake, 0, 8)
    assert join_small(lake, [lake / "day=2026-11-24", lake / DAY]) == 7


def test_sweep_that_the_disk_refuses_is_left_for_the_next_time(lake, monkeypatch):
    put(lake, 0, 8)
    (lake / OWN / "joined").mkdir(parents=True)

    def refuse(_folder: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "iterdir", refuse)
    delete_leftovers(lake)
    monkeypatch.undo()
    assert join_small(lake, [lake / DAY]) == 7


def test_rights_of_a_partition_are_kept(lake):
    put(lake, 0, 8)
    (lake / DAY).chmod(0o750)
    join_small(lake, [lake / DAY])
    assert (lake / DAY).stat().st_mode & 0o777 == 0o750


def test_metadata_of_a_schema_is_kept(lake):
    for number in range(8):
        schema = pa.schema([("number", pa.int64())], metadata={"spark": "its own"})
        pq.write_table(
            pa.table({"number": [number]}, schema=schema), lake / DAY / f"batch-{number}-0.parquet"
        )
    join_small(lake, [lake / DAY])
    (file,) = (lake / DAY).iterdir()
    assert pq.read_schema(file).metadata[b"spark"] == b"its own"


def test_old_directory_is_whole_for_a_minute_and_goes_then(lake):
    put(lake, 0, 8)
    join_small(lake, [lake / DAY])
    (old,) = (lake / OWN / "joined").iterdir()
    clock = ManualClock(old.stat().st_mtime_ns)
    delete_leftovers(lake, clock)
    assert len(list(old.iterdir())) == 8
    clock.advance(61)
    delete_leftovers(lake, clock)
    assert not old.exists()


def test_old_directory_is_kept_from_the_exchange_on_however_old_it_is(lake):
    put(lake, 0, 8)
    hour_ago_ns = (lake / DAY).stat().st_mtime_ns - 3600 * 10**9
    os.utime(lake / DAY, ns=(hour_ago_ns, hour_ago_ns))
    join_small(lake, [lake / DAY])
    (old,) = (lake / OWN / "joined").iterdir()
    delete_leftovers(lake, ManualClock(hour_ago_ns + 3601 * 10**9))
    assert len(list(old.iterdir())) == 8


def test_what_a_kill_has_left_is_swept(lake):
    left = lake / OWN / "joined" / "left"
    left.mkdir(parents=True)
    delete_leftovers(lake, ManualClock(left.stat().st_mtime_ns + 61 * 10**9))
    assert not left.exists()
