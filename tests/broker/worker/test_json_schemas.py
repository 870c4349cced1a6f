"""JSON topics behind a registry: typed by the JSON Schemas that values name.

Values are written by the serializer of Confluent's client, which validates them by itself.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from connectors.dlq.record import decode_dead_letter
from storage_core import Stream, StreamReader
from storage_core.sql import connect
from tests.broker.json_writers import WriterOf, json_writers
from tests.broker.support.avro_lab import (
    READING,
    RegistryDoor,
    avro_settings,
    reading,
    register,
    send,
    stored_rows,
)
from tests.broker.support.dlq_process import dlq
from tests.broker.support.lab import Lab, Topic
from tests.waiting import await_that
from typed_events import EventStore, Status

FIRST = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "amount": {"type": "integer"},
        "status": {"type": "string", "enum": ["new", "paid"]},
        "at": {"type": "string", "format": "date-time"},
    },
    "required": ["amount", "status"],
}
SECOND = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "status": {"enum": ["new", "paid", "sent"]},
        "gift": {"type": ["null", "boolean"]},
        "id": {"type": "string", "format": "uuid"},
    },
    "required": ["amount", "status", "gift"],
}
NESTED = {"type": "object", "properties": {"lines": {"type": "array"}}}
UUID = "67e55044-10b1-426f-9247-bb680e5fe0c8"


def id_of(value: bytes) -> int:
    assert value[:1] == b"\x00"
    return int.from_bytes(value[1:5], "big")


def settings(registry: str, **more: Any) -> dict[str, Any]:
    return {
        "stream__value_format": "json",
        "stream__key_mode": "dictionary",
        "schema__registry__url": registry,
        **more,
    }


def reasons(lab: Lab, topic: Topic) -> dict[int, str]:
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        return {at: decode_dead_letter(raw).reason for at, raw in reader.dead_letters(0)}


def answered(lab: Lab, command: str) -> list[dict[str, Any]]:
    with EventStore.open(lab.root) as store:
        answer = store.execute(command)
        assert answer.status == Status.OK, answer.message
        return [row for batch in answer.batches for row in batch.to_pylist()]


@pytest.fixture
def topic(lab: Lab) -> Topic:
    return lab.topic(partitions=1)


@pytest.fixture
def writer_of(registry: str, topic: Topic) -> Iterator[WriterOf]:
    with json_writers(registry, topic.name) as made:
        yield made


def test_versions_of_a_subject_are_typed_side_by_side(
    lab: Lab, registry: str, topic: Topic, writer_of: WriterOf
) -> None:
    first, second = (writer_of(schema) for schema in (FIRST, SECOND))
    values = {number: first({"amount": number, "status": "new"}) for number in range(50)}
    values[7] = first({"amount": 7, "status": "paid", "at": "2026-01-31T12:00:00Z"})
    later = {"status": "sent", "gift": True, "id": UUID}
    values |= {number: second({"amount": number / 2, **later}) for number in range(50, 100)}
    send(lab, topic, {**values, 100: None})
    worker = lab.worker(topic, **settings(registry))
    lab.await_no_lag(topic)
    assert reasons(lab, topic) == {}
    rows = stored_rows(lab, topic, "address", "payload", "schema_id")
    assert {row["address"]: row["payload"] for row in rows} == {**values, 100: None}
    assert [row["schema_id"] for row in rows[:100]] == [id_of(values[at]) for at in range(100)]
    with connect(lab.root) as streams:
        selected = streams.sql(
            f'SELECT amount, status, epoch("at"), gift FROM "{topic.name}" '
            "WHERE address IN (7, 99) ORDER BY address"
        ).fetchall()
    assert selected == [(7.0, "paid", 1769860800.0, None), (49.5, "sent", None, True)]
    events = answered(lab, f"QUERY {topic.name} WHERE gift AND amount >= 49")
    assert [(row["context_id"], row["amount"], row["value_id"]) for row in events] == [
        ("k98", 49.0, UUID),
        ("k99", 49.5, UUID),
    ]
    assert worker.stop() == 0
    with Stream.open(lab.root, topic.name) as stream:
        assert stream.verify().problems == ()


def test_what_is_not_of_its_schema_is_a_dead_letter_with_the_field(
    lab: Lab, registry: str, topic: Topic, writer_of: WriterOf
) -> None:
    sound = writer_of(FIRST)({"amount": 1, "status": "new"})
    frame = sound[:5]
    avro = register(registry, f"{topic.name}-avro", READING)
    nested = register(registry, f"{topic.name}-nested", json.dumps(NESTED), "JSON")
    bad = {
        1: (sound[5:], "framing: value begins with 0x7b"),
        2: (frame + b'{"amount": "5", "status": "new"}', 'body: .*field "amount": "5" is no int'),
        3: (frame + b'{"amount": 5, "status": "lost"}', 'field "status": "lost" is none of its'),
        4: (frame + b'{"amount": 5}', 'field "status": is missing'),
        5: (frame + b'{"amount": 5, "status": "new", "more": 1}', 'field "more": .*no such field'),
        6: (frame + b"{", "no JSON at character 1"),
        7: (frame, "it is empty"),
        8: (b"\x00" + (2**31 - 2).to_bytes(4, "big") + sound[5:], "unknown schema: .*not there"),
        9: (b"\x00" + avro.to_bytes(4, "big") + sound[5:], "is AVRO, not JSON Schema"),
        10: (
            b"\x00" + nested.to_bytes(4, "big") + b'{"lines": []}',
            f'unknown schema: schema id {nested} .*property "lines" is of type array',
        ),
    }
    send(lab, topic, {0: sound, **{at: value for at, (value, _) in bad.items()}, 11: sound})
    worker = lab.worker(topic, **settings(registry))
    lab.await_no_lag(topic)
    refused = reasons(lab, topic)
    assert refused.keys() == bad.keys()
    for offset, (_, said) in bad.items():
        assert re.search(said, refused[offset]), refused[offset]
    assert [row["address"] for row in stored_rows(lab, topic, "address")] == [0, 11]
    assert worker.stop() == 0
    code, out, err = dlq("retry", lab.root, topic.name, "--registry", registry)
    assert code == 0, (out, err)
    assert reasons(lab, topic) == refused
    assert 'field "amount": "5" is no int' in out + err
    assert 'stream.value_format = "json" with stream.event_type takes it' in out + err


def test_schema_of_the_other_kind_is_none_to_values_of_one_worker(
    lab: Lab, registry: str, topic: Topic, writer_of: WriterOf
) -> None:
    other = lab.topic(partitions=1)
    text = writer_of(FIRST)({"amount": 1, "status": "new"})
    binary = reading(register(registry, f"{other.name}-value", READING), 1)
    plain = {"stream__primary": "timestamp", "stream__secondary": "key"}
    send(lab, other, {0: binary})
    first = lab.worker(other, **avro_settings(registry, **plain, stream__key_mode="none"))
    lab.await_no_lag(other)
    assert first.stop() == 0
    for sent_to in (topic, other):
        send(lab, sent_to, {1: text, 2: binary, 3: text, 4: binary})
    worker = lab.worker(topic, other, **settings(registry))
    lab.await_no_lag(topic)
    lab.await_no_lag(other)
    refused = reasons(lab, topic)
    assert refused.keys() == {1, 3}
    assert all("is AVRO, not JSON Schema" in reason for reason in refused.values())
    refused = reasons(lab, other)
    assert refused.keys() == {1, 3}
    assert all("is JSON, not Avro" in reason for reason in refused.values())
    assert worker.stop() == 0


def test_letters_of_a_silent_registry_are_rows_once_it_answers(
    lab: Lab, registry: str, topic: Topic, writer_of: WriterOf
) -> None:
    write = writer_of(FIRST)
    good = {number: write({"amount": number, "status": "new"}) for number in range(10)}
    bad = good[0][:5] + b'{"amount": 1.5, "status": "new"}'
    send(lab, topic, {**good, 10: bad})
    door = RegistryDoor(registry)
    door.shut()
    silent = {"schema__unreachable": "dead-letter", "schema__wait_s": 0}
    worker = lab.worker(topic, **settings(door.url, **silent))
    await_that(
        lambda: bool(lab.committed(topic)) and len(reasons(lab, topic)) == 11, "dead letters"
    )
    assert worker.stop() == 0
    code, out, err = dlq("retry", lab.root, topic.name, "--registry", registry)
    assert code == 0, (out, err)
    refused = reasons(lab, topic)
    assert refused.keys() == {10}
    events = answered(lab, f'QUERY {topic.name} WHERE status = "new" ORDER BY amount')
    assert [row["amount"] for row in events] == [*range(10)]


def test_known_schemas_go_on_without_the_registry_after_a_restart(
    lab: Lab, registry: str, topic: Topic, writer_of: WriterOf
) -> None:
    write = writer_of(FIRST)
    door = RegistryDoor(registry)
    send(lab, topic, {0: write({"amount": 0, "status": "new"})})
    worker = lab.worker(topic, **settings(door.url))
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    door.shut()
    send(lab, topic, {1: write({"amount": 1, "status": "new"})})
    worker = lab.worker(topic, **settings(door.url, schema__wait_s=0))
    lab.await_no_lag(topic)
    assert [row["amount"] for row in answered(lab, f"QUERY {topic.name}")] == [0, 1]
    assert worker.stop() == 0
