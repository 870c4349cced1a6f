"""Addresses of a batch's own come from any sequence that has integers in their order."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import ADDRESS_MAX
from storage_core.write.duplicates import checked_addresses
from tests.unit.storage_core.strategies import few


@few
@given(
    st.sets(st.integers(0, ADDRESS_MAX - 1)).map(sorted), st.sampled_from([list, np.array, tuple])
)
def test_increasing_addresses_are_taken_from_any_sequence(addresses, kind):
    assert checked_addresses(kind(addresses), len(addresses)).tolist() == addresses


def test_addresses_of_arrow_are_taken():
    assert checked_addresses(pa.array([1, 5]), 2).tolist() == [1, 5]
