"""Goal: of rows that expire while SQL takes a snapshot the oldest alone are missing.

Method: they expire once the snapshot's parts are listed, and before its hot rows are read.
"""

import pytest

from storage_core.sql.pool.stream_pool import StreamPool
from tests.log.expiry.shelf import Shelf
from tests.log.expiry.sql_doors import DOORS, ask_pool, happening_before_hot_rows


@pytest.mark.parametrize("door", DOORS)
def test_no_row_of_a_part_outlasts_a_younger_one_that_was_hot(make_bench, monkeypatch, door):
    shelf = Shelf(make_bench)
    shelf.put(-4, 10)
    shelf.put(-2.9, 10)
    shelf.stream.seal()
    shelf.put(-2.8, 10)
    recent = shelf.put(-1, 10)
    happening_before_hot_rows(monkeypatch, door, lambda: shelf.expire(hours=2.5))
    assert DOORS[door](shelf.bench.root, shelf.bench.name) == recent
    # The part is there still, with rows that it alone has.
    assert len(shelf.stream.parts()) == 1


def test_no_row_that_was_read_before_outlasts_a_younger_one(make_bench, monkeypatch):
    shelf = Shelf(make_bench)
    oldest = shelf.put(-4, 10)
    with StreamPool(shelf.bench.root) as streams:
        assert ask_pool(streams, shelf.bench.name) == oldest
        shelf.put(-2.8, 10)
        recent = shelf.put(-1, 10)
        happening_before_hot_rows(monkeypatch, "pool", lambda: shelf.expire(hours=2.5))
        assert ask_pool(streams, shelf.bench.name) == recent
    assert not shelf.stream.parts()


@pytest.mark.parametrize("door", DOORS)
def test_snapshot_whose_parts_go_meanwhile_is_taken_again(make_bench, monkeypatch, door):
    shelf = Shelf(make_bench, retention=None)
    shelf.put(-4, 10)
    shelf.stream.seal()
    shelf.put(-3, 10)
    recent = shelf.put(-1, 10)

    def cap() -> None:
        shelf.stream.alter(records_max=len(recent))
        shelf.expire()

    happening_before_hot_rows(monkeypatch, door, cap)
    assert DOORS[door](shelf.bench.root, shelf.bench.name) == recent
    assert not shelf.stream.parts()
