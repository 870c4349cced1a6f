"""LIST TYPES and DESCRIBE name what may be asked: event types, and other streams of the root."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage_core import SchemaEntry, Stream, StreamOptions, StreamOrigin
from tests.events.query.test_kafka_streams import FIRST_MS, feed
from tests.events.store.bench import rows_of
from typed_events.answer import Answer, Status
from typed_events.event_store import EventStore
from typed_events.language.parse import parse
from typed_events.types.json_events import json_schema_of
from typed_events.types.stored_types import TypesOfRoot

READINGS = {"value_id": "string", "celsius": "float", "value_timestamp": "timestamp"}


def feed_json(root: Path) -> None:
    """Make a stream of one record, whose value is a text of JSON of type `order`."""
    schema = json_schema_of(TypesOfRoot(root).current().type_of("order").event_type)
    origin = StreamOrigin(
        "kafka", "orders", "topic-2", "dictionary", "timestamp", "json", event_type="order"
    )
    columns: dict[str, Any] = {
        "primary": [FIRST_MS],
        "payload": pa.array([b'{"amount": 5}'], pa.binary()),
        "key": pa.array([b"ann"], pa.binary()),
        "timestamp": [FIRST_MS],
        "timestamp_type": pa.array([0], pa.int8()),
        "schema": pa.array([0], pa.int32()),
    }
    options = StreamOptions(key_mode="dictionary")
    Stream.create(root, "orders", options, origin=origin).close()
    Stream.add_shards(root, "orders", {0: 0})
    with Stream.open(root, "orders") as stream:
        entry = SchemaEntry(1, schema.identity, schema.text)
        stream.append_batch(pa.table(columns), shard=0, addresses=[0], schemas=[entry])
        stream.commit()


@pytest.fixture
def store(root: Path) -> Iterator[EventStore]:
    """A store with two types, a topic of Avro values, one of JSON and one of counted rows."""
    with EventStore.open(root) as store:
        store.execute('DEFINE order FIELDS { amount: "int", note: "string | null" }')
        store.execute('DEFINE cursor FIELDS { line: "int" } AS STATE TTL 30m')
        feed(root, "dictionary")
        feed_json(root)
        Stream.create(root, "steps", StreamOptions(shards=1, unit="sequence")).close()
        yield store


def well(answer: Answer) -> Answer:
    assert answer.status is Status.OK, answer.message
    return answer


def test_types_are_listed_first_then_other_streams_with_their_fields(store):
    answer = well(store.execute("LIST TYPES"))
    listed = [
        tuple(row[name] for name in ("event_type", "kind", "version", "fields", "ttl"))
        for row in rows_of(answer)
    ]
    assert listed == [
        ("cursor", "state", 1, 1, "30m"),
        ("order", "events", 1, 2, None),
        ("orders", "kafka", None, 2, None),
        ("readings", "kafka", None, 3, None),
        ("steps", "log", None, 0, None),
    ]
    assert answer.message == "2 types, and 3 other streams, which STORE does not take"


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("readings", READINGS, "readings is a copy of topic readings"),
        ("orders", {"amount": "int", "note": "string"}, "orders is a copy of topic orders"),
        ("steps", {}, "steps is a stream"),
    ],
)
def test_other_stream_is_described_by_the_fields_that_a_query_has(store, name, fields, said):
    answer = well(store.execute(f"DESCRIBE {name}"))
    assert {row["field"]: row["type"] for row in rows_of(answer)} == fields
    assert answer.message == f"{said}, no event type: STORE does not take it"
    for field in fields:
        well(store.execute(f"QUERY {name} WHERE {field} IS NULL"))


def test_store_into_another_stream_is_refused_by_what_that_is(store):
    text = "STORE readings FOR a PAYLOAD {}"
    refused = "readings is a copy of topic readings, no event type: STORE does not take it"
    (batched,) = rows_of(store.execute(f"BATCH [ {text} ]"))
    answers = [store.execute(text), *store.execute_all([parse(text)] * 2)]
    assert {(one.status, one.message) for one in answers} == {(Status.NOT_FOUND, refused)}
    assert (batched["status"], batched["message"]) == ("NotFound", refused)


def test_stream_whose_files_are_damaged_is_listed_without_fields(store, root):
    (root / "readings" / "options.json").write_text("{")
    assert [row["fields"] for row in rows_of(well(store.execute("LIST TYPES")))][2:] == [
        2,
        None,
        0,
    ]


def test_name_that_is_none_is_told_the_nearest_of_all(store):
    answer = store.execute("DESCRIBE reading")
    assert (answer.status, "readings" in answer.message) == (Status.NOT_FOUND, True)
