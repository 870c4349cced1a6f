"""Which rows get entries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.window import WindowScheme
from storage_core.ids.index.entries import FIRSTS_MANY, EntryChooser, IndexedRows

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
