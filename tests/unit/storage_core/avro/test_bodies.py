"""Columns become bodies: every type, what is missing, and what does not fit named by its row."""

import json
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, Limits, decode_batch, encode_batch
from tests.unit.storage_core.avro.written_columns import check_against_fastavro

NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "next", "type": ["null", "Node"], "default": None},
    ],
}
KIND = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
PAIR = {"type": "record", "name": "Pair", "fields": [{"name": "x", "type": "int"}]}


def schema_of(**fields):
    """Return a schema of some fields; a pair of a type and a default has that one."""
    listed = [
        {"name": name, "type": of[0], "default": of[1]}
        if isinstance(of, tuple)
        else {"name": name, "type": of}
        for name, of in fields.items()
    ]
    return AvroSchema.parse(json.dumps({"type": "record", "name": "Root", "fields": listed}))


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def encoded(of, values, kind=None):
    """Return the bodies of values of one type."""
    return encode_batch(pa.table({"c": pa.array(values, kind)}), schema_of(c=of))


def read_back(of, values, kind=None):
    """Return what is read of values that were written."""
    result = decode_batch(encoded(of, values, kind), schema_of(c=of))
    assert result.faults == ()
    return result.table.column("c").to_pylist()


def test_random_schemas_are_written_as_fastavro_writes_them():
    assert sum(check_against_fastavro(seed) for seed in range(60))


def test_more_rows_than_are_written_at_once_keep_their_order():
    numbers = np.arange(40_000)
    rows = pa.table({"c": pa.chunked_array([numbers[:7], numbers[7:]])})
    made = encode_batch(rows, schema_of(c="long"))
    assert decode_batch(made, schema_of(c="long")).table.equals(rows)


def test_no_rows_are_no_bodies_and_wrong_columns_are_refused_all_the_same():
    assert len(encoded("long", [], pa.int32())) == 0
    with pytest.raises(InvalidRequestError, match="field c is string, and the schema has long"):
        encoded("long", [], pa.string())


def test_rows_that_are_not_there_are_null():
    rows = pa.table({"c": pa.array([None, 1, None, 2])})
    valid = np.array([False, True, False, True])
    made = encode_batch(rows, schema_of(c="long"), valid=valid, frame=b"xx")
    assert made.to_pylist() == [None, b"xx\x02", None, b"xx\x04"]
    valid[2] = True
    with pytest.raises(InvalidRequestError, match="row 2: field c is null"):
        encode_batch(rows, schema_of(c="long"), valid=valid)


def test_schema_that_is_no_record_is_the_column_value():
    schema = AvroSchema.parse('["null", "string"]')
    made = encode_batch(pa.table({"value": ["a", None]}), schema, frame=b"f")
    assert made.to_pylist() == [b"f\x02\x02a", b"f\x00"]


def test_record_without_fields_is_no_byte():
    rows = pa.table({"c": pa.array([{}, {}], pa.struct([]))})
    empty = {"type": "record", "name": "E", "fields": []}
    assert encode_batch(rows, schema_of(c=empty)).to_pylist() == [b"", b""]


# --- what is missing ---------------------------------------------------------------------------


def test_field_without_column_has_its_default_or_is_null():
    schema = schema_of(
        n="int",
        s=("string", "none"),
        u=["null", "long"],
        first=(["long", "null"], 5),
        bits=("bytes", "\u00ff"),
        kind=(KIND, "B"),
        money=(logical("bytes", "decimal", precision=4, scale=2), "\u0001\u0000"),
        many=({"type": "array", "items": "int"}, [1, 2]),
        named=({"type": "map", "values": PAIR}, {"k": {"x": 7}}),
        chosen=(["string", "int"], "a"),
    )
    made = encode_batch(pa.table({"n": pa.array([1, 2], pa.int32())}), schema)
    (_, row) = decode_batch(made, schema).table.to_pylist()
    assert row == {
        "n": 2,
        "s": "none",
        "u": None,
        "first": 5,
        "bits": b"\xff",
        "kind": "B",
        "money": Decimal("2.56"),
        "many": [1, 2],
        "named": [("k", {"x": 7})],
        "chosen": {"member0": "a", "member1": None},
    }


