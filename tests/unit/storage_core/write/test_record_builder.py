"""Building: a record is checked before it counts, and what was gathered stays until written."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from storage_core import InvalidRequestError, StreamOptions
from storage_core.write.record_builder import RecordBuilder
from tests.unit.storage_core.strategies import (
    few,
    int32s,
    int64s,
    payloads,
    uint16s,
)


def added(*record: Any, payload_bytes_max: int = 12) -> dict[str, object]:
    """Return the one row that a builder makes of a record."""
    builder = RecordBuilder(StreamOptions(payload_bytes_max=payload_bytes_max))
    builder.add(*record)
    rows_built = builder.rows()
    return {
        "primary": rows_built.primary.tolist(),
        "secondary": rows_built.secondary.tolist(),
        "payload": rows_built.payload.to_pylist(),
        "version": [0] if rows_built.version is None else rows_built.version.tolist(),
    }


@few
@given(int64s, int32s, payloads, uint16s)
def test_record_within_its_types_is_taken_as_it_is(primary, secondary, payload, version):
    assert added(primary, secondary, payload, version) == {
        "primary": [primary],
        "secondary": [secondary],
        "payload": [payload],
        "version": [version],
    }


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ((2**63, 0, b"", 0), "primary"),
        ((-(2**63) - 1, 0, b"", 0), "primary"),
        ((1.0, 0, b"", 0), "primary"),
        (("1", 0, b"", 0), "primary"),
        ((None, 0, b"", 0), "primary"),
        ((0, 2**31, b"", 0), "secondary"),
        ((0, -(2**31) - 1, b"", 0), "secondary"),
        ((0, 0, "text", 0), "payload"),
        ((0, 0, 5, 0), "payload"),
        ((0, 0, b"12345", 0), "payload_bytes_max is 4"),
        ((0, 0, bytearray(5), 0), "payload_bytes_max is 4"),
        ((0, 0, b"", -1), "version"),
        ((0, 0, b"", 2**16), "version"),
    ],
)
def test_record_that_does_not_fit_is_refused_by_name(record, named):
    with pytest.raises(InvalidRequestError, match=named):
        added(*record, payload_bytes_max=4)


def test_integers_of_numpy_are_taken_like_plain_ones():
    assert added(np.int64(1), np.int32(2), None, np.uint16(3)) == added(1, 2, None, 3)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_payload_is_copied_out_of_a_buffer(kind):
    buffer = bytearray(b"abcd")
    builder = RecordBuilder(StreamOptions())
    builder.add(0, 0, kind(buffer), 0)
    buffer[:] = b"zzzz"
    assert builder.rows().payload.to_pylist() == [b"abcd"]


def test_changed_limits_hold_for_the_next_record():
    builder = RecordBuilder(StreamOptions())
    builder.limit(StreamOptions(payload_bytes_max=1, block_records=1))
    assert builder.add(0, 0, b"a", 0)
    with pytest.raises(InvalidRequestError, match="payload_bytes_max is 1"):
        builder.add(0, 0, b"ab", 0)


@pytest.mark.parametrize(
    ("options", "fills_at"),
    [
        (StreamOptions(block_records=3), 3),
        (StreamOptions(block_bytes=10), 4),
        (StreamOptions(block_records=1), 1),
    ],
)
def test_block_is_full_at_its_records_or_bytes(options, fills_at):
    builder = RecordBuilder(options)
    assert [builder.add(0, 0, b"abc", 0) for _ in range(fills_at)] == [False] * (fills_at - 1) + [
        True
    ]


def test_tombstones_fill_a_block_by_their_number_only():
    builder = RecordBuilder(StreamOptions(block_records=100, block_bytes=1))
    assert not any(builder.add(0, 0, None, 0) for _ in range(99))


def test_refused_record_changes_nothing():
    builder = RecordBuilder(StreamOptions(block_bytes=4))
    builder.add(1, 1, b"abc", 0)
    with pytest.raises(InvalidRequestError):
        builder.add(1, 2**31, b"d", 0)
    assert len(builder) == 1
    assert builder.rows().payload.to_pylist() == [b"abc"]


def test_gathered_rows_stay_until_cleared():
    builder = RecordBuilder(StreamOptions())
    builder.add(1, 2, None, 3)
    assert len(builder.rows()) == len(builder.rows()) == 1
    builder.clear()
    assert len(builder) == 0
