"""Avro topics behind a registry: decoded fields, stored schemas, dead letters for bad values."""

import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from typing_extensions import override

from connectors.dlq.record import decode_dead_letter, reason_word
from storage_core import StreamReader
from storage_core.avro import AvroSchema
from tests.broker.support.avro_lab import (
    AT,
    READING,
    START_MS,
    RegistryDoor,
    avro_settings,
    reading,
    register,
    send,
    stored_rows,
)
from tests.broker.support.lab import Lab, Topic
from tests.unit.connectors.framed import record_schema
from tests.waiting import await_that

DEFAULTED = {"type": "string", "name": "ignored"}
UNKNOWN_ID = 999_999_999


def later_version(fields: int) -> str:
    """Return the text of a later version of the schema, with so many more fields."""
    more = [(f"more{at}", "string") for at in range(fields)]
    return record_schema(("device", "int"), *more, ("at", AT), ("value", "double"))


@pytest.fixture
def door(registry: str) -> Iterator[RegistryDoor]:
    opened = RegistryDoor(registry)
    yield opened
    opened.shut()


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address that lets nobody in."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(HTTPStatus.UNAUTHORIZED)

        @override
        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def words_of(lab: Lab, topic: Topic, shard: int = 0) -> dict[int, str]:
    """Return why records were refused, by offset."""
    with StreamReader.open(lab.root, topic.name) as reader:
        return {at: reason_word(raw) for at, raw in reader.dead_letters(shard)}


def test_fields_of_values_become_primary_and_id(lab: Lab, registry: str) -> None:
    topic = lab.topic(partitions=2)
    schema_id = register(registry, f"{topic.name}-value", READING)
    for partition in range(2):
        send(lab, topic, {at: reading(schema_id, at) for at in range(100)}, partition)
    worker = lab.worker(topic, **avro_settings(registry))
    lab.expect_ledger(topic)
    rows = stored_rows(lab, topic, "primary", "secondary", "schema_id")
    assert {row["schema_id"] for row in rows} == {schema_id}
    assert sorted(row["primary"] for row in rows) == sorted(
        [START_MS + at for at in range(100)] * 2
    )
    with StreamReader.open(lab.root, topic.name) as reader:
        assert len(reader.read([3])) == 2 * len(range(3, 100, 7))
        (entry,) = reader.schemas()
        assert entry.fingerprint == AvroSchema.parse(READING).identity
    assert worker.stop() == 0


def test_five_versions_in_one_topic_are_told_apart(lab: Lab, registry: str) -> None:
    topic = lab.topic(partitions=1)
    texts = [later_version(fields) for fields in range(5)]
    ids = [register(registry, f"{topic.name}-{number}", text) for number, text in enumerate(texts)]
    values = {}
    for number in range(500):
        kind = number % 5
        more = {f"more{each}": "x" for each in range(kind)}
        values[number] = reading(ids[kind], number, texts[kind], **more)
    send(lab, topic, values)
    lab.worker(topic, **avro_settings(registry))
    lab.expect_ledger(topic)
    rows = stored_rows(lab, topic, "primary", "schema_id")
    assert [row["schema_id"] for row in rows] == [ids[offset % 5] for offset in range(500)]
    assert [row["primary"] for row in rows] == [START_MS + offset for offset in range(500)]


def test_bad_records_are_dead_letters_and_cost_no_neighbour(lab: Lab, registry: str) -> None:
    topic = lab.topic(partitions=1)
    schema_id = register(registry, f"{topic.name}-value", READING)
    values: dict[int, bytes | None] = {offset: reading(schema_id, offset) for offset in range(1000)}
    sound = values[0] or b""
    bad = {
        10: (b'{"at": 1}', "framing"),
        20: (b"\x00\x00", "framing"),
        30: (reading(UNKNOWN_ID, 1), "unknown_schema"),
        40: (sound[:-1], "body"),
        50: (sound + b"more", "body"),
        60: (b"\x00" * 5 + b"\xff" * 12, "unknown_schema"),
        70: (sound[:5] + b"\xff" * 12, "body"),
    }
    values.update({offset: value for offset, (value, _) in bad.items()})
    values[80] = None
    send(lab, topic, values)
    worker = lab.worker(topic, **avro_settings(registry))
    lab.await_no_lag(topic)
    assert words_of(lab, topic) == {offset: word for offset, (_, word) in bad.items()}
    with StreamReader.open(lab.root, topic.name) as reader:
        dead_letters = {offset: decode_dead_letter(raw) for offset, raw in reader.dead_letters(0)}
    assert {offset: dead_letter.value for offset, dead_letter in dead_letters.items()} == {
        offset: value for offset, (value, _) in bad.items()
    }
    rows = stored_rows(lab, topic, "address", "payload")
    assert {row["address"]: row["payload"] for row in rows} == {
        offset: value for offset, value in values.items() if offset not in bad
    }
    assert worker.stop() == 0


