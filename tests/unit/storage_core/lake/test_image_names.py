"""The name of an image tells its part and its rows; no other name passes for one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.errors import InvalidRequestError
from storage_core.format.part_entry import PartEntry
from storage_core.lake.image_names import ImageName, image_name, image_of_path
from tests.unit.storage_core.strategies import addresses_one, many

digests = st.binary(min_size=16, max_size=16)


def entry_of(digest: bytes) -> PartEntry:
    numbers = 0, 0, 0, 0, 0, 0, 0, 0, 0
    return PartEntry(*numbers, False, digest, "", 0, b"")


@many
@given(st.integers(0, 4095), digests, addresses_one, addresses_one, st.none() | digests)
def test_name_tells_what_it_is_made_of(shard, digest, first, last, file_digest):
    rewritten = None if file_digest is None else file_digest.hex()
    path = image_name(shard, entry_of(digest), first, last, rewritten)
    assert image_of_path(path) == ImageName(shard, first, last, digest.hex(), rewritten)
    assert re.fullmatch(r"shard=\d+/[0-9a-f-]+\.parquet", path)


def test_names_of_a_shard_ascend_as_addresses_do():
    entry = entry_of(b"." * 16)
    addresses = [0, 9, 10, 2**63 - 1]
    paths = [image_name(1, entry, address, address) for address in addresses]
    assert paths == sorted(paths)


@pytest.mark.parametrize(
    "path",
    [
        "shard=1/part-00000.snappy.parquet",
        f"shard=1/{1:020}-{2:020}.parquet",
        f"{1:020}-{2:020}-{'0' * 32}.parquet",
        f"shard=01/{1:020}-{2:020}-{'0' * 32}.parquet",
        f"shard=1/{1:020}-{2:020}-{'0' * 32}-{'0' * 31}.parquet",
        f"shard=1/{1:020}-{2:020}-{'0' * 32}.parquet.tmp",
        "",
    ],
)
def test_other_names_are_refused(path):
    with pytest.raises(InvalidRequestError, match="no file of shardlog"):
        image_of_path(path)
