"""What waits for the index of one shard: how it is bounded, counted and written."""

import numpy as np
import pytest

from storage_core.catalog.index_options import IndexOptions
from storage_core.engine.key_value import Batch
from storage_core.errors import UnavailableError
from storage_core.format.counters import IndexCounts
from storage_core.format.window import WindowScheme
from storage_core.ids.index.adaptive_writer import ROWS_HANDED_MOST, ShardIndex
from storage_core.ids.index.entries import IndexedRows, WrittenRows
from tests.log.batches import puts_of


class Written:
    """An index of its own, and how many puts each batch of it had."""

    def __init__(self) -> None:
        self.is_full = False
        self.batches: list[int] = []
        self.failures: list[BaseException] = []
        self.index = ShardIndex(
            "s, shard 0",
            WindowScheme("ms", "day"),
            IndexOptions(),
            IndexCounts(),
            write=self.write,
            committed=lambda: 2**40,
            floor=lambda: 0,
            fail=self.failures.append,
        )

    def write(self, batch: Batch) -> None:
        self.batches.append(len(list(puts_of(batch))))
        if self.is_full:
            message = "no space left"
            raise UnavailableError(message)

    def hand_over(self, rows: int, ids: int, primaries: int | None = None) -> None:
        """Hand rows over whose ids take turns; with another count of primaries they are broken."""
        secondary = np.arange(rows, dtype=np.int32) % np.int32(ids)
        numbers = np.arange(rows)
        self.index.hand_over(
            WrittenRows(IndexedRows(secondary, numbers[:primaries], numbers, None), 1)
        )


@pytest.fixture
def written() -> Written:
    return Written()


def test_what_waits_is_written_in_few_batches(written):
    written.hand_over(3000, ids=1000)
    written.index.take_rows(writes=False)
    written.index.write_all()
    # And one of what was counted.
    assert (written.batches, written.failures) == ([1000 + 1], [])


def test_rows_that_are_too_many_are_left_out_and_counted_until_some_are_taken(written):
    written.hand_over(ROWS_HANDED_MOST + 1, ids=2)
    written.hand_over(100, ids=50)
    assert written.index.counts().dropped == 7
    written.index.take_rows(writes=False)
    assert written.index.counts().queue == 2
    written.hand_over(100, ids=50)
    written.index.take_rows(writes=False)
    assert (written.index.counts().queue, written.index.counts().dropped) == (52, 7)


def test_rows_of_a_turn_that_fails_are_counted_and_remembered_by_nobody(written):
    written.hand_over(50, ids=50, primaries=40)
    with pytest.raises(IndexError):
        written.index.take_rows(writes=True)
    assert written.index.counts().dropped == 4
    written.hand_over(50, ids=50)
    written.index.take_rows(writes=False)
    assert (written.index.counts().queue, written.index.counts().dropped) == (50, 4)


def test_index_whose_write_failed_tells_it_once_and_does_nothing_more(written):
    written.is_full = True
    for _ in range(2):
        written.hand_over(50, ids=50)
        written.index.take_rows(writes=True)
        written.index.write_all()
    assert (len(written.batches), len(written.failures)) == (1, 1)
    assert written.index.counts().queue == 50
    assert written.index.has_rows
