"""`roll_up` against the same on Kafka's source: what a topic comes to at each level.

The same framed Avro values lie in a topic and in a stream of ours. Ours is the job as people run
it, into four streams, durably. Theirs is what one writes in Spark for one batch without late rows:
from_avro, groupBy by id and window, each level from the one below, into Parquet. Both take all rows
in one batch, in one session, equally warm.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from bench.child import answer_of
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import FIRST_PRIMARY, PARTITIONS
from bench.spark.queries import rates_of
from bench.spark.rates import SHARDS, kafkas, spark_process, warmed
from bench.topics import FOR_EVER, make_topic
from bench.workspace import await_compaction, empty_directory
from connectors.devtools.broker import BROKER
from connectors.devtools.server import Server
from connectors.kafka import Producer
from storage_core import SchemaEntry, Stream, StreamReader
from storage_core.avro import AvroSchema
from streaming_jobs.jobs.roll_up import roll_up
from streaming_jobs.jobs.rollup.calendar import LEVELS
from tests.broker.support.spark_kafka import avro_jars, connector_jars

_ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_ROLL_UP_ROWS", "5000000"))
_VALUES: Final = 10_000
_IDS: Final = 1000
# Three hours of them, whatever their number.
_SPAN_MS: Final = 3 * 3_600_000
_SCHEMA_ID: Final = 7
_NAME: Final = "measured"
_FIELD: Final = "temperature"
_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Report",
        "fields": [
            {"name": "device", "type": "int"},
            {"name": "seq", "type": "long"},
            {"name": "temperature", "type": "double"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)


def _values() -> list[bytes]:
    schema = fastavro.parse_schema(json.loads(_SCHEMA))
    values = []
    for number in range(_VALUES):
        body = io.BytesIO()
        report = {"device": number % _IDS, "seq": number, "temperature": number / 8, "at": 0}
        fastavro.schemaless_writer(body, schema, report)
        values.append(b"\0" + _SCHEMA_ID.to_bytes(4, "big") + body.getvalue())
    return values


def _times(places: Any) -> Any:  # noqa: ANN401 - a number, or numpy's
    return FIRST_PRIMARY + places * _SPAN_MS // _ROWS


def _fill_topic(bootstrap: str) -> Measured:
    values = _values()
    settings = {"linger.ms": "20", "batch.size": "500000", "compression.type": "none"}
    with Producer(bootstrap, settings) as producer:
        for number in range(_ROWS):
            key = (number % _IDS).to_bytes(4, "big")
            partition = number % _IDS % PARTITIONS
            producer.send(_NAME, key, values[number % _VALUES], _times(number), None, partition)
            if number % 1000 == 0:
                producer.poll()
    assert producer.acknowledged == _ROWS, producer.first_failure
    return {}


def _fill_stream(root: Path) -> None:
    schema = AvroSchema.parse(_SCHEMA)
    entry = SchemaEntry(_SCHEMA_ID, schema.identity, schema.text)
    values: Any = pa.array(_values(), pa.binary())
    with Stream.create(root, _NAME, SHARDS) as stream:
        for first in range(0, _ROWS, _VALUES):
            places = np.arange(first, min(first + _VALUES, _ROWS))
            batch = {
                "primary": pa.array(_times(places)),
                "secondary": pa.array((places % _IDS).astype(np.int32)),
                "payload": values[: len(places)],
                "schema": pa.array(np.zeros(len(places), np.int32)),
            }
            stream.append_batch(pa.table(batch), schemas=[entry])
            stream.commit()


def rolled_up(place: Path, *, root: Path) -> Measured:
    """Run the job over all there is; return its rates."""
    with empty_directory(place) as scratch:
        into = f"rolled-{scratch.name}"
        measured = rates_of(
            lambda: roll_up(
                SparkSession.active(),
                root,
                _NAME,
                _FIELD,
                into,
                checkpoint=scratch / "checkpoint",
                once=True,
            ),
            _ROWS,
        )
    _check(root, into)
    return measured


def _check(root: Path, into: str) -> None:
    for level in LEVELS:
        with StreamReader.open(root, f"{into}-{level}") as reader:
            assert reader.read(latest_by="primary", columns=["primary"]).num_rows >= _IDS, level


def rolled_up_by_hand(place: Path, *, options: Mapping[str, str]) -> Measured:
    """Run the same over a topic, written in Spark's own words; return its rates."""
    spark = SparkSession.active()
    value = f.expr("substring(value, 6)")
    whose = f.conv(f.hex("key"), 16, 10).cast("int").alias("id")
    fields = from_avro(value, _SCHEMA).getField(_FIELD).alias("v")
    frame = spark.readStream.format("kafka").options(**options).load()
    rows = frame.select(whose, f.col("timestamp").alias("t"), fields)
    with empty_directory(place) as scratch:

        def write(batch: DataFrame, _number: int) -> None:
            rollups = _singles(batch)
            for level in LEVELS:
                rollups = _merged(rollups, level).persist()
                rollups.write.mode("append").parquet(str(scratch / level))

        writer = rows.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        return rates_of(lambda: writer.trigger(availableNow=True).start(), _ROWS)


def _singles(rows: DataFrame) -> DataFrame:
    value, time = f.col("v"), f.col("t")
    measured = {"sum": value, "sum_sq": value * value, "count": f.lit(1)}
    placed = {name: f.struct(value, time) for name in ("min", "max")}
    placed |= {name: f.struct(time, value) for name in ("first", "last")}
    columns = [column.alias(name) for name, column in {**measured, **placed}.items()]
    return rows.select("id", time.alias("start"), *columns)


def _merged(rollups: DataFrame, level: str) -> DataFrame:
    start = f.date_trunc(level, f.col("start")).alias("start")
    sums = [f.sum(name).alias(name) for name in ("count", "sum", "sum_sq")]
    least = [f.min(name).alias(name) for name in ("min", "first")]
    most = [f.max(name).alias(name) for name in ("max", "last")]
    return rollups.groupBy("id", start).agg(*sums, *least, *most)


@contextmanager
def _contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    root.mkdir()
    _fill_stream(root)
    jars = [*connector_jars(), *avro_jars()]
    with Server(BROKER, workspace / "broker") as broker, spark_process(workspace, jars) as spark:
        make_topic(broker.address, _NAME, settings=FOR_EVER)
        answer_of(_fill_topic, broker.address)
        await_compaction(root)
        options = kafkas(broker.address, _NAME)
        yield warmed(
            {
                "ours": lambda: spark.run(rolled_up, workspace, root=root),
                "kafka": lambda: spark.run(rolled_up_by_hand, workspace, options=options),
            }
        )


ROLL_UP: Final = Experiment(
    "roll-up",
    (
        Row(
            "roll-up/kafka",
            "hours, days, months and years of a field, against the same on Kafka's source",
            ("ours", "rate"),
            ("kafka", "rate"),
            limit=1.2,
            wanted=3,
        ),
        Row(
            "roll-up/kafka-cpu",
            "the same by Spark's processor time",
            ("ours", "cpu_rate"),
            ("kafka", "cpu_rate"),
        ),
    ),
    _contestants,
    bytes_needed=6 * 2**30,
)
