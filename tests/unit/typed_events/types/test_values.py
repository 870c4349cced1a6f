"""Payloads become columns and bodies, or the first that cannot is named with its field."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.avro import body_starts, decode_batch
from typed_events.language.commands import Define
from typed_events.types import (
    EventType,
    PayloadError,
    bodies_of,
    columns_of,
    fault_of,
    next_version,
)

# By field; no field may be called timestamp.
KINDS = {
    **{kind: kind for kind in ("int", "float", "string", "bool", "uuid", "date")},
    "at": "timestamp",
}
UUID = "67e55044-10b1-426f-9247-bb680e5fe0c8"
RIGHT: dict[str, Any] = {
    "int": 5,
    "float": 1.5,
    "string": "é",
    "bool": True,
    "uuid": UUID,
    "at": "2024-05-17T09:30:00Z",
    "date": "2024-05-17",
    "enum": "open",
}


def type_of(**fields: str | tuple[str, ...]) -> EventType:
    """Return a type of fields."""
    return next_version(Define("orders", None, fields), [])


ALL = type_of(**KINDS, enum=("open", "paid"))
NULLABLE = type_of(**{name: f"{kind} | null" for name, kind in KINDS.items()})


def refusal(event_type: EventType, *payloads: dict[str, Any]) -> PayloadError:
    """Return what refuses payloads."""
    with pytest.raises(PayloadError) as refused:
        bodies_of(event_type, payloads)
    assert str(refused.value).isprintable()
    return refused.value


def reason(field: str, value: object) -> str:
    """Return why a value is refused."""
    return refusal(ALL, {**RIGHT, field: value}).reason


def test_payloads_are_typed_columns() -> None:
    assert columns_of(ALL, [RIGHT]).to_pylist() == [
        {
            **RIGHT,
            "at": datetime(2024, 5, 17, 9, 30, tzinfo=UTC),
            "date": date(2024, 5, 17),
        }
    ]


def test_bodies_are_read_back_as_what_was_stored() -> None:
    for event_type, payloads in (
        (ALL, [RIGHT, {**RIGHT, "int": -(2**63), "float": 7, "enum": "paid"}]),
        (NULLABLE, [{}, {key: RIGHT[key] for key in KINDS}, dict.fromkeys(KINDS)]),
    ):
        bodies = bodies_of(event_type, payloads)
        decoded = decode_batch(bodies, event_type.schema, starts=body_starts(bodies))
        assert not decoded.faults
        assert decoded.table.to_pylist() == columns_of(event_type, payloads).to_pylist()


def test_body_says_which_schema_it_has() -> None:
    (body,) = bodies_of(ALL, [RIGHT]).to_pylist()
    assert body is not None
    assert body[:10] == b"\xc3\x01" + ALL.schema.fingerprint


def test_values_are_kept_in_one_form() -> None:
    written = {"uuid": UUID.upper(), "float": 2**60, "at": 1_715_938_200, "date": 1_715_938_200}
    (row,) = columns_of(ALL, [{**RIGHT, **written}]).to_pylist()
    assert (row["uuid"], row["float"], row["date"]) == (UUID, float(2**60), date(2024, 5, 17))
    assert row["at"] == datetime(2024, 5, 17, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("int", 1.5, "1.5 is no int; write an integer, such as 5"),
        ("int", True, "true is no int; write an integer, such as 5"),
        ("int", "5", '"5" is no int; write an integer, such as 5'),
        ("int", 2**63, "9223372036854775808 is beyond 64 bits: from -9223372036854775808 to"),
        ("int", 10**400, "a number of many digits is beyond 64 bits"),
        ("int", [1], "a list is no int; write an integer, such as 5"),
        ("int", {"x": 1}, "an object is no int; write an integer, such as 5"),
        ("int", None, "is null; write an integer, such as 5"),
        ("float", "1.5", '"1.5" is no float; write a number, such as 1.5'),
        ("float", float("nan"), "nan is no finite number"),
        ("float", float("-inf"), "-inf is no finite number"),
        ("float", 10**400, "a number of many digits is no finite number"),
        ("float", False, "false is no float; write a number, such as 1.5"),
        ("string", 5, "5 is no string; write text in double quotes"),
        ("string", "\ud800", "half of a surrogate pair is no character"),
        ("bool", 1, "1 is no bool; write true or false"),
        ("bool", "true", '"true" is no bool; write true or false'),
        ("uuid", UUID.replace("-", ""), f"is no uuid; write a UUID such as {UUID}"),
        ("uuid", f"{{{UUID}}}", "is no uuid; write a UUID such as"),
        ("at", "soon", '"soon" is no time: write one such as 2024-05-17T09:30:00Z, or an'),
        ("at", True, "true is no timestamp; write a time"),
        ("date", "2024-02-30", '"2024-02-30" is no date: write one such as 2024-05-17, or an'),
        ("enum", "opn", '"opn" is none of its values; did you mean open?; there are open, paid'),
        ("enum", 1, "1 is no value of an enum; write one of open, paid"),
    ],
)
def test_value_that_is_none_of_its_field_is_refused(field: str, value: object, line: str) -> None:
    assert line in reason(field, value)


def test_first_payload_that_cannot_be_is_named() -> None:
    refused = refusal(ALL, RIGHT, RIGHT, {**RIGHT, "int": "x"}, {**RIGHT, "bool": "x"})
    assert (refused.row, refused.field) == (2, "int")
    assert str(refused) == 'event 3: field "int": "x" is no int; write an integer, such as 5'


def test_missing_and_unknown_fields_are_named_with_what_was_meant() -> None:
    orders = type_of(amount="int", note="string | null")
    assert str(refusal(orders, {})) == ('field "amount": is missing; write an integer, such as 5')
    assert refusal(orders, {"amuont": 1}).reason == 'is missing; is "amuont" meant for it?'
    assert refusal(orders, {"amount": 1, "nota": "x"}).reason == (
        '"orders" has no such field; did you mean note?; there are amount, note'
    )
    assert refusal(orders, {"amount": 1, "version": 1}).reason == (
        "every event has it already, and it cannot be set"
    )


def test_as_many_fields_as_there_are_but_another_one_is_refused() -> None:
    orders = type_of(amount="int", note="string | null")
    assert refusal(orders, {"amount": 1, "x": None}).field == "x"


def test_no_payloads_are_no_rows() -> None:
    assert columns_of(ALL, []).num_rows == 0
    assert bodies_of(ALL, []).to_pylist() == []


json_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**63), 2**63),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([*RIGHT.values(), "\ud800", [], {}, UUID.upper(), 10**11, 10**17, -1, 10**400]),
)
fields = st.sampled_from([*RIGHT, *RIGHT, *RIGHT, "x"])
changes = st.dictionaries(fields, json_values, max_size=2)


@given(st.lists(changes, min_size=1, max_size=4), st.sampled_from([ALL, NULLABLE]), st.booleans())
def test_columns_and_single_payloads_are_judged_alike(
    changed: list[dict[str, Any]], event_type: EventType, is_whole: bool
) -> None:
    whole = {name: RIGHT[name] for name in event_type.fields} if is_whole else {}
    payloads = [{**whole, **change} for change in changed]
    faults = [fault_of(event_type, payload) for payload in payloads]
    wrong = np.flatnonzero([fault is not None for fault in faults])
    if not len(wrong):
        columns = columns_of(event_type, payloads)
        assert columns.num_rows == len(payloads)
        for row, payload in enumerate(payloads):
            alone = columns_of(event_type, [payload])
            assert columns.slice(row, 1).equals(alone)
        assert isinstance(bodies_of(event_type, payloads), pa.BinaryArray)
    else:
        refused = refusal(event_type, *payloads)
        fault = faults[wrong[0]]
        assert fault is not None
        assert (refused.row, refused.field, refused.reason) == (wrong[0], fault.field, fault.reason)
