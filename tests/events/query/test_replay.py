"""Goal: REPLAY gives a context's events in the order in which they were stored.

Method: events of three types and several versions are stored in turns; what is sealed, trimmed or
hot is replayed, and compared with the list of them.
"""

import json
from datetime import date
from typing import Any

import pytest

from tests.events.query.test_queries_at_random import rows_in
from tests.events.stored import FIRST_US, Event, Fields, StoredEvents, time_of
from tests.thin import thinned
from typed_events.errors import NotFoundError
from typed_events.language.commands import Replay
from typed_events.language.expressions import Field
from typed_events.query.fields import FieldsOfTypes
from typed_events.query.queries import Queries
from typed_events.types.stored_types import StoredTypes, TypesOfRoot

FIELDS: dict[str, Fields] = {
    "opened": {"by": "string", "at": "timestamp"},
    "moved": {"to": "int", "day": "date | null"},
    "closed": {"why": ["done"]},
}
CORE = ("context_id", "event_type", "timestamp", "id", "version")


def event_of(event_type: str, number: int, version: int) -> Event:
    if event_type == "opened":
        return {"by": f'u"{number}', "at": time_of(FIRST_US + number)}
    if event_type == "closed":
        return {"why": "done"}
    day = {} if number % 2 else {"day": date(2026, 1, 1 + number % 28)}
    return {"to": number, **day} | ({"how": "fast"} if version == 2 else {})


def stored_in(root: Any) -> StoredEvents:
    """Store 120 events in turns, in batches of one to three."""
    stored = StoredEvents(root, shards=2, block_records=16)
    for name, fields in FIELDS.items():
        stored.define(name, fields)
    stored.define("moved", {**FIELDS["moved"], "how": "string"}, 2)
    for number in range(60):
        name = [*FIELDS][number % 3]
        version = 2 if name == "moved" and number > 30 else 1
        contexts = [f"case-{(number + n) % 4}" for n in range(1 + number % 3)]
        stored.store(name, contexts, [event_of(name, number, version) for _ in contexts], version)
    return stored


def as_json(event: Event, names: list[str]) -> dict[str, Any]:
    """Return the fields of an event as `payload` has them."""
    fields: dict[str, Any] = {name: event.get(name) for name in names}
    return {
        name: value.isoformat()
        if type(value) is date
        else value
        if name != "at"
        else value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name, value in fields.items()
    }


def of_context(stored: StoredEvents, context: str) -> list[Event]:
    return [event for event in stored.events if event["context_id"] == context]


@thinned("state", ["hot", "sealed", "trimmed"], count=3)
def test_a_context_is_replayed_over_all_types_as_it_was_stored(root, state):
    with stored_in(root) as stored, Queries(root) as queries:
        for stream in list(stored.streams.values())[1:]:
            if state != "hot":
                stream.seal()
            if state == "trimmed":
                stream.trim()
        rows = rows_in(queries.replay(Replay("case-1")))
        expected = of_context(stored, "case-1")
        assert [[row[name] for name in CORE] for row in rows] == [
            [event[name] for name in CORE] for event in expected
        ]
        for row, event in zip(rows, expected, strict=True):
            names = [*FIELDS[event["event_type"]], *(["how"] if event["version"] == 2 else [])]
            assert json.loads(row["payload"]) == as_json(event, names)


def test_a_type_is_replayed_with_its_fields_as_columns(root):
    with stored_in(root) as stored, Queries(root) as queries:
        rows = rows_in(queries.replay(Replay("case-2", "moved")))
        expected = [e for e in of_context(stored, "case-2") if e["event_type"] == "moved"]
        names = (*CORE, "to", "day", "how")
        assert rows == [{name: event.get(name) for name in names} for event in expected]
        assert {row["version"] for row in rows} == {1, 2}


def test_a_replay_begins_at_its_time_and_has_the_fields_it_returns(root):
    with stored_in(root) as stored, Queries(root) as queries:
        expected = of_context(stored, "case-0")[10:]
        first = expected[0]["timestamp"].isoformat()
        rows = rows_in(queries.replay(Replay("case-0", since=first, returned=(Field("to"),))))
        assert [row["id"] for row in rows] == [event["id"] for event in expected]
        payloads = [json.loads(row["payload"]) for row in rows]
        assert payloads == [{"to": e["to"]} if "to" in e else {} for e in expected]


def test_a_context_without_events_has_none(root):
    with stored_in(root), Queries(root) as queries:
        assert rows_in(queries.replay(Replay("nobody"))) == []
        assert rows_in(queries.replay(Replay("nobody", "moved"))) == []
        with pytest.raises(NotFoundError, match="did you mean moved"):
            queries.replay(Replay("case-0", "mowed"))


@pytest.mark.parametrize("came", [1, 3])
def test_a_type_that_is_defined_beside_a_replay_is_replayed_too(root, came):
    with StoredEvents(root) as stored:
        stored.define("opened", FIELDS["opened"])
        read, left = TypesOfRoot(root), [f"later{number}" for number in range(came)]

        def read_before_more_are_stored() -> StoredTypes:
            types = read.current()
            if left:
                name = left.pop()
                stored.define(name, {"to": "int"})
                stored.store(name, ["case-1"], [{"to": 1}])
                stored.store("opened", ["case-1"], [event_of("opened", 2, 1)])
            return types

        with Queries(root, types=FieldsOfTypes(read_before_more_are_stored)) as queries:
            rows = rows_in(queries.replay(Replay("case-1")))
        expected = of_context(stored, "case-1")[: len(rows)]
        assert [row["event_type"] for row in rows] == [event["event_type"] for event in expected]
        assert len(rows) >= 2
