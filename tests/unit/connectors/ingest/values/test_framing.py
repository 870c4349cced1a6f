"""Which schema wrote a value is read as serializers write it, whatever the bytes are."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.ingest.values.framing import HEADER, name_text, read_frames
from storage_core import HEADERS_TYPE

GUID = bytes(range(16))
OTHER = b"\x07" * 15 + b"\x00"


def of_id(number, body=b"body"):
    return b"\x00" + struct.pack(">I", number) + body


def of_guid(guid=GUID, body=b"body"):
    return b"\x01" + guid + body


def listed_of(headers):
    return headers and [{"key": name, "value": value} for name, value in headers]


def frames_of(values, headers=None):
    listed = None
    if headers is not None:
        named = [
            pairs and [{"key": name, "value": value} for name, value in pairs] for pairs in headers
        ]
        listed = pa.array(named, HEADERS_TYPE)
    return read_frames(pa.array(values, pa.binary()), listed)


def plainly(value, headers):
    """Return what a loop makes of a value: its schema, where its body begins, if it is bad."""
    if value is None:
        return None, 0, False
    named = [data for name, data in headers or () if name == HEADER and data is not None]
    if named:
        fits = named[-1][:1] + bytes([len(named[-1])]) in (b"\x00\x05", b"\x01\x11")
        return (named[-1] if fits else None), 0, not fits
    for first, length in ((b"\x00", 5), (b"\x01", 17)):
        if value[:1] == first and len(value) >= length:
            return value[:length], length, False
    return None, 0, True


def as_plainly(frames):
    return [
        (None if index < 0 else frames.names[index], start, row in frames.faults)
        for row, (index, start) in enumerate(zip(frames.indices, frames.starts, strict=True))
    ]


def test_ids_and_guids_are_told_apart_and_bodies_begin_behind_them():
    frames = frames_of([of_id(7), of_guid(), of_id(2**32 - 1, b""), of_id(7), None, of_guid(OTHER)])
    assert [name_text(name) for name in frames.names] == [
        "schema id 7",
        "schema id 4294967295",
        "schema GUID 00010203-0405-0607-0809-0a0b0c0d0e0f",
        "schema GUID 07070707-0707-0707-0707-070707070700",
    ]
    assert frames.indices.tolist() == [0, 2, 1, 0, -1, 3]
    assert frames.starts.tolist() == [5, 17, 5, 5, 0, 17]
    assert frames.faults == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "value is empty"),
        (b'{"a": 1}', "value begins with 0x7b"),
        (b"\x00\x00\x07", "value of 3 bytes; 0x00 and a schema's id take 5"),
        (b"\x01" + GUID[:-1], "value of 16 bytes; 0x01 and a schema's id take 17"),
        (b"\x02" * 20, "value begins with 0x02"),
    ],
)
def test_value_that_is_not_framed_is_named_and_costs_no_neighbour(value, reason):
    frames = frames_of([of_id(1), value, of_id(2)])
    assert list(frames.faults) == [1]
    assert frames.faults[1].startswith(f"framing: {reason}")
    assert frames.indices.tolist() == [0, -1, 1]


def test_header_counts_before_what_the_value_begins_with():
    named = [[(HEADER, of_guid(body=b""))], [(HEADER, of_id(9, b"")), ("x", b"1")], None, []]
    frames = frames_of([of_id(1), b"whole body", of_id(1), of_id(2)], named)
    assert [name_text(frames.names[at])[-4:] for at in frames.indices] == [
        "0e0f",
        "id 9",
        "id 1",
        "id 2",
    ]
    assert frames.starts.tolist() == [0, 0, 5, 5]


def test_last_header_of_the_name_counts_and_a_null_one_says_nothing():
    twice = [(HEADER, of_id(1, b"")), (HEADER, of_id(2, b"")), (HEADER, None)]
    frames = frames_of([b"body", of_id(3)], [twice, [(HEADER, None)]])
    assert [name_text(frames.names[at]) for at in frames.indices] == ["schema id 2", "schema id 3"]


def test_header_that_holds_more_than_a_name_is_a_fault():
    frames = frames_of([of_id(1), of_id(2)], [[(HEADER, of_id(1, b"more"))], None])
    assert frames.faults[0].startswith(f"framing: header {HEADER} of 9 bytes")
    assert frames.indices.tolist() == [-1, 0]


def test_one_schema_of_many_values_is_one_name():
    frames = frames_of([of_id(7, b"%d" % at) for at in range(1000)])
    assert len(frames.names) == 1
    assert not frames.indices.any()


NAMES = st.sampled_from([of_id(0, b""), of_id(7, b""), of_guid(body=b""), of_guid(OTHER, b"")])
VALUES = st.none() | st.binary(max_size=20) | st.tuples(NAMES, st.binary(max_size=4)).map(b"".join)
HEADERS = st.none() | st.lists(
    st.tuples(st.sampled_from([HEADER, "other"]), st.none() | st.binary(max_size=20) | NAMES),
    max_size=3,
)


@given(
    records=st.lists(st.tuples(VALUES, HEADERS), max_size=20),
    ahead=st.lists(st.tuples(VALUES, HEADERS), max_size=3),
    has_headers=st.booleans(),
)
def test_any_bytes_are_read_as_a_plain_loop_reads_them(records, ahead, has_headers):
    everything = [*ahead, *records]
    values = pa.array([value for value, _ in everything], pa.binary()).slice(len(ahead))
    named = [listed_of(data) for _, data in everything]
    headers = pa.array(named, HEADERS_TYPE).slice(len(ahead)) if has_headers else None
    frames = read_frames(values, headers)
    assert as_plainly(frames) == [
        plainly(value, data if has_headers else None) for value, data in records
    ]
    assert np.isin(np.arange(len(frames.names)), frames.indices).all()
    assert len(set(frames.names)) == len(frames.names)