def test_field_of_a_record_that_holds_itself_may_be_missing():
    made = encode_batch(
        pa.table({"n": pa.array([1], pa.int32())}), AvroSchema.parse(json.dumps(NODE))
    )
    assert made.to_pylist() == [b"\x02\x00"]


def test_field_of_an_inner_record_may_be_missing():
    inner = {
        "type": "record",
        "name": "I",
        "fields": [PAIR["fields"][0], {"name": "y", "type": "int", "default": 9}],
    }
    assert read_back(inner, [{"x": 1}], pa.struct([("x", pa.int64())])) == [{"x": 1, "y": 9}]


def test_field_without_default_and_column_of_no_field_are_refused():
    with pytest.raises(InvalidRequestError, match="field b has no column and no default"):
        encode_batch(pa.table({"a": [1]}), schema_of(a="int", b="int"))
    with pytest.raises(InvalidRequestError, match="has no field x, y; there are a"):
        encode_batch(pa.table({"a": [1], "x": [1], "y": [1]}), schema_of(a="int"))
    with pytest.raises(InvalidRequestError, match="field c has no field z; there are x"):
        encoded(PAIR, [{"x": 1, "z": 2}])
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidRequestError, match="is repeated"):
        encode_batch(twice, schema_of(a="int"))


# --- what a column may be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "values", "kind", "expected"),
    [
        ("int", [7, -1], pa.int8(), [7, -1]),
        ("long", [2**63 - 1], pa.uint64(), [2**63 - 1]),
        ("float", [0.5, float("inf")], pa.float64(), [0.5, float("inf")]),
        ("float", [3], pa.int32(), [3.0]),
        ("double", [0.1], pa.float64(), [0.1]),
        ("double", [2**53], pa.int64(), [2.0**53]),
        ("string", ["é", ""], pa.large_string(), ["é", ""]),
        ("string", ["é"], pa.string_view(), ["é"]),
        ("string", ["é".encode()], pa.binary(), ["é"]),
        ("string", ["a", "b", "a"], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
        ("bytes", ["é"], pa.string(), ["é".encode()]),
        ("bytes", [b"ab"], pa.binary(2), [b"ab"]),
        (KIND, ["B", "A"], pa.dictionary(pa.int32(), pa.string()), ["B", "A"]),
        ({"type": "fixed", "name": "F", "size": 2}, [b"ab"], pa.binary(2), [b"ab"]),
        ({"type": "fixed", "name": "F", "size": 2}, [b"ab"], pa.binary_view(), [b"ab"]),
        ({"type": "array", "items": "int"}, [[1], []], pa.large_list(pa.int64()), [[1], []]),
        ({"type": "array", "items": "int"}, [[1, 2]], pa.list_(pa.int32(), 2), [[1, 2]]),
        (logical("int", "date"), [date(1969, 1, 1)], pa.date64(), [date(1969, 1, 1)]),
        (logical("int", "date"), [1], pa.int64(), [date(1970, 1, 2)]),
        (logical("int", "time-millis"), [time(1)], pa.time64("us"), [time(1)]),
        (logical("int", "time-millis"), [5000], pa.int64(), [time(0, 0, 5)]),
        (logical("long", "time-micros"), [time(1)], pa.time64("ns"), [time(1)]),
        (logical("long", "local-timestamp-millis"), [7], pa.timestamp("us"), None),
        (logical("bytes", "decimal", precision=4, scale=2), [12], pa.int64(), [Decimal("12.00")]),
        (
            logical("bytes", "decimal", precision=40, scale=2),
            [Decimal("-1.2")],
            pa.decimal128(5, 1),
            [Decimal("-1.20")],
        ),
        (
            logical("bytes", "decimal", precision=40, scale=2),
            ["-1.20", "1e3"],
            pa.string(),
            [Decimal("-1.20"), Decimal("1000.00")],
        ),
        (["null", "int", "long"], [1, None, 2**40], pa.int64(), [1, None, 2**40]),
        (["float", "double"], [0.5, 0.1], pa.float64(), [0.5, 0.1]),
        (["null"], [None], pa.int64(), [None]),
        ("null", [None], pa.string(), [None]),
        (["null", "string"], [None, None], pa.null(), [None, None]),
    ],
)
def test_column_that_says_the_same_is_taken(of, values, kind, expected):
    if expected is None:
        values, expected = [datetime(2024, 1, 1)], [datetime(2024, 1, 1)]  # noqa: DTZ001 - a local one
    assert read_back(of, values, kind) == expected


