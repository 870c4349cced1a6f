"""Goal: what is read of JSON is what STORE takes, however it is read.

Method: texts of fields that are right, wrong and strange, in batches of any mixture; what becomes
of each is compared with the judgement of that one alone.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import InvalidRequestError
from storage_core.avro import (
    AvroSchema,
    body_starts,
    decode_batch,
    encode_batch,
    object_of,
    verified_starts,
)
from storage_core.avro.json_bodies import json_fields
from storage_core.avro.json_columns import columns_at_once
from typed_events.language.commands import Define
from typed_events.types.event_type import EventType
from typed_events.types.json_events import json_fault, json_schema_of
from typed_events.types.values import columns_of

UUID = "67E55044-10b1-426f-9247-bb680e5fe0c8"
FIELDS: dict[str, Any] = {
    "amount": "int",
    "price": "float | null",
    "note": "string | null",
    "paid": "bool | null",
    "ref": "uuid | null",
    "at": "timestamp | null",
    "day": "date | null",
    "status": ("new", "sent"),
}
ORDER = EventType.from_define(Define("order", None, FIELDS), 1)
SCHEMA = json_schema_of(ORDER)
ZONED = [
    '"2026-01-31T12:00:00+00:00"',
    '"2026-01-31T12:00:00.5-11:30"',
    '"0001-01-01T00:00:00+00:00"',
]
RIGHT = {
    "amount": [
        *("5", "-0", "9223372036854775807", "-9223372036854775808"),
        *("5.0", "-0.0", "1e3", "-2E+2", "9007199254740991.0"),
    ],
    "price": ["1.5", "5", "1e3", "-0", "-0.0", "1e-400", "123456789012345678901", "null"],
    "note": ['"x"', '"\\u0000"', '"\\ud83d\\ude00"', '"ä"', '""', '"\\u00e4\\n"', "null"],
    "paid": ["true", "false", "null"],
    "ref": [f'"{UUID}"', "null"],
    "at": ['"2026-01-31T12:00:00Z"', '"2026-01-31 12:00:00.123456Z"', "null", *ZONED],
    "day": ['"2026-01-31"', '"0001-01-01"', "null"],
    "status": ['"new"', '"sent"'],
}
STRANGE = {
    "amount": [
        *("5.5", "1e-3", "9007199254740992.0", "-9007199254740993.0", "1e18", "1e400", "NaN"),
        *("9223372036854775808", '"5"', "true", "null", "[1]", "{}", "1.", "01"),
    ],
    "price": ["NaN", "Infinity", "-Infinity", "1e400", "9" * 400, "9" * 5000, '"1"', "true", ".5"],
    "note": ["5", "true", '"\\ud800"', '"\\udc00"', '"\n"', "[]", '{"a": 1}', '"', "'x'"],
    "paid": ["0", "1", '"true"', "True"],
    "ref": ['"x"', f'"{UUID}\\n"', f'"{{{UUID}}}"', "5"],
    "at": [
        *("1769860800", "1769860800000", "1769860800000000", "1769860800000000000", "0", "-1"),
        *("1e9", "1769860800.25", "99999999999", "100000000000", "-9223372036854775808"),
        *('"2026-01-31"', '"2026-01-31T12"', '"2026-01-31T12:00"', '"2026-01-31T12:00:00"'),
        *('"2026-01-31T12:00:60Z"', '"2026-01-31T24:00:00Z"', '"2026-02-30T00:00:00Z"'),
        *('"2026-01-31T12:00:00.123456789Z"', '"2026-01-31T12:00:00+02:00"', '"soon"', "true"),
        *('"0000-01-31T12:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '"2026-01-31T12:00:00z"'),
        *('"2026-01-31T12:00:00Z\\n"', '"0001-01-01T00:00:00+01:00"', '"٢026-01-31T12:00:00Z"'),
    ],
    "day": ["1769860800", "-1", '"2026-01-31T00:00"', '"2026-02-30"', '"0000-01-01"', "false"],
    "status": ['"lost"', '"NEW"', "null", "5", '"new "'],
}
# What stands in place of a whole text, or around one.
WHOLES = [
    *(b"", b" ", b"{}", b"[]", b"5", b"null", b"{", b"}", b'{"amount": 1}{"amount": 2}'),
    *(b'{"amount":', b"5}", b"\x00" * 5, b"\x00\x00\x00\x00\x07{}", b'{"amount": 1, "amount": 2}'),
    *(b'{"amount": 5, "status": "new", "no": null}', b'{"amount": 5, "status": "new"}{}'),
    *(
        b'{"amount": 5, "status": "new", "x": ' + b"[" * 100_000,
        b'{"\xff": 1}',
        b'{"s": "}',
        b'{"}',
    ),
    *(b'{"amount": 5, "status": "new"}', b'{"amount": 5, "status": "new", "note": "\xff"}'),
    *(
        b'{"amount": 5, "status": "new", "note": "\xed\xa0\x80"}',
        b'{"\\u0061mount":5,"status":"new"}',
    ),
    b'{"amount": 5, "status": "new"}' * 2,
    *(b'{"amount": 5, "status": "new"\n}', b'{"amount": 5, "status": "new",}'),
]
AROUND = [
    b"%s",
    b"%s",
    b"%s",
    b" %s\n",
    b"\xef\xbb\xbf%s",
    b"%sx",
    b"%s}",
    b"%s\x00",
    b"/**/%s",
    b"%s,",
]


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """One text, mostly right or nearly."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(WHOLES))
    names = draw(st.permutations(list(FIELDS)))
    names = [name for name in names if name in ("amount", "status") or draw(st.booleans())]
    members = []
    for name in names:
        pool = STRANGE if draw(st.integers(0, 15)) == 0 else RIGHT
        members.append(f'"{name}": {draw(st.sampled_from(pool[name]))}')
    if draw(st.integers(0, 30)) == 0:
        members += draw(st.sampled_from([['"other": 1'], members[:1], ['"": null']]))
    around = draw(st.sampled_from(AROUND)) if draw(st.integers(0, 15)) == 0 else b"%s"
    return around.replace(b"%s", ("{" + ", ".join(members) + "}").encode())


