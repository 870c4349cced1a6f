"""Primaries and ids come out of Avro values; what has none is a dead letter, alone."""

import datetime as dt
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.dlq.record import decode_dead_letter, reason_word
from connectors.ingest.mapping import join_records
from connectors.ingest.values.avro_values import mapping_problem
from connectors.kafka.terms import NULL_KEY_ID
from connectors.settings.stream_settings import MappingRules
from storage_core import KEY_BYTES_MAX
from storage_core.avro import AvroSchema
from tests.unit.connectors.framed import framed, mapped, name_of, record_schema, writers
from tests.unit.connectors.records import record

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=dt.UTC)
NOON_MS = 1_767_355_200_005
PLAIN = record_schema(("at", "long"), ("device", "int"))


def column(records, name):
    return records.rows.column(name).to_pylist()


def reasons(records):
    return [decode_dead_letter(raw).reason for raw in records.dead_letters.values()]


def words(records):
    return [reason_word(raw) for raw in records.dead_letters.values()]


def of_kind(kind, value, **rules):
    """Return what becomes of one value with a field `at` of a type."""
    text = record_schema(("more", "string"), ("at", kind))
    message = record(0, value=framed(7, text, {"more": "x", "at": value}))
    return mapped([message], writers(id_7=text), primary="field:at", key_mode="none", **rules)


@pytest.mark.parametrize(
    ("kind", "value", "unit", "primary"),
    [
        (MILLIS, NOON, "ms", NOON_MS),
        (MILLIS, NOON, "us", NOON_MS * 1000),
        (MILLIS, NOON, "s", NOON_MS // 1000),
        (MILLIS, NOON, "ns", NOON_MS * 10**6),
        (MICROS, NOON, "ms", NOON_MS),
        (MICROS, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), "ms", -1),
        (DATE, dt.date(1970, 1, 3), "ms", 2 * 86_400_000),
        (DATE, dt.date(1970, 1, 3), "s", 2 * 86_400),
        ("long", 2**40, "us", 2**40),
        ("int", -5, "ms", -5),
        (["null", MILLIS], NOON, "ms", NOON_MS),
        ("long", 9, "sequence", 9),
    ],
)
def test_time_or_number_becomes_the_primary_in_the_streams_unit(kind, value, unit, primary):
    assert column(of_kind(kind, value, unit=unit), "primary") == [primary]


def test_null_primary_is_a_dead_letter():
    records = of_kind(["null", "long"], None)
    assert (reasons(records), words(records)) == (["mapping: field at is null"], ["mapping"])


def test_time_beyond_the_streams_unit_is_a_dead_letter():
    text = record_schema(("at", MILLIS))
    sound = framed(7, text, {"at": 5})
    far = framed(7, text, {"at": 2**62})
    records = mapped(
        [record(0, value=far), record(1, value=sound)],
        writers(id_7=text),
        primary="field:at",
        key_mode="none",
        unit="ns",
    )
    assert reasons(records) == [f"mapping: field at is {2**62}, beyond any ns"]
    assert column(records, "primary") == [5_000_000]


def test_id_comes_from_a_field_and_the_key_is_carried():
    message = record(3, key=b"any", value=framed(7, PLAIN, {"at": 1, "device": 42}))
    records = mapped([message], writers(id_7=PLAIN), secondary="field:device", key_mode="none")
    assert (column(records, "secondary"), column(records, "key")) == ([42], [b"any"])
    assert column(records, "primary") == [1003]


@pytest.mark.parametrize(("value", "fits"), [(2**31 - 1, True), (-(2**31), True), (2**31, False)])
def test_long_id_has_to_fit_32_bits(value, fits):
    text = record_schema(("device", "long"))
    message = record(0, value=framed(7, text, {"device": value}))
    records = mapped([message], writers(id_7=text), secondary="field:device", key_mode="none")
    assert column(records, "secondary") == ([value] if fits else [])
    assert reasons(records) == (
        [] if fits else [f"mapping: field device is {value}; an id fits 32 bits"]
    )


@pytest.mark.parametrize(("kind", "value"), [("string", "dä"), ("bytes", b"d\xff")])
def test_text_and_bytes_become_the_rows_key(kind, value):
    text = record_schema(("device", kind))
    messages = [
        record(0, key=b"own", value=framed(7, text, {"device": value})),
        record(1, key=b"own", value=None),
        record(2, key=b"own", value=framed(7, text, {"device": value * 40_000})),
    ]
    records = mapped(messages, writers(id_7=text), secondary="field:device", key_mode="dictionary")
    as_bytes = value.encode() if isinstance(value, str) else value
    assert column(records, "key") == [as_bytes, None]
    assert column(records, "secondary") == [None, None]
    (letter,) = map(decode_dead_letter, records.dead_letters.values())
    assert letter.key == b"own"
    assert letter.reason.endswith(f"a key has {KEY_BYTES_MAX} at most")


@pytest.mark.parametrize("null_key", ["keep", "dead-letter"])
def test_null_id_is_as_a_record_without_a_key(null_key):
    text = record_schema(("device", ["null", "int"]))
    messages = [record(0, value=framed(7, text, {"device": None})), record(1, value=None)]
    rules = {"secondary": "field:device", "key_mode": "none", "null_key": null_key}
    records = mapped(messages, writers(id_7=text), **rules)
    assert column(records, "secondary") == ([NULL_KEY_ID] * 2 if null_key == "keep" else [])
    assert words(records) == ([] if null_key == "keep" else ["mapping"] * 2)


