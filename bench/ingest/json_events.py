"""Ingest of JSON values that are events of a type: against the same bytes taken as they are.

The values are flat objects of five fields, some 110 bytes, which a registry's frame stands before.
With the type that is defined in the root it is passed over; with the registry it names the schema.
Of the bad records half are no JSON and half have a field of another type; both topics are read with
the same settings, and each record of either counts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.child import answer_of
from bench.ingest.filling import fill_topic, first_ms
from bench.ingest.rates import bare_loop, ingest
from bench.measure import Contestant, Experiment, Measured, Row
from bench.topics import make_topic
from bench.workspace import empty_directory
from connectors.devtools.broker import BROKER
from connectors.devtools.registry import REGISTRY
from connectors.devtools.server import Server
from connectors.registry import RegistryClient, RegistrySettings
from storage_core import SystemClock
from typed_events import EventStore, Status

_RECORDS: Final = 1_000_000
_BAD_ONE_IN: Final = 100
_VALUES: Final = 1024
_DEFINE: Final = (
    'DEFINE reading FIELDS { device: "int", seq: "int", temperature: "float | null", '
    'status: ["ok", "low"], at: "timestamp" }'
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "device": {"type": "integer"},
        "seq": {"type": "integer"},
        "temperature": {"type": "number"},
        "status": {"enum": ["ok", "low"]},
        "at": {"type": "string", "format": "date-time"},
    },
    "required": ["device", "seq", "status", "at"],
}
_CLEAN: Final = "clean"
_POISONED: Final = "poisoned"
_OF_TYPE: Final = ("stream.value_format=json", "stream.event_type=reading")
_CLOCK: Final = SystemClock()


@contextmanager
def _contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    """Yield them beside a broker, a registry and two topics."""
    with (
        Server(BROKER, workspace / "broker") as broker,
        Server(REGISTRY, workspace / "registry") as registry,
    ):
        client = RegistryClient(RegistrySettings.parse({"url": registry.address}), kind="JSON")
        number = client.register(f"{_CLEAN}-value", json.dumps(_SCHEMA))
        for topic, bad_one_in in ((_CLEAN, None), (_POISONED, _BAD_ONE_IN)):
            make_topic(broker.address, topic)
            answer_of(_fill, broker.address, topic, _RECORDS, number, bad_one_in)

        def stored(more: Sequence[str], topic: str = _CLEAN, bad: int = 0) -> Measured:
            with empty_directory(workspace) as root:
                answer = answer_of(_ingest, broker.address, topic, root, _RECORDS - bad, more)
            # What is set aside is a record too.
            return {**answer, "rate": answer["rate"] * _RECORDS / (_RECORDS - bad)}

        named = ("stream.value_format=json", f"schema.registry.url={registry.address}")
        yield {
            "ours": lambda: stored(_OF_TYPE),
            "with bad records": lambda: stored(_OF_TYPE, _POISONED, _RECORDS // _BAD_ONE_IN),
            "by the registry": lambda: stored(named),
            "raw": lambda: stored(()),
            "bare loop": lambda: answer_of(bare_loop, broker.address, _CLEAN, _RECORDS),
        }


def _ingest(bootstrap: str, topic: str, root: Path, records: int, more: Sequence[str]) -> Measured:
    """Define the type, and run a worker until it has stored so many records."""
    with EventStore.open(root) as store:
        answer = store.execute(_DEFINE)
        assert answer.status == Status.OK, answer.message
    return ingest(bootstrap, topic, root, records, more=more)


def _fill(
    bootstrap: str, topic: str, records: int, schema_id: int, bad_one_in: int | None
) -> Measured:
    """Fill a topic evenly; of so many records one is bad."""
    begin_ms = first_ms(_CLOCK.now_ns() // 10**6, records)
    values = _values(schema_id, begin_ms)
    bad = (values[0][:-3], values[0].replace(b'"ok"', b'"lost"'))
    fill_topic(bootstrap, topic, records, begin_ms, values, bad, bad_one_in)
    return {}


def _values(schema_id: int, now_ms: int) -> list[bytes]:
    """Return framed values whose times differ."""
    frame = b"\0" + schema_id.to_bytes(4, "big")
    values = []
    for number in range(_VALUES):
        moment = datetime.fromtimestamp((now_ms + number) / 1000, UTC)
        reading = {
            "device": number,
            "seq": number * 7,
            "temperature": 20 + number % 10 / 2,
            "status": "ok",
            "at": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z",
        }
        values.append(frame + json.dumps(reading).encode())
    return values


INGEST_JSON: Final = Experiment(
    "ingest-json",
    (
        Row(
            "ingest-json/rate",
            "durable ingest of JSON values that are events of a type against the same bytes raw",
            ("ours", "rate"),
            ("raw", "rate"),
            "at least",
            0.2,
            0.5,
        ),
        Row(
            "ingest-json/cpu",
            "processor time a record of theirs against the same bytes raw",
            ("ours", "cpu"),
            ("raw", "cpu"),
            None,
        ),
        Row(
            "ingest-json/loop",
            "durable ingest of them against the bare loop",
            ("ours", "rate"),
            ("bare loop", "rate"),
            None,
        ),
        Row(
            "ingest-json/registry",
            "the same values judged by the JSON Schema that they name against by the defined type",
            ("by the registry", "rate"),
            ("ours", "rate"),
            "at least",
            0.8,
            0.95,
        ),
        Row(
            "ingest-json/poison",
            "a topic with 1 % bad records against one without",
            ("with bad records", "rate"),
            ("ours", "rate"),
            "at least",
            0.4,
            0.8,
        ),
        Row(
            "ingest-json/memory",
            "peak memory of a worker that ingests them",
            ("ours", "memory_bytes"),
            None,
            "at most",
            limit=500 * 10**6,
            wanted=250 * 10**6,
        ),
    ),
    _contestants,
)