def judged(values: Sequence[bytes | None]) -> list[dict[str, Any] | None]:
    """Return the fields of each text as STORE takes it; None of those that it refuses."""
    return [None if text is None else judged_alone(text) for text in values]


# Many tests have the same texts by the thousand.
@lru_cache(maxsize=4096)
def judged_alone(text: bytes) -> dict[str, Any] | None:
    if json_fault(ORDER, text) is not None:
        return None
    (row,) = columns_of(ORDER, [object_of(text)]).to_pylist()
    return row


def read(values: Sequence[bytes | None]) -> list[dict[str, Any] | None]:
    decoded = decode_batch(pa.array(values, pa.binary()), SCHEMA)
    rows = decoded.table.to_pylist()
    faults = {fault.row for fault in decoded.faults}
    for place, text in enumerate(values):
        assert text is not None or place not in faults
        if text is None or place in faults:
            assert set(rows[place].values()) == {None}
    return [
        None if text is None or place in faults else rows[place]
        for place, text in enumerate(values)
    ]


@given(st.lists(texts() | st.none(), max_size=60))
def test_what_is_read_is_what_store_takes(values):
    assert read(values) == judged(values)


@pytest.mark.parametrize("field", list(FIELDS))
def test_each_strange_value_is_read_as_store_takes_it_alone_and_beside_others(field):
    plain = {"amount": "5", "status": '"new"'}
    sound = b'{"amount": 5, "status": "new"}'
    for written in [*RIGHT[field], *STRANGE[field]]:
        members = {**plain, field: written}
        text = (
            "{" + ", ".join(f'"{name}": {value}' for name, value in members.items()) + "}"
        ).encode()
        values = [text, sound, text]
        assert read(values) == judged(values), written
        assert read([text] * 40) == judged([text] * 40), written


@pytest.mark.parametrize("whole", WHOLES)
def test_what_is_no_object_costs_no_neighbour(whole):
    sound = b'{"amount": 5, "status": "new"}'
    values = [*[sound] * 50, whole, *[sound] * 50]
    assert read(values) == judged(values)


@pytest.mark.parametrize("every", [3, 150, 900])
@pytest.mark.parametrize(
    "hindering",
    [
        b'{"amount": 5',
        b'{"amount": "5", "status": "new"}',
        b'{"amount": 5.0, "status": "new"}',
        b'{"amount": 5.5, "status": "new"}',
        b'{"amount": 5, "status": "lost"}',
        b'{"amount": 5, "status": "new", "at": 1769860800}',
        b'{"amount": 5, "status": "new", "price": NaN}',
        b'{"amount": 5, "status": "new"}{"amount": 6, "status": "new"}',
        b'{"status": "new"}',
        None,
    ],
)
def test_what_hinders_many_is_set_aside_and_they_stay_what_they_are(hindering, every):
    sound = b'{"amount": %d, "status": "new", "at": "2026-01-31T12:00:%02dZ"}'
    values: list[bytes | None] = [sound % (number, number % 60) for number in range(1100)]
    values[1::every] = [hindering] * len(values[1::every])
    assert read(values) == judged(values)


