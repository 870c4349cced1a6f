"""Ingest of Avro values whose field is the primary: against a bare loop, and with bad records.

The values are of the sample schema, framed by the registry's id. The bare loop decodes
nothing. Of the bad records half have no framing and half a body that ends too early; both topics
are read with the same settings, and each record of either counts.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fastavro

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

_RECORDS: Final = 1_000_000
_BAD_ONE_IN: Final = 100
_VALUES: Final = 1024
_FRAMING_BYTES: Final = 5
_SCHEMA: Final = (
    Path(__file__).parents[2] / "schemas" / "avro" / "devices" / "telemetry.v1.avsc"
).read_text()
_CLEAN: Final = "clean"
_POISONED: Final = "poisoned"
_CLOCK: Final = SystemClock()


@contextmanager
def _contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    """Yield them beside a broker, a registry and two topics."""
    with (
        Server(BROKER, workspace / "broker") as broker,
        Server(REGISTRY, workspace / "registry") as registry,
    ):
        client = RegistryClient(RegistrySettings.parse({"url": registry.address}))
        number = client.register(f"{_CLEAN}-value", _SCHEMA)
        for topic, bad_one_in in ((_CLEAN, None), (_POISONED, _BAD_ONE_IN)):
            make_topic(broker.address, topic)
            answer_of(_fill, broker.address, topic, number, bad_one_in)
        more = [
            "stream.value_format=avro",
            "stream.primary=field:at",
            f"schema.registry.url={registry.address}",
        ]

        def stored(topic: str, bad: int) -> Measured:
            with empty_directory(workspace) as root:
                answer = answer_of(ingest, broker.address, topic, root, _RECORDS - bad, more=more)
            # What is set aside is a record too.
            return {**answer, "rate": answer["rate"] * _RECORDS / (_RECORDS - bad)}

        yield {
            "ours": lambda: stored(_CLEAN, 0),
            "with bad records": lambda: stored(_POISONED, _RECORDS // _BAD_ONE_IN),
            "bare loop": lambda: answer_of(bare_loop, broker.address, _CLEAN, _RECORDS),
        }


def _fill(bootstrap: str, topic: str, schema_id: int, bad_one_in: int | None) -> Measured:
    """Fill a topic evenly; of so many records one is bad."""
    begin_ms = first_ms(_CLOCK.now_ns() // 10**6, _RECORDS)
    values = _values(schema_id, begin_ms)
    bad = (b"no schema wrote this", values[0][:-3])
    fill_topic(bootstrap, topic, _RECORDS, begin_ms, values, bad, bad_one_in)
    return {}


def _values(schema_id: int, now_ms: int) -> list[bytes]:
    """Return framed values whose times differ."""
    schema = fastavro.parse_schema(json.loads(_SCHEMA))
    framing = b"\0" + schema_id.to_bytes(_FRAMING_BYTES - 1, "big")
    values = []
    for number in range(_VALUES):
        body = io.BytesIO(framing)
        body.seek(_FRAMING_BYTES)
        report = {"device": number, "seq": number, "temperature": 21.5, "at": now_ms + number}
        fastavro.schemaless_writer(body, schema, report)
        values.append(body.getvalue())
    return values


INGEST_AVRO: Final = Experiment(
    "ingest-avro",
    (
        Row(
            "ingest-avro/rate",
            "durable ingest whose primary is an Avro field against the bare loop",
            ("ours", "rate"),
            ("bare loop", "rate"),
            "at least",
            0.3,
            0.8,
        ),
        Row(
            "ingest-avro/poison",
            "the same of a topic with 1 % bad records against one without",
            ("with bad records", "rate"),
            ("ours", "rate"),
            "at least",
            0.8,
            0.95,
        ),
        Row(
            "ingest-avro/cpu",
            "processor time a record whose primary is an Avro field against the bare loop",
            ("ours", "cpu"),
            ("bare loop", "cpu"),
            None,
        ),
        Row(
            "ingest-avro/memory",
            "peak memory of a worker that ingests them",
            ("ours", "memory_bytes"),
            None,
            "at most",
            limit=400 * 10**6,
            wanted=250 * 10**6,
        ),
    ),
    _contestants,
)