@pytest.mark.parametrize(
    ("of", "value", "kind", "why"),
    [
        ("int", 2**31, pa.int64(), "is 2147483648, not int"),
        ("long", 2**63, pa.uint64(), "not long"),
        ("float", 0.1, pa.float64(), "is 0.1, not float"),
        ("float", 1e300, pa.float64(), "not float"),
        ("double", 2**53 + 1, pa.int64(), "not double"),
        ("string", b"\xff", pa.binary(), "not string"),
        (KIND, "C", pa.string(), "is 'C', and enum Kind has A, B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", pa.binary(), "not fixed F of 2 bytes"),
        (logical("int", "time-millis"), 86_400_000, pa.int32(), "not time-millis"),
        (logical("long", "timestamp-millis"), 1, pa.timestamp("us", "UTC"), "not timestamp-millis"),
        (logical("long", "timestamp-nanos"), 2**60, pa.timestamp("us", "UTC"), "not timestamp-nan"),
        (logical("bytes", "decimal", precision=3, scale=1), 100, pa.int32(), "not decimal.3, 1."),
        (
            logical("bytes", "decimal", precision=9, scale=1),
            Decimal("1.25"),
            pa.decimal128(5, 2),
            "not decimal.9, 1.",
        ),
        (logical("bytes", "decimal", precision=40), "1.5", pa.string(), "not decimal.40, 0."),
        (logical("bytes", "decimal", precision=40), "one", pa.string(), "not decimal.40, 0."),
        ("int", None, pa.int32(), "is null, and the schema does not allow null"),
        (PAIR, None, pa.struct([("x", pa.int32())]), "is null, and the schema does not allow null"),
        ("null", 1, pa.int32(), "is a value, and the schema has null"),
        (["null"], 1, pa.int32(), "is a value, and the schema has null"),
        (["string", "int"], None, pa.string(), "is null, and the schema does not allow null"),
    ],
)
def test_value_that_would_be_another_is_named_with_its_row(of, value, kind, why):
    wrong = pa.array([value], kind)
    good = _fitting(of, kind)
    column = pa.concat_arrays([wrong, *[good] * 3, wrong]).slice(1)
    row = len(column) - 1
    with pytest.raises(InvalidRequestError, match=f"row {row}: field c .*{why}"):
        encode_batch(pa.table({"c": column}), schema_of(c=of))


def _fitting(of, kind):
    """Return a value of a column's type that may be written; none where there is none."""
    for value in (0, "A", b"ab", {"x": 1}, Decimal(0), 0.0):
        try:
            column = pa.array([value], kind)
            encode_batch(pa.table({"c": column}), schema_of(c=of))
        except (InvalidRequestError, pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError):
            continue
        return column
    return pa.array([], kind)


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        ("int", pa.float64()),
        ("int", pa.bool_()),
        ("boolean", pa.int8()),
        ("string", pa.int32()),
        ("double", pa.string()),
        (logical("long", "timestamp-micros"), pa.timestamp("us")),
        (logical("long", "local-timestamp-micros"), pa.timestamp("us", "UTC")),
        (logical("int", "date"), pa.timestamp("us")),
        (logical("bytes", "decimal", precision=4), pa.float64()),
        (logical("bytes", "decimal", precision=4), pa.string()),
        (KIND, pa.binary()),
        ({"type": "array", "items": "int"}, pa.int32()),
        ({"type": "map", "values": "int"}, pa.list_(pa.int32())),
        (PAIR, pa.int32()),
        (["null", "string"], pa.int32()),
        (["int", "long"], pa.string()),
        (["null", PAIR, "int"], pa.string()),
    ],
)
def test_column_of_another_type_is_refused_even_without_rows(of, kind):
    with pytest.raises(InvalidRequestError, match=r"field c is .*, and the schema has"):
        encoded(of, [], kind)


