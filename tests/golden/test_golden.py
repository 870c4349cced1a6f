"""A store of each released format is read row by row, and a damaged one is told.

The folders beside this file were written once and never change; `write_v1.py` tells what is in
them. Every test works on a copy.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_core import CorruptionError, LostRangeError, Stream, StreamReader
from tests.golden.write_v1 import COLUMNS, STREAM, open_later, plain, rows_in

HERE = Path(__file__).parent
STORE = "v1"
BYTES_MAX = 350_000


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Stream]:
    """The store with a damaged block, opened for writing."""
    with open_later(shutil.copytree(HERE / "v1-damaged", tmp_path / "root")) as stream:
        yield stream


def test_rows_hold_each_state_and_column(expected):
    rows = expected["rows"]
    assert {row["state"] for row in rows} == {0, 1, 2}
    assert {None, ""} < {row["payload"] for row in rows}
    for name in COLUMNS:
        assert any(row[name] not in (None, 0, False) for row in rows) or name == "shard"


def test_writer_finds_every_row_as_it_was_written(stream, expected):
    assert rows_in(stream) == expected["rows"]
    assert stream.committed() == {0: expected["committed"]}
    assert stream.source(0) == expected["source"]
    assert stream.verify().is_clean


def test_reads_in_order_and_of_the_newest_find_the_same_rows(stream, expected):
    assert stream.read(columns=("address",))["address"].to_pylist() == expected["order"]
    latest = {str(one): record.address for one, record in stream.latest().items()}
    assert latest == expected["latest"]


def test_reader_finds_all_but_the_transaction_that_is_not_finished(root, expected):
    staged = 2
    with StreamReader.open(root, STREAM) as reader:
        assert list(plain(reader.tail(0, columns=COLUMNS))) == expected["rows"][:-staged]
        assert reader.committed() == {0: expected["committed"] - staged}


@pytest.mark.parametrize("secondary", [-1, 2, 7])
def test_heads_of_the_store_are_in_force(stream, expected, secondary):
    normal = [row for row in expected["rows"] if row["state"] == 0]
    largest = max(row["primary"] for row in normal if row["secondary"] == secondary)
    for primary in (largest - 6, largest + 1):
        stream.append(primary, secondary, b"")
    stream.commit()
    assert [row["state"] for row in rows_in(stream)[-2:]] == [1, 0]


def test_store_has_heads_on_disk(stream):
    assert stream._shards[0]._standing.state.heads_through > 30


@pytest.mark.parametrize("name", ["done", "begun"])
def test_transactions_of_the_store_are_known(stream, name):
    assert stream.transaction(name, 2).is_replay


def test_store_goes_on_where_it_stopped(stream, root, expected):
    stream.append(1, 1, b"")
    stream.commit()
    stream.close()
    with open_later(root) as again:
        assert rows_in(again)[: len(expected["rows"])] == expected["rows"]
        assert len(rows_in(again)) == len(expected["rows"]) + 1


def test_damaged_block_is_told_by_the_writer(damaged, expected):
    ((start, end),) = lost_by_reading(damaged)
    with pytest.raises(LostRangeError, match=rf"\[{start}, {end}\)"):
        damaged.read()
    rest = [row for row in expected["rows"] if row["address"] >= end]
    assert list(plain(damaged.tail(0, end, columns=COLUMNS))) == rest


def lost_by_reading(stream: Stream) -> list[tuple[int, int]]:
    """Read everything, so that what cannot be read becomes known; return what is lost."""
    with pytest.raises(CorruptionError):
        list(stream.scan())
    return stream.lost_ranges()[0]


def test_damaged_block_is_told_by_verify(damaged):
    report = damaged.verify()
    assert not report.is_clean
    assert {problem.shard for problem in report.problems} == {0}


def test_damaged_store_differs_by_one_bit():
    changed = [
        before ^ after
        for path in sorted((HERE / "v1").rglob("*.*"))
        for before, after in zip(path.read_bytes(), damaged_twin(path).read_bytes(), strict=True)
        if before != after
    ]
    assert changed == [1]


def damaged_twin(path: Path) -> Path:
    """Return the same file of the damaged store."""
    return HERE / "v1-damaged" / path.relative_to(HERE / "v1")


def test_golden_stores_stay_small():
    sizes = [path.stat().st_size for path in HERE.glob("v*/**/*") if path.is_file()]
    assert sum(sizes) < BYTES_MAX
