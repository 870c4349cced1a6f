"""Which rows get entries, and how many batches take them to disk."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_core.catalog.index_options import IndexOptions
from storage_core.format.counters import IndexCounts
from storage_core.format.window import WindowScheme
from storage_core.index.adaptive_writer import ShardIndex
from storage_core.index.entries import FIRSTS_MANY, EntryChooser, IndexedRows, SealedRows

DAYS = WindowScheme("ms", "day")


def rows_of(ids):
    count = len(ids)
    secondary = np.array(ids, dtype=np.int32)
    return IndexedRows(secondary, np.arange(count), np.arange(count) + 1000, None)


@given(st.lists(st.integers(-40, 20), min_size=1, max_size=400), st.sampled_from([0, 2**31 - 21]))
def test_first_row_of_each_id_gets_an_entry_wherever_it_stands(ids, above):
    ids = [each + above for each in ids]
    assert len(set(ids)) <= FIRSTS_MANY
    entries = EntryChooser(DAYS).choose(rows_of(ids), 16)
    assert entries["secondary"].tolist() == list(dict.fromkeys(ids))
    assert entries["address"].tolist() == [1000 + ids.index(each) for each in dict.fromkeys(ids)]


def test_what_waits_is_written_in_few_batches():
    written: list[int] = []
    failures: list[BaseException] = []
    index = ShardIndex(
        DAYS,
        IndexOptions(),
        IndexCounts(),
        write=lambda batch: written.append(len(list(batch.every_put()))),
        committed=lambda: 2**40,
        floor=lambda: 0,
        fail=failures.append,
    )
    index.hand_over(SealedRows(rows_of([at % 1000 for at in range(3000)]), 1))
    index.take_rows(writes=False)
    index.write_all()
    # And one of what was counted.
    assert (written, failures) == ([1000 + 1], [])
