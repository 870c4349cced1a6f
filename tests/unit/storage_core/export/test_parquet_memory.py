"""What a file of Parquet claims is counted before it is held."""

import pytest

from storage_core.export.memory_budget import MemoryBudget, TooLargeError
from storage_core.export.parquet_memory import page_header
from storage_core.export.thrift import ThriftReader

# A struct with a list of 10,000 empty lists.
MANY = b"\x19\xf9\x90\x4e" + b"\x09" * 10_000 + b"\x00"


def test_head_of_a_page_with_many_values_is_no_head():
    with pytest.raises(ValueError, match="page header"):
        page_header(MANY, 0, len(MANY))


def test_values_take_of_the_room_there_is():
    assert len(ThriftReader(MANY, 0, len(MANY), MemoryBudget(2**20)).fields()[1]) == 10_000
    with pytest.raises(TooLargeError):
        ThriftReader(MANY, 0, len(MANY), MemoryBudget(2**19)).fields()
