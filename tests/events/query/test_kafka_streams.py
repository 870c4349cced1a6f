"""Goal: QUERY answers over streams that Kafka feeds, by key and by id.

Method: a stream as the ingest worker makes it: rows of an origin with their own addresses, values
framed by a registry's id, keys, headers and timestamps of Kafka's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage_core import SchemaEntry, Stream, StreamOptions, StreamOrigin
from storage_core.avro import AvroSchema, encode_batch, frame_of
from tests.events.query.test_queries_at_random import rows_in
from typed_events.errors import CommandError
from typed_events.language.commands import Aggregate, Order, Query, Replay
from typed_events.language.expressions import And, Comparison, Field, IsNull
from typed_events.query.queries import Queries

FIRST_MS = 1_780_000_000_000
SCHEMA = AvroSchema.parse(
    '{"type": "record", "name": "Reading", "fields": ['
    '{"name": "id", "type": "string"}, {"name": "celsius", "type": "double"},'
    '{"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'
)
ENTRY = SchemaEntry(7, SCHEMA.identity, SCHEMA.text)
KEYS = [b"north", b"south", b"\xff\x00", None, b"north"]
IDS = [4, 5, 6, -1, 4]


def feed(root: Path, key_mode: Any) -> None:
    """Make a stream of five records, of which the last is a tombstone."""
    key: Any = "dictionary" if key_mode == "dictionary" else "integer"
    origin = StreamOrigin("kafka", "readings", "topic-1", key, "timestamp", "avro")
    options = StreamOptions(key_mode=key_mode)
    with Stream.create(root, "readings", options, origin=origin):
        pass
    Stream.add_shards(root, "readings", {0: 100})
    values = {
        "id": [f"sensor-{n}" for n in range(5)],
        "celsius": [1.5, 2.5, 3.5, 4.5, 0.0],
        "timestamp": pa.array([FIRST_MS] * 5, pa.timestamp("ms", "UTC")),
    }
    payloads = encode_batch(pa.table(values), SCHEMA, frame=frame_of(SCHEMA, 7)).to_pylist()
    columns: dict[str, Any] = {
        "primary": [FIRST_MS + n for n in range(5)],
        "payload": pa.array([*payloads[:4], None], pa.binary()),
        "key": pa.array(KEYS, pa.binary()),
        "timestamp": [FIRST_MS + n for n in range(5)],
        "timestamp_type": pa.array([0] * 5, pa.int8()),
        "schema": pa.array([0] * 4 + [None], pa.int32()),
    }
    if key_mode == "none":
        columns["secondary"] = pa.array(IDS, pa.int32())
    with Stream.open(root, "readings") as stream:
        addresses = [100, 101, 104, 105, 106]
        stream.append_batch(pa.table(columns), shard=0, addresses=addresses, schemas=[ENTRY])
        stream.commit()
        stream.seal()


@pytest.fixture(params=["dictionary", "none"])
def queries(root: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Queries, bool]]:
    """Queries over such a stream, and whether its rows belong to keys."""
    feed(root, request.param)
    with Queries(root) as opened:
        yield opened, request.param == "dictionary"


def test_records_are_events_whose_context_is_the_key_or_id(queries):
    opened, has_keys = queries
    rows = rows_in(opened.query(Query("readings")))
    contexts = ["north", "south", "0xff00", None, "north"] if has_keys else [str(n) for n in IDS]
    assert [row["context_id"] for row in rows] == contexts
    assert [row["id"] for row in rows] == ["0:100", "0:101", "0:104", "0:105", "0:106"]
    assert {row["event_type"] for row in rows} == {"readings"}
    assert [row["value_id"] for row in rows] == [*(f"sensor-{n}" for n in range(4)), None]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [FIRST_MS + n for n in range(5)]


def test_a_context_finds_its_records(queries):
    opened, has_keys = queries
    for context in ["north", "0xff00"] if has_keys else ["4", "6"]:
        rows = rows_in(opened.query(Query("readings", context)))
        assert rows
        assert {row["context_id"] for row in rows} == {context}
        where = Comparison(Field("context_id"), "=", context)
        assert rows_in(opened.query(Query("readings", where=where))) == rows
        assert rows_in(opened.replay(Replay(context, "readings"))) == rows
    assert rows_in(opened.query(Query("readings", "nobody"))) == []
    assert rows_in(opened.query(Query("readings", "04"))) == []


def test_fields_are_those_of_the_records_schema(queries):
    opened, _ = queries
    where = And((Comparison(Field("celsius"), ">", 2), Comparison(Field("value_id"), "!=", "x")))
    query = Query("readings", where=where, order=Order(Field("celsius"), is_descending=True))
    assert [row["celsius"] for row in rows_in(opened.query(query))] == [4.5, 3.5, 2.5]
    tombstone = Query("readings", where=IsNull(Field("celsius")))
    assert [row["id"] for row in rows_in(opened.query(tombstone))] == ["0:106"]
    figures = Query("readings", aggregates=(Aggregate("avg", Field("celsius")),))
    assert rows_in(opened.query(figures)) == [{"avg_celsius": 3.0}]


def test_a_time_bound_is_of_the_streams_unit(queries):
    opened, _ = queries
    micros = FIRST_MS * 1000
    query = Query("readings", since=micros + 1500, until=micros + 3001)
    assert [row["id"] for row in rows_in(opened.query(query))] == ["0:104", "0:105"]


def test_a_stream_that_counts_its_rows_has_no_time(root):
    with Stream.create(root, "steps", StreamOptions(shards=1, unit="sequence")) as stream:
        columns = {"primary": [1, 2], "secondary": [7, 7], "payload": [b"a", b"b"]}
        stream.append_batch(pa.table(columns))
        stream.commit()
        with Queries(root) as opened:
            rows = rows_in(opened.query(Query("steps", "7")))
            assert [row["timestamp"] for row in rows] == [None, None]
            never = Query("steps", where=Comparison(Field("timestamp"), ">", 0))
            assert rows_in(opened.query(never)) == []
            with pytest.raises(CommandError, match="steps counts its rows"):
                opened.query(Query("steps", since=0))
