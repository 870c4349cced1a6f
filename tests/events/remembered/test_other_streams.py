"""Goal: queries over streams that are no event types are remembered as well.

Method: a stream as Kafka feeds it, whose records come out of order and get a new schema; and one
that transactions land in, of which one is in some of its shards alone for a while.
"""

from typing import Any

import pyarrow as pa
import pytest

from storage_core import SchemaEntry, Stream, TransactionId
from storage_core.avro import AvroSchema, encode_batch, frame_of
from tests.events.query.test_kafka_streams import FIRST_MS, feed
from tests.events.store.bench import rows_of
from tests.log.fixtures import make_bench
from tests.log.workbench import publish
from typed_events.answer import Status
from typed_events.event_store import EventStore

__all__ = ["make_bench"]
SHARDS = 4


def rows_shown(store: EventStore) -> list[dict[str, Any]]:
    answer = store.execute("SHOW mine")
    assert answer.status is Status.OK, answer.message
    return rows_of(answer)


def add_record(root, celsius: float) -> None:
    """Add a record of another schema, with a time before those that are there."""
    schema = AvroSchema.parse(
        '{"type": "record", "name": "Reading", "fields": ['
        '{"name": "celsius", "type": "double"}, {"name": "place", "type": "string"}]}'
    )
    values = pa.table({"celsius": [celsius], "place": ["roof"]})
    columns: dict[str, Any] = {
        "primary": [FIRST_MS - 5],
        "payload": encode_batch(values, schema, frame=frame_of(schema, 8)),
        "key": pa.array([b"north"], pa.binary()),
        "timestamp": [FIRST_MS],
        "timestamp_type": pa.array([0], pa.int8()),
        "schema": pa.array([0], pa.int32()),
    }
    entry = SchemaEntry(8, schema.identity, schema.text)
    with Stream.open(root, "readings") as stream:
        batch = pa.table(columns)
        stream.append_batch(batch, shard=0, addresses=[200], schemas=[entry])
        stream.commit()


def test_stream_that_kafka_feeds_is_remembered(root):
    feed(root, "dictionary")
    with EventStore.open(root) as store:
        query = "QUERY readings WHERE celsius > 2.0"
        answer = store.execute(f"REMEMBER {query} AS mine")
        assert answer.status is Status.OK, answer.message
        before = rows_shown(store)
        assert [row["celsius"] for row in before] == [2.5, 3.5, 4.5]
        add_record(root, 9.5)
        assert [row["celsius"] for row in rows_shown(store)] == [2.5, 3.5, 4.5, 9.5]
        assert [row["place"] for row in rows_shown(store)] == [None, None, None, "roof"]
        assert rows_shown(store) == rows_of(store.execute(query))


@pytest.mark.parametrize("is_sealed", [False, True])
def test_transaction_that_some_shards_lack_is_shown_once_all_have_it(make_bench, is_sealed):
    bench = make_bench(shards=SHARDS, block_records=4)
    every_shard = range(SHARDS)
    bench.keep([1] * SHARDS, secondary=[*every_shard])
    with EventStore.open(bench.root) as store:
        answer = store.execute(f"REMEMBER QUERY {bench.name} AS mine")
        assert answer.status is Status.OK, answer.message
        assert len(rows_shown(store)) == SHARDS
        bench.close()
        publish(bench, TransactionId("half"), [2] * SHARDS, every_shard)
        bench.open(shards=(0, 1))
        bench.keep([3, 3], secondary=[0, 1])
        if is_sealed:
            bench.stream.seal()
        for _ in range(2):
            assert len(rows_shown(store)) == SHARDS + 2
        bench.reopen()
        for _ in range(2):
            rows = rows_shown(store)
            assert len(rows) == 2 * SHARDS + 2
            assert rows == rows_of(store.execute(f"QUERY {bench.name}"))
