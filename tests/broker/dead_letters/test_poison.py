"""Goal: a record that no schema wrote never stops its partition, and costs no neighbour.

Method: records of every bad kind, and records mutated by chance, go through workers of which some
are killed. In the end each record that was produced is a row, or its origin is in the
dead-letter topic, byte for byte; which of both it must be, the test knows from what it did to it,
or reads by itself, in plain Python.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from connectors.kafka import Producer
from storage_core import StreamReader
from storage_core.avro import AvroSchema, decode_batch
from tests.broker.dead_letters.test_forwarding import dlq_of, expect_all_told_apart, forwarded
from tests.broker.support.avro_lab import AT, START_MS, register, value_of
from tests.broker.support.lab import Lab, Topic
from tests.unit.connectors.framed import record_schema
from tests.unit.storage_core.avro.plain_avro import CorruptError, read

MUTATED: Final = int(os.environ.get("SHARDLOG_FAULT_POISON", "600"))
KILLS: Final = 2
LARGE: Final = 10 * 2**20
PRODUCER: Final = {"message.max.bytes": str(2 * LARGE), "linger.ms": "5"}
UNKNOWN_ID: Final = 888_888_888

TREE: Final = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "in", "type": ["null", "Tree"]}],
}
POINT: Final = record_schema(
    ("device", "int"),
    ("at", AT),
    ("tree", TREE),
    ("nothing", {"type": "array", "items": "null"}),
    ("numbers", {"type": "array", "items": "long"}),
    ("blob", ["null", "bytes"]),
)
_ZERO_TREE: Final = {"in": None}


def point(schema_id: int, number: int, time_ms: int, **more: Any) -> bytes:
    sound = {
        "device": number,
        "at": time_ms,
        "tree": _ZERO_TREE,
        "nothing": [],
        "numbers": [number],
    }
    return value_of(schema_id, POINT, {**sound, "blob": None, **more})


def head_of(schema_id: int) -> bytes:
    """Return the beginning of a value up to its tree."""
    return point(schema_id, 1, 1)[: len(point(schema_id, 1, 1)) - 5]


# What is done to a record, and the word for why it is set aside; None is stored.
Poison = Callable[[int, int], tuple[bytes | None, bytes]]
BAD: Final[dict[str, list[Poison]]] = {
    "framing": [
        lambda _id, _at: (None, b"\x07no schema wrote this"),
        lambda _id, _at: (None, b"\0\0\0"),
        lambda _id, _at: (None, b""),
        lambda _id, _at: (None, b"\x01\x02\x03"),
    ],
    "unknown_schema": [lambda _id, at: (None, point(UNKNOWN_ID + at % 3, 1, at))],
    "body": [
        lambda id_, at: (None, point(id_, 1, at)[:-2]),
        lambda id_, at: (None, point(id_, 1, at) + b"\0"),
        lambda id_, _at: (None, head_of(id_) + b"\x02" * 5000),
        lambda id_, _at: (None, head_of(id_) + b"\0" + b"\x80\x80\x80\x80\x80\x80\x02\0"),
    ],
    "key": [lambda id_, at: (b"abc", point(id_, 1, at))],
}
ODD_TIMES: Final = (-1, 0, 2**62, -(2**62))


def poisoned(topic: Topic, lab: Lab, schema_id: int, first: int, records: int) -> Counter[str]:
    """Produce records of which one in 25 is bad; return how many there are of each word."""
    made: Counter[str] = Counter()
    with Producer(lab.bootstrap, PRODUCER) as producer:
        for number in range(first, first + records):
            time_ms = START_MS + number
            key, value = number.to_bytes(4, "big"), point(schema_id, number, time_ms)
            word = {0: "framing", 25: "body", 50: "unknown_schema", 75: "key"}.get(number % 100)
            if word is not None:
                kinds = BAD[word]
                other, value = kinds[number // 100 % len(kinds)](schema_id, time_ms)
                key = other or key
                made[word] += 1
            elif number % 100 in (10, 60):
                value = point(schema_id, number, ODD_TIMES[number // 100 % len(ODD_TIMES)])
            producer.send(topic.name, key, value)
        producer.send(topic.name, b"\0\0\0\1", head_of(schema_id) + b"\0" * LARGE)
        made["body"] += 1
    assert producer.first_failure is None, producer.first_failure
    return made


def settings(registry: str, dlq: Topic) -> dict[str, Any]:
    return {
        "stream__value_format": "avro",
        "stream__primary": "field:at",
        "schema__registry__url": registry,
        "dead_letters__policy": "forward",
        "dead_letters__topic": dlq.name,
        "kafka__message.max.bytes": 2 * LARGE,
    }


def test_poisoned_topic_balances_though_workers_are_killed(lab: Lab, registry: str) -> None:
    topic = lab.topic(partitions=3, max_message_bytes=str(2 * LARGE))
    dlq = dlq_of(lab, topic, max_message_bytes=str(2 * LARGE))
    schema_id = register(registry, f"{topic.name}-value", POINT)
    expected: Counter[str] = Counter()
    living = lab.worker(topic, **settings(registry, dlq))
    for kill in range(KILLS):
        expected += poisoned(topic, lab, schema_id, kill * 2000, 2000)
        doomed = lab.doomed(topic, **settings(registry, dlq))
        lab.await_committed(topic, kill * 2000 + 500)
        doomed.kill()
    expected += poisoned(topic, lab, schema_id, KILLS * 2000, 1000)
    dead_letters = expect_all_told_apart(lab, topic, dlq)
    words = {(origin.partition, origin.offset): origin.word for origin, _ in dead_letters}
    assert Counter(words.values()) == expected
    assert living.process.poll() is None, living.said()
    assert living.stop() == 0


def mutated(value: bytes, chance: Random) -> bytes:
    """Return a value with something done to it; an id that is changed is nobody's."""
    mutated = bytearray(value)
    kind = chance.randrange(8)
    if kind == 0:
        del mutated[chance.randrange(len(mutated)) :]
    elif kind == 1:
        mutated[chance.randrange(5, len(mutated))] ^= 1 << chance.randrange(8)
    elif kind == 2:
        place = chance.randrange(5, len(mutated))
        mutated[place : place + chance.randint(1, 9)] = chance.randbytes(chance.randint(0, 12))
    elif kind == 3:
        mutated[1:5] = (UNKNOWN_ID + chance.randrange(50)).to_bytes(4, "big")
    elif kind == 4:
        mutated[0] = chance.randrange(1, 256)
    elif kind == 5:
        # A GUID, of which this registry has none; some are cut.
        mutated = bytearray(b"\x01" + chance.randbytes(chance.randint(14, 20)))
    elif kind == 6:
        mutated[1:5] = (2**31 + chance.randrange(2**31)).to_bytes(4, "big")
    else:
        mutated = bytearray(chance.randbytes(chance.randint(1, 40)))
        # By chance alone the four bytes of an id are somebody's in this registry.
        mutated[:1] = bytes([chance.randrange(1, 256)])
    return bytes(mutated)