@pytest.mark.parametrize("field", ["at", "day"])
def test_times_of_a_form_that_programs_write_are_read_by_columns(field):
    texts_of = {"at": ['"2026-01-31T12:00:00.5Z"', *ZONED[:2]], "day": ['"2026-01-31"']}
    for written in [*texts_of[field], "1769860800"]:
        line = f'{{"amount": 5, "status": "new", "{field}": {written}}}\n'.encode()
        read = columns_at_once(line * 3, 3, json_fields(SCHEMA), SCHEMA.arrow_schema())
        assert isinstance(read, list)


@pytest.mark.parametrize("written", [("5.0", "5"), ("5", "1e3"), ("-0.0", "5", "2.0")])
def test_integers_that_are_written_as_doubles_are_read_by_columns(written):
    lines = "".join(f'{{"amount": {one}, "status": "new"}}\n' for one in written)
    fields, types = json_fields(SCHEMA), SCHEMA.arrow_schema()
    read = columns_at_once(lines.encode(), len(written), fields, types)
    assert isinstance(read, list)
    assert read[types.get_field_index("amount")].to_pylist() == [int(float(n)) for n in written]


def test_a_registrys_frame_before_a_text_is_passed_over():
    text = b'{"amount": 5, "status": "new"}'
    values = pa.array([text, b"\x00\x00\x00\x00\x07" + text, b"\x01" + b"g" * 16 + text, None])
    starts = verified_starts(SCHEMA, 1, values, body_starts(values))
    assert starts.tolist() == [0, 5, 17, 0]
    decoded = decode_batch(values, SCHEMA, columns=["amount"], starts=starts)
    assert decoded.faults == ()
    assert decoded.table.column("amount").to_pylist() == [5, 5, 5, None]


def test_texts_are_read_by_another_version_of_the_type():
    wider = {**FIELDS, "amount": "float", "gift": "bool | null"}
    del wider["note"]
    reader = json_schema_of(EventType.from_define(Define("order", None, wider), 2))
    values = pa.array([b'{"amount": 5, "status": "new", "note": "x"}', None, b"{}"], pa.binary())
    decoded = decode_batch(values, SCHEMA, reader=reader)
    assert [fault.row for fault in decoded.faults] == [2]
    assert decoded.table.column("amount").to_pylist() == [5.0, None, None]
    assert decoded.table.column("gift").to_pylist() == [None] * 3
    assert "note" not in decoded.table.column_names


def test_slices_and_chunks_are_read_as_whole_columns_are():
    texts_of = [b'{"amount": %d, "status": "new"}' % number for number in range(40)]
    whole = pa.array(texts_of, pa.binary())
    sliced = whole.slice(7, 20)
    chunked = pa.chunked_array([whole.slice(0, 5), whole.slice(5, 0), whole.slice(30)])
    for bodies in (sliced, chunked, sliced.cast(pa.large_binary()), whole.slice(3, 0)):
        amounts = decode_batch(bodies, SCHEMA).table.column("amount").to_pylist()
        assert amounts == [object_of(text or b"")["amount"] for text in bodies.to_pylist()]


def test_nothing_is_encoded_as_json():
    with pytest.raises(InvalidRequestError, match="are JSON"):
        encode_batch(pa.table({"amount": [5], "status": ["new"]}), SCHEMA)


def test_a_schema_with_types_that_no_json_is_read_as_is_refused():
    text = (
        '{"type": "record", "name": "r", "shardlog.bodies": "json", "fields": '
        '[{"name": "data", "type": "bytes"}]}'
    )
    with pytest.raises(InvalidRequestError, match="field data of r has a type"):
        decode_batch(pa.array([b"{}"]), AvroSchema.parse(text), starts=np.zeros(1, np.int64))


def test_reasons_name_the_field():
    reasons = {
        b'{"amount": true}': 'field "amount": true is no int; write an integer, such as 5',
        b'{"amount": 5, "amount": 6}': 'field "amount": is there twice',
        b'{"amount": 5, "status": "new"} x': "no JSON at character 31: Extra data",
        b"": "no JSON: it is empty",
        b"[1]": "no object of fields",
        b'{"amount": NaN}': "NaN is no JSON",
        b"\xff": "no UTF-8 at byte 0",
    }
    assert {text: json_fault(ORDER, text) for text in reasons} == reasons
