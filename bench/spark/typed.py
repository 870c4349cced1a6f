"""Values as typed columns: into Parquet against Kafka's source and from_avro; two columns of ten.

The same values lie in a topic and in a stream of ours, framed by a registry's id, of one schema
with ten fields. Both sides write the fields and the timestamp, as one AvailableNow query in
one session, equally warm.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from bench.child import answer_of
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import FIRST_PRIMARY, PARTITIONS
from bench.spark import queries
from bench.spark.rates import SHARDS, ours, spark_process, warmed
from bench.topics import FOR_EVER, make_topic
from bench.workspace import await_compaction
from connectors.devtools.broker import BROKER
from connectors.devtools.server import Server
from connectors.kafka import Producer
from storage_core import SchemaEntry, Stream
from storage_core.avro import AvroSchema
from tests.broker.support.spark_kafka import avro_jars, connector_jars

_ROWS: Final = 2_000_000
_VALUES: Final = 10_000
_SCHEMA_ID: Final = 7
_TOPIC: Final = "typed"
_FIELDS: Final[Mapping[str, Any]] = {
    "device": "int",
    "seq": "long",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "temperature": "double",
    "humidity": "float",
    "status": {"type": "enum", "name": "Status", "symbols": ["OK", "WARN", "FAIL"]},
    "site": "string",
    "firmware": "string",
    "battery": ["null", "int"],
    "charging": "boolean",
}
_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Report",
        "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()],
    }
)


def _values() -> list[bytes]:
    """Return framed values that differ."""
    schema = fastavro.parse_schema(json.loads(_SCHEMA))
    values = []
    for number in range(_VALUES):
        body = io.BytesIO()
        report = {
            "device": number % 1000,
            "seq": number * 7919,
            "at": FIRST_PRIMARY + number,
            "temperature": 20 + number / 1000,
            "humidity": 0.5,
            "status": ("OK", "OK", "OK", "WARN", "FAIL")[number % 5],
            "site": f"site-{number % 50:03d}",
            "firmware": "4.11.2",
            "battery": None if number % 3 == 0 else number % 100,
            "charging": number % 2 == 0,
        }
        fastavro.schemaless_writer(body, schema, report)
        values.append(b"\0" + _SCHEMA_ID.to_bytes(4, "big") + body.getvalue())
    return values


def _fill_topic(bootstrap: str) -> Measured:
    values = _values()
    settings = {"linger.ms": "20", "batch.size": "500000", "compression.type": "none"}
    with Producer(bootstrap, settings) as producer:
        for number in range(_ROWS):
            partition = number // 500 % PARTITIONS
            key = (number % 1000).to_bytes(4, "big")
            time_ms = FIRST_PRIMARY + number // 100
            producer.send(_TOPIC, key, values[number % _VALUES], time_ms, None, partition)
            if number % 1000 == 0:
                producer.poll()
    assert producer.acknowledged == _ROWS, producer.first_failure
    return {}


def _fill_stream(root: Path) -> None:
    schema = AvroSchema.parse(_SCHEMA)
    entry = SchemaEntry(_SCHEMA_ID, schema.identity, schema.text)
    values: Any = pa.array(_values(), pa.binary())
    with Stream.create(root, _TOPIC, SHARDS) as stream:
        for first in range(0, _ROWS, _VALUES):
            places = np.arange(first, first + _VALUES)
            batch = {
                "primary": pa.array(FIRST_PRIMARY + places // 100),
                "secondary": pa.array((places % 1000).astype(np.int32)),
                "payload": values,
                "schema": pa.array(np.zeros(_VALUES, np.int32)),
            }
            stream.append_batch(pa.table(batch), schemas=[entry])
            stream.commit()


@contextmanager
def _typed(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    root.mkdir()
    _fill_stream(root)
    jars = [*connector_jars(), *avro_jars()]
    with Server(BROKER, workspace / "broker") as broker, spark_process(workspace, jars) as spark:
        make_topic(broker.address, _TOPIC, settings=FOR_EVER)
        answer_of(_fill_topic, broker.address)
        await_compaction(root)
        kafka = {
            "kafka.bootstrap.servers": broker.address,
            "subscribe": _TOPIC,
            "startingOffsets": "earliest",
        }

        def by_fields(sink: str, *columns: str) -> Contestant:
            named = {"valueFormat": "avro", "readerSchema": _SCHEMA, "columns": ",".join(columns)}
            options = ours(root, _TOPIC, **named)
            return lambda: spark.run(
                queries.convert,
                workspace,
                source="shardlog",
                options=options,
                rows=_ROWS,
                sink=sink,
            )

        yield warmed(
            {
                "ours": by_fields("parquet", *_FIELDS, "timestamp"),
                "from_avro": lambda: spark.run(
                    queries.convert,
                    workspace,
                    source="kafka",
                    options=kafka,
                    rows=_ROWS,
                    sink="parquet",
                    schema=_SCHEMA,
                ),
                "ten columns": by_fields("noop", *_FIELDS),
                "two columns": by_fields("noop", "device", "temperature"),
            }
        )


SPARK_TYPED: Final = Experiment(
    "spark-typed",
    (
        Row(
            "spark-typed/typed-parquet",
            "Avro values into Parquet by fields, against Kafka's source and from_avro",
            ("ours", "rate"),
            ("from_avro", "rate"),
            limit=1.2,
            wanted=3,
        ),
        Row(
            "spark-typed/typed-parquet-cpu",
            "the same by Spark's processor time",
            ("ours", "cpu_rate"),
            ("from_avro", "cpu_rate"),
        ),
        Row(
            "spark-typed/typed-columns",
            "two of ten fields against all ten",
            ("two columns", "rate"),
            ("ten columns", "rate"),
            limit=1.3,
            wanted=3,
        ),
    ),
    _typed,
    bytes_needed=4 * 2**30,
)
