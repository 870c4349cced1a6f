"""Hot rows as typed tables: each is decoded once, and only those of a range are shown."""

from collections.abc import Iterator
from itertools import chain
from random import Random
from typing import Any

import pyarrow as pa

from storage_core.sql.pool import hot_tables
from storage_core.sql.pool.hot_tables import HotTables, rows_of


def rows(start: int, end: int) -> Iterator[pa.RecordBatch]:
    addresses = range(start, end)
    keys = pa.array([None if n % 5 == 0 else b"key-%d" % (n % 3) for n in addresses], pa.binary())
    yield pa.RecordBatch.from_pydict({"key": keys, "address": pa.array(addresses, pa.int64())})


def typed(stored: list[pa.RecordBatch]) -> list[pa.Table]:
    if not stored:
        return []
    table = pa.Table.from_batches(stored)
    by: Any = [("key", "ascending", "at_start"), ("address", "ascending", "at_start")]
    return [table.sort_by(by)]


def addresses_in(tables: list[pa.Table]) -> list[int]:
    columns: Any = [table.column("address").to_pylist() for table in tables]
    return sorted(chain.from_iterable(columns))


class Reads:
    """Rows of a shard, and how many of them were read."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        self.count += end - start
        return rows(start, end)


def test_each_row_is_read_once():
    tables, reads = HotTables(typed), Reads()
    for end in (1, 2, 3, 10, 10, 50, 400):
        assert tables.missing(0, end) == end - reads.count
        assert addresses_in(tables.of(0, end, reads)) == [*range(end)]
        assert reads.count == end


def test_only_rows_of_the_range_are_shown():
    tables, reads = HotTables(typed), Reads()
    tables.of(0, 100, reads)
    assert addresses_in(tables.of(0, 60, reads)) == [*range(60)]
    assert addresses_in(tables.of(30, 60, reads)) == [*range(30, 60)]
    assert addresses_in(tables.of(30, 100, reads)) == [*range(30, 100)]
    assert reads.count == 100


def test_rows_of_a_part_that_is_gone_are_read_again():
    tables, reads = HotTables(typed), Reads()
    tables.of(50, 100, reads)
    assert tables.missing(20, 100) == 80
    assert addresses_in(tables.of(20, 100, reads)) == [*range(20, 100)]


def test_pieces_stay_few(monkeypatch):
    monkeypatch.setattr(hot_tables, "PIECE_ROWS_MAX", 64)
    tables, reads, random = HotTables(typed), Reads(), Random(1)
    end, pieces = 0, tables.of(0, 0, reads)
    for _ in range(300):
        end += random.randint(1, 5)
        pieces = tables.of(0, end, reads)
    assert addresses_in(pieces) == [*range(end)]
    assert len(pieces) < end // 32 + 8


def test_rows_of_keys_are_found_by_bisection():
    tables = HotTables(typed)
    (table,) = tables.of(0, 60, rows)
    of_keys = [*rows_of(table, "key", [b"key-1", b"key-2", b"nobody", b"key-1"])]
    expected = [n for n in range(60) if n % 5 and n % 3 in (1, 2)]
    assert addresses_in(of_keys) == expected
