"""Parts that tasks staged beside each other come back as one order, whatever they hold."""

import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from storage_core.transactions.merge_sorted import HELD_BYTES_MAX, merge_groups, read_sorted
from storage_core.transactions.staged_rows import BATCH_BYTES_TARGET, StagedRows, StagingWriter
from tests.log.workbench import batch_of

# Three rows make a batch of a part, so that a few of them make many.
PAYLOAD = bytes(BATCH_BYTES_TARGET // 3)
ROWS = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 5)), min_size=1, max_size=6)


def staged(root, tasks, payload=PAYLOAD, **columns):
    """Return what each task staged of its (secondary, primary); rows know where they came from."""
    parts: list[StagedRows] = []
    for number, rows in enumerate(tasks):
        attempt = root / str(number)
        attempt.mkdir()
        writer = StagingWriter(partial(Path, attempt), 0, 2**20)
        ids, times = [one for one, _ in rows], [one for _, one in rows]
        chosen = {"version": number, **columns}
        writer.write(batch_of(times, secondary=ids, payload=payload, **chosen))
        parts.extend(writer.finish()[0])
    return parts


def read(root, parts):
    """Return (primary, task, secondary) of all rows in the order they are read."""
    placed: list[tuple[int, int, int]] = []
    for rows in read_sorted(root, parts):
        versions = [0] * len(rows) if rows.version is None else rows.version.tolist()
        placed.extend(zip(rows.primary.tolist(), versions, rows.secondary.tolist(), strict=True))
    return placed


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_all_rows_come_in_one_order_and_in_the_same_each_time(tasks):
    with tempfile.TemporaryDirectory() as place:
        parts = staged(Path(place), tasks)
        first, again = read(Path(place), parts), read(Path(place), parts)
    everything = [(one, task, i) for task, rows in enumerate(tasks) for i, one in rows]
    assert first == sorted(everything, key=lambda row: row[:2])
    assert again == first


def test_equal_rows_of_small_parts_stand_in_the_order_of_tasks(root):
    parts = staged(root, [[(1, 5)], [(1, 5), (1, 4)], [(1, 5)]], payload=b"x")
    assert read(root, parts) == [(4, 1, 1), (5, 0, 1), (5, 1, 1), (5, 2, 1)]


def test_equal_rows_that_are_read_piece_by_piece_stand_in_the_order_of_tasks(root):
    merged = read(root, staged(root, [[(1, 5)] * 8, [(2, 5)] * 3, [(3, 4), (3, 5)]]))
    assert [task for _, task, _ in merged] == [2, *[0] * 8, *[1] * 3, 2]


def test_column_that_one_task_lacks_is_null_there(root):
    (first,) = staged(root, [[(1, 1), (1, 3)]], payload=b"x", key=b"k")
    (root / "other").mkdir()
    writer = StagingWriter(lambda: root / "other", 0, 2**20)
    writer.write(batch_of([2]))
    (second,) = writer.finish()[0]
    (rows,) = read_sorted(root, [first, second])
    assert rows.envelope["key"].to_pylist() == [b"k", None, b"k"]


@pytest.mark.parametrize("size", [1, BATCH_BYTES_TARGET, 100 * BATCH_BYTES_TARGET])
def test_parts_are_merged_at_once_as_long_as_they_can_be_held(size):
    fit = HELD_BYTES_MAX // min(size, BATCH_BYTES_TARGET)
    part = StagedRows("f", 0, size, 1, "", is_sorted=True)
    few = min(fit, 1000)
    assert [len(group) for group in merge_groups([part] * few)] == [few]
    if few == fit:
        assert [len(group) for group in merge_groups([part] * (fit + 1))] == [fit, 1]


@pytest.mark.parametrize("rows", [2, 8])
def test_part_that_is_called_sorted_and_is_not_is_told_and_not_merged(root, rows):
    attempt = root / "0"
    attempt.mkdir()
    path = attempt / "rows.arrow"
    batch = batch_of([*range(rows, 0, -1)], payload=PAYLOAD)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        for start in range(0, rows, 2):
            writer.write_batch(batch.slice(start, 2))
    part = StagedRows("0/rows.arrow", 0, path.stat().st_size, rows, "", is_sorted=True)
    with pytest.raises(CorruptionError, match="marked as sorted are not"):
        read(root, [part])
