"""The shard of a key: the same for ever, by the writer, by the stager and by every reader."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.ids.dictionaries.routing import shard_of_key, shards_of_keys
from tests.unit.storage_core.strategies import few


@pytest.mark.parametrize(
    ("key", "shard"), [(None, 0), (b"", 2), (b"a", 3), (b"b", 3), (b"\0" * 9, 3), (b"user-1", 1)]
)
def test_key_has_the_shard_that_it_had_when_streams_were_written(key, shard):
    assert shard_of_key(key, 3) == shard


@few
@given(st.lists(st.none() | st.binary(max_size=5)), st.sampled_from([0, 1, 3, 4095]))
def test_column_of_keys_goes_where_each_of_them_goes(keys, mask):
    column = pa.array([b"ahead", *keys], pa.binary()).slice(1)
    assert shards_of_keys(column, mask).tolist() == [shard_of_key(key, mask) for key in keys]
