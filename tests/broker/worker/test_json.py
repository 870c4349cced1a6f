"""JSON topics: values are events of a type of the root, judged as STORE judges."""

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.dlq.record import decode_dead_letter
from storage_core import StreamReader
from storage_core.sql import connect
from tests.broker.support.avro_lab import send, stored_rows
from tests.broker.support.dlq_process import dlq
from tests.broker.support.lab import Lab, Topic
from typed_events import EventStore, Status

FIRST = 'DEFINE order FIELDS { amount: "int", status: ["new", "paid"], at: "timestamp | null" }'
SECOND = 'DEFINE order FIELDS { amount: "float", status: ["new", "paid"], gift: "bool | null" }'
BAD = {
    10: (b"{", "no JSON at character 1"),
    20: (b'{"amount": "5", "status": "new"}', 'field "amount": "5" is no int'),
    30: (b'{"amount": 5, "status": "lost"}', 'field "status": "lost" is none of its values'),
    40: (b"", "it is empty"),
    50: (b'{"amount": 5, "status": "new", "more": 1}', 'field "more": "order" has no such field'),
    60: (b"\xff\xfe", "no UTF-8"),
}


def run(root: Path, *commands: str) -> list[dict[str, Any]]:
    """Give commands; return the rows of the last one."""
    with EventStore.open(root) as store:
        rows: list[dict[str, Any]] = []
        for command in commands:
            answer = store.execute(command)
            assert answer.status == Status.OK, answer.message
            rows = [row for batch in answer.batches for row in batch.to_pylist()]
        return rows


def value(number: int, **more: Any) -> bytes:
    return json.dumps({"amount": number, "status": "new", **more}).encode()


def settings(**more: Any) -> dict[str, Any]:
    return {
        "stream__value_format": "json",
        "stream__event_type": "order",
        "stream__key_mode": "dictionary",
        **more,
    }


def reasons(lab: Lab, topic: Topic) -> dict[int, str]:
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        return {at: decode_dead_letter(raw).reason for at, raw in reader.dead_letters(0)}


@pytest.fixture
def topic(lab: Lab) -> Topic:
    return lab.topic(partitions=1)


def test_values_stay_what_they_are_and_their_fields_are_columns(lab: Lab, topic: Topic) -> None:
    run(lab.root, FIRST)
    values: dict[int, bytes | None] = {number: value(number) for number in range(100)}
    values |= {at: bad for at, (bad, _) in BAD.items()}
    values[70] = None
    values[80] = value(80, at="2026-01-31T12:00:00Z")
    send(lab, topic, values)
    worker = lab.worker(topic, **settings())
    lab.await_no_lag(topic)
    refused = reasons(lab, topic)
    assert refused.keys() == BAD.keys()
    assert all(BAD[at][1] in reason for at, reason in refused.items()), refused
    rows = stored_rows(lab, topic, "address", "payload")
    sound = {at: value for at, value in values.items() if at not in BAD}
    assert {row["address"]: row["payload"] for row in rows} == sound
    with connect(lab.root) as streams:
        selected = streams.sql(
            f'SELECT amount, status, epoch("at") FROM "{topic.name}" ORDER BY address'
        ).fetchall()
    assert selected[:3] == [(number, "new", None) for number in range(3)]
    assert (80, "new", 1769860800.0) in selected
    events = run(lab.root, f"QUERY {topic.name} WHERE amount >= 80 LIMIT 2")
    assert [(row["context_id"], row["amount"]) for row in events] == [("k80", 80), ("k81", 81)]
    assert worker.stop() == 0


def test_rows_have_the_version_that_takes_them_and_letters_are_redriven_once_one_does(
    lab: Lab, topic: Topic
) -> None:
    run(lab.root, FIRST)
    send(lab, topic, {0: value(0, at=5), 1: value(1, gift=True)})
    worker = lab.worker(topic, **settings())
    lab.await_no_lag(topic)
    assert reasons(lab, topic).keys() == {1}
    run(lab.root, SECOND)
    send(lab, topic, {2: value(2, gift=True), 3: value(3, at=5), 4: value(4)})
    lab.await_no_lag(topic)
    assert reasons(lab, topic).keys() == {1}
    rows = stored_rows(lab, topic, "address", "schema_id")
    assert [(row["address"], row["schema_id"]) for row in rows] == [(0, 1), (2, 2), (3, 1), (4, 2)]
    assert worker.stop() == 0
    code, _, err = dlq("retry", lab.root, topic.name)
    assert (code, err) == (0, "")
    events = run(lab.root, f"QUERY {topic.name} WHERE gift ORDER BY amount")
    assert [row["amount"] for row in events] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("event_type", "said"),
    [
        ("ordr", "there is no event type ordr"),
        ("presence", "event type presence is of state with TTL 30m"),
    ],
)
def test_a_type_that_values_cannot_be_of_is_told_in_one_line(
    lab: Lab, topic: Topic, event_type: str, said: str
) -> None:
    run(lab.root, FIRST, 'DEFINE presence FIELDS { page: "string" } AS STATE TTL 30m')
    worker = lab.worker(topic, **settings(stream__event_type=event_type))
    worker.await_event("quarantined")
    assert said in worker.said()
    assert "Traceback" not in worker.said()
    assert worker.stop() != 0