def test_item_that_does_not_fit_is_named_with_the_row_that_it_is_in():
    lists = {"type": "array", "items": {"type": "array", "items": "int"}}
    with pytest.raises(InvalidRequestError, match="row 2: field c is null"):
        encoded(lists, [[[1, 2], []], [], [[3], [4, None]]], pa.list_(pa.list_(pa.int32())))
    named = {"type": "map", "values": ["null", {**PAIR, "name": "P2"}]}
    rows = [[("a", {"x": 1})], [], None, [("b", None), ("c", {"x": None})]]
    kind = pa.map_(pa.string(), pa.struct([("x", pa.int32())]))
    with pytest.raises(InvalidRequestError, match=r"row 3: field c.x is null"):
        encoded(["null", named], rows, kind)


# --- unions ------------------------------------------------------------------------------------


def test_two_members_at_once_are_refused():
    kind = pa.struct([("member0", pa.string()), ("member1", pa.int32())])
    with pytest.raises(InvalidRequestError, match="row 1: field c has two members of a union"):
        encoded(["string", "int"], [{"member0": "a"}, {"member0": "a", "member1": 1}], kind)


@pytest.mark.parametrize(
    ("kind", "value", "body"),
    [
        (pa.int32(), 3, b"\x02\x06"),
        (pa.string(), "a", b"\x00\x02a"),
        (pa.large_string(), "a", b"\x00\x02a"),
        (pa.struct([("x", pa.int64())]), {"x": 1}, b"\x06\x02"),
    ],
)
def test_column_that_one_branch_alone_takes_is_that_branch(kind, value, body):
    of = ["string", "int", "null", PAIR]
    assert encoded(of, [value, None], kind).to_pylist() == [body, b"\x04"]


def test_column_that_several_branches_take_needs_members():
    with pytest.raises(InvalidRequestError, match="give a struct of member0: string, member1: byt"):
        encoded(["string", "bytes"], ["a"], pa.large_string())


def test_number_takes_the_first_width_that_holds_it():
    assert encoded(["int", "long"], [1, 2**31]).to_pylist()[0] == b"\x00\x02"
    assert encoded(["int", "long"], [1, 2**31]).to_pylist()[1][:1] == b"\x02"
    assert encoded(["long", "int"], [1]).to_pylist() == [b"\x00\x02"]
    made = encoded(["null", "float", "double"], [0.5, 1e300, float("nan"), None]).to_pylist()
    assert [(body[:1], len(body)) for body in made] == [
        (b"\x02", 5),
        (b"\x04", 9),
        (b"\x02", 5),
        (b"\x00", 1),
    ]


# --- what a reader would refuse ----------------------------------------------------------------


def test_row_of_more_items_than_a_reader_takes_is_refused():
    nulls = {"type": "array", "items": "null"}
    fine = Limits().items
    assert len(encoded(nulls, [[None] * 200, [None] * 256])) == 2
    with pytest.raises(InvalidRequestError, match="row 1: has 300 items"):
        encoded(nulls, [[None] * 200, [None] * 300])
    with pytest.raises(InvalidRequestError, match="row 1: has 300 items"):
        encoded({"type": "array", "items": nulls}, [[[None]], [[None] * 100, [None] * 198]])
    many = pa.ListArray.from_arrays(
        pa.array([0, fine + 1], pa.int32()), pa.array(np.zeros(fine + 1, np.int32))
    )
    with pytest.raises(InvalidRequestError, match=f"row 0: has {fine + 1} items"):
        encode_batch(pa.table({"c": many}), schema_of(c={"type": "array", "items": "int"}))


def test_bytes_under_nulls_leave_no_trace():
    strings = pa.array(["ab", "cd", "ef"])
    masked = pa.Array.from_buffers(
        pa.string(), 3, [pa.array([True, False, True]).buffers()[1], *strings.buffers()[1:]]
    )
    assert encode_batch(pa.table({"c": masked}), schema_of(c=["null", "string"])).to_pylist() == [
        b"\x02\x04ab",
        b"\x00",
        b"\x02\x04ef",
    ]
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), pa.array([1, 2, 3]), mask=pa.array([False, True])
    )
    of = ["null", {"type": "array", "items": "int"}]
    assert encode_batch(pa.table({"c": lists}), schema_of(c=of)).to_pylist() == [
        b"\x02\x02\x02\x00",
        b"\x00",
    ]
