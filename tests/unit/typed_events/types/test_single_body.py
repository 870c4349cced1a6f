"""A payload that is encoded by itself is what it is among others."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.typed_events.types.test_values import ALL, NULLABLE, RIGHT
from typed_events.types import EventType, bodies_of, fault_of
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
# Of another field, or of none.
WRONG = st.one_of(
    st.none(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.sampled_from(
        [10**400, "", "\ud800", "2024-05-17", "2024-13-01", True, [], {}, "67e55044-10b1-426f"]
    ),
    *VALUES.values(),
)
of_all = st.fixed_dictionaries(VALUES)
nullables = {name: st.none() | values for name, values in VALUES.items() if name != "enum"}
of_nullable = st.fixed_dictionaries({}, optional=nullables)


@given(of_all)
@example(RIGHT)
def test_body_of_one_payload_is_that_among_many(payload: dict[str, Any]) -> None:
    if fault_of(ALL, payload) is None:
        assert SingleBody(ALL).encode(payload) == bodies_of(ALL, [payload])[0].as_py()


@given(
    of_all.flatmap(
        lambda right: st.dictionaries(st.sampled_from([*VALUES, "other"]), WRONG).map(
            lambda wrong: right | wrong
        )
    ),
    st.sets(st.sampled_from([*VALUES])),
    st.sampled_from([ALL, NULLABLE]),
)
def test_payload_has_a_body_if_nothing_is_wrong_with_it(
    payload: dict[str, Any], absent: set[str], event_type: EventType
) -> None:
    for name in absent:
        del payload[name]
    body = SingleBody(event_type).encode(payload)
    assert (body is None) == (fault_of(event_type, payload) is not None)
    if body is not None:
        assert body == bodies_of(event_type, [payload])[0].as_py()


@given(of_nullable)
def test_null_and_absent_fields_are_as_among_many(payload: dict[str, Any]) -> None:
    if fault_of(NULLABLE, payload) is None:
        assert SingleBody(NULLABLE).encode(payload) == bodies_of(NULLABLE, [payload])[0].as_py()
