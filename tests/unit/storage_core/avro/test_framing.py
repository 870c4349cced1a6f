"""Where bodies begin: each frame, none, and what only looks like one."""

import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, body_starts, frame_of, verified_starts

LONG = AvroSchema.parse('"long"')
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NAMED = {"key": "__value_schema_id", "value": b"\x01" + bytes(16)}


@pytest.mark.parametrize(
    ("payload", "start"),
    [
        (frame_of(LONG, 7) + b"\x02", 5),
        (frame_of(LONG, 0), 5),
        (b"\x01" + bytes(16) + b"\x02", 17),
        (frame_of(LONG, None) + b"\x02", 10),
        (b"\x00\x00\x00", 0),
        (b"\x01" + bytes(9), 0),
        (b"\xc3\x02" + bytes(9), 0),
        (b"\xc3\x01" + bytes(7), 0),
        (b"\x02", 0),
        (b"", 0),
        (None, 0),
    ],
)
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_body_begins_behind_its_frame(payload, start, kind):
    whole = pa.array([b"\x00\x00\x00\x00\x07", payload, b"\xc3\x01"], kind)
    assert body_starts(whole).tolist() == [5, start, 0]
    assert body_starts(whole.slice(1)).tolist() == [start, 0]
    assert body_starts(pa.chunked_array([whole, whole])).tolist() == [5, start, 0] * 2


def test_payload_named_by_its_header_is_the_body_whatever_it_begins_with():
    payloads = pa.array([frame_of(LONG, 7)] * 5, pa.binary())
    null = {**NAMED, "value": None}
    headers = pa.array([[NAMED], None, [], [null], [{"key": "a", "value": b""}, NAMED]], HEADERS)
    assert body_starts(payloads, headers).tolist() == [0, 5, 5, 5, 0]
    assert body_starts(payloads.slice(3), headers.slice(3)).tolist() == [5, 0]


def test_null_payload_that_spans_bytes_has_no_frame():
    offsets = pa.array([0, 5, 10], pa.int32()).buffers()[1]
    buffers = [pa.array([True, False]).buffers()[1], offsets, pa.py_buffer(bytes(10))]
    assert body_starts(pa.Array.from_buffers(pa.binary(), 2, buffers)).tolist() == [5, 0]


@pytest.mark.parametrize("number", [-1, 2**31])
def test_number_that_is_no_id_is_refused(number):
    with pytest.raises(InvalidRequestError, match="a registry id must be"):
        frame_of(LONG, number)


CARD = bytes(range(16))


@pytest.mark.parametrize(
    ("registry_id", "payload", "start"),
    [
        (7, frame_of(LONG, 7) + b"\x02", 5),
        (7, frame_of(LONG, 8) + b"\x02", 0),
        (7, frame_of(LONG, None) + b"\x02", 10),
        (7, b"\xc3\x01" + bytes(8), 0),
        (7, b"\x01" + CARD + b"\x02", 17),
        (0, b"\x01" + CARD + b"\x02", 0),
        (0, bytes(5) + b"\x02", 0),
        (0, frame_of(LONG, None) + b"\x02", 10),
        (0, b"\x02", 0),
        (7, None, 0),
    ],
)
def test_frame_of_another_schema_is_the_body(registry_id, payload, start):
    payloads = pa.array([frame_of(LONG, None), payload, b""], pa.binary())
    starts = body_starts(payloads)
    assert verified_starts(LONG, registry_id, payloads, starts).tolist() == [10, start, 0]
