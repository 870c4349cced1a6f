"""Bodies become columns: every type, what is passed over, what is corrupt or claims too much."""

import json
import struct
import time
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, Fault, Limits, decode_batch
from tests.unit.storage_core.avro.differences import check_against_plain_python
from tests.unit.storage_core.avro.plain_avro import written

SECONDS_FOR_A_BOMB = 5.0


def schema_of(*fields):
    """Return a schema of some fields, each (name, type)."""
    record = {
        "type": "record",
        "name": "Root",
        "fields": [{"name": name, "type": of} for name, of in fields],
    }
    return AvroSchema.parse(json.dumps(record))


def bodies_of(of, *values):
    """Return bodies of a type."""
    return pa.array([written(of, value, Random(0)) for value in values], pa.binary())


def decoded(of, *values):
    """Return what is shown of values in a record's one field."""
    result = decode_batch(bodies_of(of, *values), schema_of(("c", of)))
    assert result.faults == ()
    return result.table.column("c")


def long(number):
    return written("long", number, Random(0))


def test_random_schemas_give_what_plain_python_reads():
    assert sum(check_against_plain_python(seed) for seed in range(60))


@pytest.mark.parametrize(
    ("kind", "logical", "number", "expected"),
    [
        ("int", "date", -1, date(1969, 12, 31)),
        ("int", "time-millis", 86_399_999, time_of_day(23, 59, 59, 999_000)),
        ("long", "time-micros", 1, time_of_day(0, 0, 0, 1)),
        ("long", "timestamp-millis", -1, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("long", "timestamp-micros", 5, datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
        ("long", "local-timestamp-millis", 1000, datetime(1970, 1, 1, 0, 0, 1)),  # noqa: DTZ001
        ("long", "local-timestamp-micros", 7, datetime(1970, 1, 1, 0, 0, 0, 7)),  # noqa: DTZ001
    ],
)
def test_times_are_arrows_times(kind, logical, number, expected):
    schema = schema_of(("c", {"type": kind, "logicalType": logical}))
    table = decode_batch(bodies_of(kind, number), schema).table
    assert table.column("c").to_pylist() == [expected]


@pytest.mark.parametrize("logical", ["timestamp-nanos", "local-timestamp-nanos"])
def test_nanoseconds_keep_every_bit(logical):
    schema = schema_of(("c", {"type": "long", "logicalType": logical}))
    table = decode_batch(bodies_of("long", 2**62 + 1, -(2**63)), schema).table
    assert table.column("c").cast(pa.int64()).to_pylist() == [2**62 + 1, -(2**63)]


def test_time_that_is_none_of_a_day_is_a_fault():
    schema = schema_of(("c", {"type": "int", "logicalType": "time-millis"}))
    result = decode_batch(bodies_of("int", 0, 86_400_000, -1), schema)
    assert [fault.row for fault in result.faults] == [1, 2]
    assert result.table.column("c").null_count == 2


@pytest.mark.parametrize("digits", [4, 38, 39, 76])
def test_decimals_of_any_number_of_bytes_are_decimals(digits):
    numbers = [0, 1, -1, 127, 128, -128, -129, 9999, -9999, 10**digits - 1, 1 - 10**digits]
    numbers = [number for number in numbers if abs(number) < 10**digits]
    # Ten bytes more than are needed say the same.
    raw = [
        number.to_bytes(size, "big", signed=True)
        for number in numbers
        for size in (number.bit_length() // 8 + 1, number.bit_length() // 8 + 11)
    ]
    of = {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 0}
    result = decode_batch(bodies_of("bytes", *raw), schema_of(("c", of)))
    assert result.faults == ()
    expected = [int.from_bytes(number, "big", signed=True) for number in raw]
    assert result.table.column("c").to_pylist() == [Decimal(number) for number in expected]


def test_decimal_of_too_many_digits_or_of_no_byte_is_a_fault():
    of = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0}
    raw = [b"\x27\x0f", b"\x27\x10", b"", b"\x80" + bytes(40), b"\xd8\xf1"]
    result = decode_batch(bodies_of("bytes", *raw), schema_of(("c", of)))
    assert [fault.row for fault in result.faults] == [1, 2, 3]
    expected = [Decimal(9999), None, None, None, Decimal(-9999)]
    assert result.table.column("c").to_pylist() == expected


def test_fixed_decimal_is_a_decimal_and_one_of_too_many_digits_is_bytes():
    fits = {"type": "fixed", "name": "A", "size": 4, "logicalType": "decimal", "precision": 9}
    wide = {"type": "fixed", "name": "B", "size": 4, "logicalType": "decimal", "precision": 10}
    schema = schema_of(("a", fits), ("b", wide))
    table = decode_batch(pa.array([b"\xff\xff\xff\xfe" * 2], pa.binary()), schema).table
    assert table.to_pylist() == [{"a": Decimal(-2), "b": b"\xff\xff\xff\xfe"}]


def test_unknown_logical_types_are_none():
    schema = schema_of(("c", {"type": "long", "logicalType": "fortnight"}))
    assert decode_batch(bodies_of("long", 3), schema).table.schema.field("c").type == pa.int64()


def test_null_bodies_are_rows_of_nulls_and_no_faults():
    bodies = pa.array([long(1), None, long(2)], pa.binary())
    result = decode_batch(bodies, schema_of(("c", "long")))
    assert result.faults == ()
    assert result.table.column("c").to_pylist() == [1, None, 2]


def test_text_that_is_passed_over_is_not_proven_to_be_one():
    writer = schema_of(("text", "string"), ("n", "int"))
    bodies = pa.array([b"\x02\xff\x02", b"\x04\xff\x02"], pa.binary())
    result = decode_batch(bodies, writer, columns=["n"])
    assert result.table.to_pylist() == [{"n": 1}, {"n": None}]
    assert [fault.row for fault in result.faults] == [1]
    assert [fault.row for fault in decode_batch(bodies, writer).faults] == [0, 1]


def test_what_lies_behind_the_last_column_is_looked_at_only_where_a_body_must_be_whole():
    of = schema_of(("a", "long"), ("b", "string"), ("c", "long"))
    torn = pa.array([long(5) + long(1) + b"x" + b"\x80", long(6)])
    result = decode_batch(torn, of, columns=["a"], is_whole=False)
    assert (result.table.to_pylist(), result.faults) == ([{"a": 5}, {"a": 6}], ())
    assert [fault.row for fault in decode_batch(torn, of, columns=["a"]).faults] == [0, 1]
    result = decode_batch(torn, of, columns=["b", "a"], is_whole=False)
    assert result.table.to_pylist() == [{"b": "x", "a": 5}, {"b": None, "a": None}]
    assert [fault.row for fault in result.faults] == [1]


def test_no_columns_leave_the_rows():
    result = decode_batch(bodies_of("long", 1, 2), schema_of(("c", "long")), columns=[])
    assert (result.table.num_rows, result.table.num_columns) == (2, 0)


def test_unknown_column_is_refused_with_those_that_are_there():
    with pytest.raises(InvalidRequestError, match="Root has no field d; it has c"):
        decode_batch(bodies_of("long", 1), schema_of(("c", "long")), columns=["d"])


def test_schema_that_is_no_record_has_the_column_value():
    table = decode_batch(bodies_of("string", "a", "b"), AvroSchema.parse('"string"')).table
    assert table.to_pydict() == {"value": ["a", "b"]}


@pytest.mark.parametrize("starts", [5, "each"])
def test_bodies_begin_behind_their_frame(starts):
    bodies = pa.array([b"\0\0\0\0\1" + long(7), b"\0\0\0\0\1" + long(8), b"\0\0"], pa.binary())
    places = np.array([5, 5, 5]) if starts == "each" else starts
    result = decode_batch(bodies, schema_of(("c", "long")), starts=places)
    assert result.table.column("c").to_pylist() == [7, 8, None]
    assert result.faults == (Fault(2, "the body is truncated"),)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_chunks_and_slices_are_decoded_as_what_they_show(kind):
    whole = pa.array([long(number) for number in range(100)], kind)
    chunked = pa.chunked_array([whole.slice(3, 0), whole.slice(10, 5), whole.slice(50, 2)])
    result = decode_batch(chunked, schema_of(("c", "long")))
    assert result.table.column("c").to_pylist() == [10, 11, 12, 13, 14, 50, 51]


def test_rows_of_faults_count_over_all_that_was_given():
    count = 20_000
    bodies = [long(number) for number in range(count)]
    bodies[9_000] = b"\x80"
    bodies[19_999] += b"\0"
    result = decode_batch(pa.array(bodies, pa.binary()), schema_of(("c", "long")))
    assert result.faults == (
        Fault(9_000, "the body is truncated"),
        Fault(19_999, "trailing bytes after the body"),
    )
    expected = [number if number not in (9_000, 19_999) else None for number in range(count)]
    assert result.table.column("c").to_pylist() == expected


@pytest.mark.parametrize(
    ("of", "body", "reason"),
    [
        ("long", b"\xff" * 10, "a varint of more than 64 bits"),
        ("int", long(2**31), "an int of more than 32 bits"),
        ("boolean", b"\x02", "a boolean that is neither 0 nor 1"),
        ("string", b"\x02\xff", "a string that is not UTF-8"),
        ("bytes", long(2**40), "a length beyond the end of the body"),
        ("bytes", long(-1), "a length beyond the end of the body"),
        ("double", bytes(7), "the body is truncated"),
        (["null", "int"], b"\x04", "a union branch out of range"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "an enum symbol out of range"),
    ],
)
def test_corrupt_body_is_named_with_its_reason_and_costs_no_neighbour(of, body, reason):
    sound = {"string": b"\x02a", "bytes": b"\x02a", "double": bytes(8)}
    neighbour = sound.get(of, b"\0") if isinstance(of, str) else b"\0"
    bodies = pa.array([neighbour, body, neighbour], pa.binary())
    result = decode_batch(bodies, schema_of(("c", of)))
    assert [fault.row for fault in result.faults] == [1]
    assert reason in result.faults[0].reason
    alone = decode_batch(pa.array([neighbour], pa.binary()), schema_of(("c", of)))
    assert result.table.slice(0, 1).equals(alone.table)
    assert result.table.slice(2, 1).equals(alone.table)


@pytest.mark.parametrize(
    ("of", "body"),
    [
        ({"type": "array", "items": "null"}, long(2**33) + b"\0"),
        ({"type": "array", "items": "long"}, long(2**62)),
        ({"type": "array", "items": "int"}, long(-(2**63)) + b"\0"),
        ({"type": "map", "values": "null"}, long(2**33) + b"\0"),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, long(2) + long(2**33)),
    ],
)
@pytest.mark.parametrize("count", [1, 5_000])
def test_claims_of_countless_items_are_refused_at_once(of, body, count):
    bodies = pa.array([body] * count, pa.binary())
    # Of this process: others may have the processor meanwhile.
    begin = time.process_time()
    result = decode_batch(bodies, schema_of(("c", of)))
    assert time.process_time() - begin < SECONDS_FOR_A_BOMB
    assert len(result.faults) == count


def test_items_of_all_arrays_of_a_body_are_bounded_together():
    of = {"type": "array", "items": {"type": "array", "items": "int"}}
    sound, greedy = [[1, 2, 3]] * 3, [[1, 2, 3]] * 4
    result = decode_batch(
        bodies_of(of, sound, greedy), schema_of(("c", of)), limits=Limits(items=12)
    )
    assert result.faults == (Fault(1, "more than 12 items, or more than its bytes can hold"),)
    assert result.table.column("c").to_pylist() == [sound, None]


def test_record_that_holds_itself_can_be_passed_over_but_not_shown():
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }
    schema = schema_of(("a", "int"), ("tree", node), ("b", "int"))
    bodies = pa.array([b"\x02" + b"\x02" * depth + b"\0\x04" for depth in (0, 3, 5_000)])
    result = decode_batch(bodies, schema, columns=["a", "b"])
    assert result.table.to_pydict() == {"a": [1, 1, None], "b": [2, 2, None]}
    assert result.faults == (Fault(2, "values nested more than 64 deep"),)
    with pytest.raises(InvalidRequestError, match="Node is recursive"):
        decode_batch(bodies, schema)


def test_bodies_that_are_no_bytes_are_refused():
    with pytest.raises(InvalidRequestError, match="bodies must be binary, not string"):
        decode_batch(pa.array(["a"]), schema_of(("c", "long")))


def test_floats_keep_their_bits():
    bits = [0x7FC00001, 0xFF800000, 0x80000000]
    bodies = pa.array([struct.pack("<I", number) for number in bits], pa.binary())
    table = decode_batch(bodies, schema_of(("c", "float"))).table
    assert table.column("c").to_numpy().view(np.uint32).tolist() == bits