def test_tombstone_has_the_records_time_and_no_schema():
    messages = [record(0, value=None), record(1, value=framed(7, PLAIN, {"at": 9, "device": 1}))]
    records = mapped(messages, writers(id_7=PLAIN), primary="field:at", unit="us")
    assert column(records, "primary") == [1_000_000, 9]
    assert column(records, "schema") == [None, 0]


def test_tombstone_of_a_sequence_has_no_place_in_it():
    records = mapped([record(0, value=None)], {}, primary="field:at", unit="sequence")
    assert reasons(records) == ["mapping: a tombstone has no field at, nor a timestamp instead"]


def test_schemas_may_change_from_record_to_record():
    older = record_schema(("at", "int"))
    newer = record_schema(("device", "int"), ("at", "long"))
    values = [
        framed(7, older, {"at": 1}),
        framed(9, newer, {"device": 5, "at": 2}),
        framed(7, older, {"at": 3}),
    ]
    messages = [record(index, value=value) for index, value in enumerate(values)]
    records = mapped(messages, writers(id_7=older, id_9=newer), primary="field:at", key_mode="none")
    assert column(records, "primary") == [1, 2, 3]
    assert column(records, "schema") == [0, 1, 0]
    assert {number: each.registry_id for number, each in records.schemas.items()} == {0: 7, 1: 9}


def test_value_that_is_not_its_schemas_costs_no_neighbour():
    sound = framed(7, PLAIN, {"at": 5, "device": 6})
    values = [sound, sound[:-1], sound + b"!", b"{}", name_of(8), sound]
    messages = [record(index, value=value) for index, value in enumerate(values)]
    answers = {**writers(id_7=PLAIN), name_of(8): "schema id 8: the registry has none"}
    records = mapped(messages, answers, primary="field:at", key_mode="none")
    assert (records.offsets.tolist(), column(records, "primary")) == ([0, 5], [5, 5])
    assert words(records) == ["body", "body", "framing", "unknown_schema"]
    assert [decode_dead_letter(raw).value for raw in records.dead_letters.values()] == values[1:5]


def test_body_is_proven_though_no_field_of_it_is_mapped():
    messages = [record(0, value=framed(7, PLAIN, {"at": 5, "device": 6})[:-1]), record(1)]
    assert words(mapped(messages, writers(id_7=PLAIN))) == ["body", "framing"]


def test_schema_without_the_field_has_only_dead_letters():
    other = record_schema(("time", "long"))
    messages = [
        record(0, value=framed(7, PLAIN, {"at": 5, "device": 6})),
        record(1, value=framed(9, other, {"time": 5})),
    ]
    records = mapped(messages, writers(id_7=PLAIN, id_9=other), primary="field:at", key_mode="none")
    assert column(records, "primary") == [5]
    assert reasons(records) == ["mapping: Reading has no field at; it has time"]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"primary": "field:when"}, "Reading has no field when; it has at, name, many"),
        ({"primary": "field:name"}, "field name of Reading is string; a primary is a timestamp"),
        ({"secondary": "field:many"}, "field many of Reading is list<item: int32>; an id is"),
        ({"secondary": "field:name", "key_mode": "none"}, 'string or bytes with key_mode = "dict'),
        ({"secondary": "field:at", "key_mode": "dictionary"}, "field at of Reading is int64"),
    ],
)
def test_schema_that_cannot_be_mapped_is_refused_by_its_field(rules, complaint):
    many = {"type": "array", "items": "int"}
    schema = AvroSchema.parse(record_schema(("at", "long"), ("name", "string"), ("many", many)))
    assert complaint in (mapping_problem(schema, MappingRules(value_format="avro", **rules)) or "")


def test_parts_of_a_partition_keep_their_schemas_when_they_are_joined():
    older, newer = record_schema(("at", "int")), record_schema(("at", "long"))
    answers = writers(id_7=older, id_9=newer)
    parts = [
        mapped(
            [record(index, value=framed(number, text, {"at": index}))], answers, primary="field:at"
        )
        for index, (number, text) in enumerate([(7, older), (9, newer)])
    ]
    joined = join_records(parts)
    assert column(joined, "schema") == [0, 1]
    assert sorted(joined.schemas) == [0, 1]


MUTATIONS = st.sampled_from(["cut", "flip", "grow", "frame"])


@given(st.lists(st.tuples(st.integers(0, 2**40), MUTATIONS | st.none(), st.integers(0, 2**16))))
def test_each_record_is_a_row_or_a_dead_letter_whatever_became_of_its_bytes(given_records):
    values = []
    for index, (primary, mutation, chance) in enumerate(given_records):
        value = bytearray(framed(7, PLAIN, {"at": primary, "device": index}))
        if mutation == "cut":
            del value[chance % len(value) :]
        elif mutation == "flip":
            value[chance % len(value)] ^= 1 << chance % 8
        elif mutation == "grow":
            value += b"x" * (chance % 5)
        elif mutation == "frame":
            value[0] = chance % 256
        values.append(bytes(value))
    messages = [record(index, value=value) for index, value in enumerate(values)]
    if not messages:
        return
    answers = writers(id_7=PLAIN)
    requested = {value[:5] for value in values if value[:1] == b"\x00" and len(value) > 4}
    requested |= {value[:17] for value in values if value[:1] == b"\x01" and len(value) > 16}
    answers |= dict.fromkeys(requested - answers.keys(), "schema: nobody knows it")
    records = mapped(messages, answers, primary="field:at", key_mode="none")
    counts = Counter([*records.offsets.tolist(), *records.dead_letters])
    assert counts == Counter(range(len(values)))
    sound = {index for index, (_, mutation, _) in enumerate(given_records) if mutation is None}
    assert sound <= set(records.offsets.tolist())
    assert column(records, "payload") == [values[index] for index in records.offsets]
