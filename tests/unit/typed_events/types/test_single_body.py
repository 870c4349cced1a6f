"""A payload that is encoded by itself is what it is among others."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.typed_events.types.test_values import ALL, NULLABLE, RIGHT
from typed_events.types import bodies_of, fault_of
from typed_events.types.single_body import SingleBody

INT64S = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": INT64S,
    "float": st.floats(allow_nan=False, allow_infinity=False) | INT64S,
    "string": st.text(),
    "bool": st.booleans(),
    "uuid": st.uuids().map(str) | st.uuids().map(lambda one: str(one).upper()),
    "at": st.datetimes().map(str) | st.integers(0, 2**60),
    "date": st.dates().map(str) | st.integers(0, 2**60),
    "enum": st.sampled_from(["open", "paid"]),
}
of_all = st.fixed_dictionaries(VALUES)
nullables = {name: st.none() | values for name, values in VALUES.items() if name != "enum"}
of_nullable = st.fixed_dictionaries({}, optional=nullables)


@given(of_all)
@example(RIGHT)
def test_body_of_one_payload_is_that_among_many(payload: dict[str, Any]) -> None:
    if fault_of(ALL, payload) is None:
        assert SingleBody(ALL).encode(payload) == bodies_of(ALL, [payload])[0].as_py()


@given(of_nullable)
def test_null_and_absent_fields_are_as_among_many(payload: dict[str, Any]) -> None:
    if fault_of(NULLABLE, payload) is None:
        assert SingleBody(NULLABLE).encode(payload) == bodies_of(NULLABLE, [payload])[0].as_py()