def test_new_schema_waits_for_the_registry_while_others_go_on(
    lab: Lab, registry: str, door: RegistryDoor
) -> None:
    topic = lab.topic(partitions=2)
    schema_id = register(registry, f"{topic.name}-1", READING)
    newer = later_version(1)
    unknown = register(registry, f"{topic.name}-2", newer)
    for partition in range(2):
        send(lab, topic, {at: reading(schema_id, at) for at in range(50)}, partition)
    settings = avro_settings(door.url, **{"schema__registry__retries.wait.ms": 10})
    worker = lab.worker(topic, **settings)
    lab.await_no_lag(topic)
    door.shut()
    values = {at: reading(schema_id, at) for at in range(50, 60)}
    values[60] = reading(unknown, 60, newer, more0="x")
    values |= {at: reading(schema_id, at) for at in range(61, 70)}
    send(lab, topic, values)
    send(lab, topic, {at: reading(schema_id, at) for at in range(50, 90)}, 1)
    await_that(lambda: lab.committed(topic) == {0: 60, 1: 90}, "all that is known is stored")
    await_that(lambda: bool(worker.events("waiting for schemas")), "the worker says what for")
    assert lab.committed(topic) == {0: 60, 1: 90}
    door.open()
    lab.expect_ledger(topic)
    assert words_of(lab, topic) == {}
    assert worker.stop() == 0


def test_worker_that_starts_without_the_registry_goes_on_with_what_is_stored(
    lab: Lab, registry: str, door: RegistryDoor
) -> None:
    topic = lab.topic(partitions=1)
    schema_id = register(registry, f"{topic.name}-value", READING)
    send(lab, topic, {at: reading(schema_id, at) for at in range(50)})
    settings = avro_settings(door.url, **{"schema__registry__max.retries": 0})
    assert_stored = lab.worker(topic, **settings)
    lab.await_no_lag(topic)
    assert assert_stored.stop() == 0
    door.shut()
    send(lab, topic, {at: reading(schema_id, at) for at in range(50, 100)})
    worker = lab.worker(topic, **settings)
    lab.expect_ledger(topic)
    assert worker.stop() == 0
    door.open()


def test_worker_ends_at_once_while_the_registry_hangs(lab: Lab, registry: str) -> None:
    topic = lab.topic(partitions=1)
    schema_id = register(registry, f"{topic.name}-value", READING)
    send(lab, topic, {at: reading(schema_id, at) for at in range(50)})
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        worker = lab.worker(
            topic, as_people_do=True, **avro_settings(url, schema__registry__timeout=600)
        )
        await_that(lambda: bool(worker.events("waiting for schemas")), "the worker says what for")
        assert worker.stop() == 0
    assert lab.committed(topic) == {0: 0}


@pytest.mark.parametrize("policy", ["quarantine", "dead-letter"])
def test_registry_that_stays_away_is_the_policys_matter(
    lab: Lab, registry: str, door: RegistryDoor, policy: str
) -> None:
    topic = lab.topic(partitions=1)
    schema_id = register(registry, f"{topic.name}-value", READING)
    door.shut()
    send(lab, topic, {at: reading(schema_id, at) for at in range(50)})
    more: dict[str, Any] = {"schema__registry__max.retries": 0, "on_fault__unavailable": "stop"}
    worker = lab.worker(
        topic, **avro_settings(door.url, schema__unreachable=policy, schema__wait_s=0.5), **more
    )
    if policy == "dead-letter":
        lab.await_no_lag(topic)
        assert set(words_of(lab, topic).values()) == {"unknown_schema"}
        assert worker.stop() == 0
    else:
        assert worker.exit_code() == 3
        assert "schema registry" in worker.complaint()
        assert lab.committed(topic) == {0: 0}
    door.open()


def test_schema_that_nobody_knows_can_stop_its_partition(lab: Lab, registry: str) -> None:
    topic = lab.topic(partitions=1)
    schema_id = register(registry, f"{topic.name}-value", READING)
    values = {at: reading(schema_id, at) for at in range(20)}
    send(lab, topic, {**values, 20: reading(UNKNOWN_ID, 20)})
    worker = lab.worker(
        topic, **avro_settings(registry, schema__unknown="quarantine", on_fault="stop")
    )
    assert worker.exit_code() == 2
    assert "set schema.unknown = " in worker.complaint()
    assert lab.committed(topic) == {0: 20}


def test_registry_that_refuses_the_worker_is_told_with_the_setting(
    lab: Lab, registry: str, refusing: str
) -> None:
    topic = lab.topic(partitions=1)
    schema_id = register(registry, f"{topic.name}-value", READING)
    send(lab, topic, {at: reading(schema_id, at) for at in range(20)})
    worker = lab.worker(topic, **avro_settings(refusing), on_fault="stop")
    assert worker.exit_code() == 2
    assert "see basic.auth.user.info" in worker.complaint()
    assert lab.committed(topic) == {0: 0}