def is_sound(value: bytes, schema_id: int) -> bool:
    """Tell whether a schema wrote a value, by a reader of the tests' own."""
    if value[:5] != b"\0" + schema_id.to_bytes(4, "big"):
        return False
    try:
        read(json.loads(AvroSchema.parse(PLAIN).text), value[5:])
    except CorruptError:
        return False
    return True


# Without a type that holds itself, which the tests' reader does not know, and without strings: one
# that is passed over is not proven to be UTF-8.
PLAIN: Final = record_schema(
    ("device", "int"),
    ("at", AT),
    ("numbers", {"type": "array", "items": "long"}),
    ("blob", ["null", "bytes", "double"]),
    ("truths", {"type": "array", "items": {"type": "array", "items": "boolean"}}),
)


def test_mutated_records_are_stored_if_and_only_if_the_schema_wrote_them(
    lab: Lab, registry: str
) -> None:
    topic = lab.topic(partitions=2)
    dlq = dlq_of(lab, topic)
    schema_id = register(registry, f"{topic.name}-value", PLAIN)
    with lab.producer() as producer:
        for number in range(MUTATED):
            fields = {
                "device": number,
                "at": START_MS + number,
                "numbers": [lab.chance.getrandbits(40) for _ in range(number % 5)],
                "blob": (None, b"bytes", 2.5)[number % 3],
                "truths": [[bool(at)] * at for at in range(number % 4)],
            }
            value = value_of(schema_id, PLAIN, fields)
            if number % 2:
                value = mutated(value, lab.chance)
            producer.send(topic.name, number.to_bytes(4, "big"), value)
    assert producer.first_failure is None, producer.first_failure
    worker = lab.worker(topic, **settings(registry, dlq))
    expect_all_told_apart(lab, topic, dlq)
    refused = {(origin.partition, origin.offset) for origin, _ in forwarded(dlq)}
    wrong = [
        (shard, record.offset, record.value)
        for shard, records in topic.records().items()
        for record in records
        if is_sound(record.value or b"", schema_id) == ((shard, record.offset) in refused)
    ]
    assert not wrong
    with StreamReader.open(lab.root, topic.name) as reader:
        (entry,) = reader.schemas()
        payloads = reader.read().column("payload").combine_chunks()
    decoded = decode_batch(payloads, AvroSchema.parse(entry.text), starts=5)
    assert not decoded.faults
    assert worker.stop() == 0
