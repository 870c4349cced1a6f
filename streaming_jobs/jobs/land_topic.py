"""`land_topic`: a stream into a directory of Parquet with typed columns, parted by time.

    query = land_topic(spark, root, "telemetry", "/lake/telemetry", once=True)
    python -m streaming_jobs.jobs.land_topic ROOT STREAM INTO --once

Each record lands once, whatever is killed (landing.py); small files are joined (small_files.py).
Values of Avro are columns by one schema, the one that was named, or the newest that the stream had
when the first batch landed; it is kept with the directory, so that a restart reads by it too.
Raw streams land with their values as bytes.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import typer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from storage_core import InvalidRequestError, StreamReader
from streaming_jobs.jobs.batch_span import span_of
from streaming_jobs.jobs.command import (
    Checkpoint,
    Master,
    Once,
    Root,
    RowsMax,
    Schema,
    Settings,
    SkipLost,
    StreamName,
    Trigger,
    conduct,
    run,
)
from streaming_jobs.jobs.landing import OWN, Landing, Owner
from streaming_jobs.jobs.newest_schema import newest_schema, text_of
from streaming_jobs.jobs.places import checkpoint_of, claim_checkpoint, directory_of
from streaming_jobs.jobs.small_files import SIZE_WANTED, join_small, sweep

NAME: Final = "land_topic"
Partition = Literal["hour", "day", "month", "none"]
Mode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
_ALL: Final = "all"
_EARLIEST: Final = -2
_FORMATS: Final = {"hour": "yyyy-MM-dd-HH", "day": "yyyy-MM-dd", "month": "yyyy-MM"}
_TRIGGER: Final = "30 seconds"
_ONE_A_FILE: Final = 2_000_000
_CONF: Final = {
    # As all other tools read times; Spark's own default is a type that Parquet has given up.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}


def land_topic(  # noqa: PLR0913 - what a job is asked for
    spark: SparkSession,
    root: str | Path,
    stream: str,
    into: str | Path,
    *,
    schema: str | None = None,
    columns: str | None = None,
    mode: Mode = "FAILFAST",
    partition: Partition = "day",
    once: bool = False,
    trigger: str = _TRIGGER,
    max_rows: int | None = None,
    skip_lost: bool = False,
    checkpoint: str | Path | None = None,
    size_wanted: int = SIZE_WANTED,
) -> StreamingQuery:
    """Begin to land a stream, or go on; the query ends by itself with `once`.

    Args:
        spark: The session.
        root: The directory that holds the streams.
        stream: The stream.
        into: The directory that rows land in.
        schema: The schema to read values by, as the source's option `readerSchema`.
        columns: The columns to land, with commas between; all without it.
        mode: What to do with values that cannot be read.
        partition: Which part of a row's time names its directory.
        once: Whether to end with what is there.
        trigger: How often to look for rows.
        max_rows: How many rows a batch takes at most.
        skip_lost: Whether to go on where rows have expired, or were lost, that had not landed.
        checkpoint: Where Spark keeps how far it came; within `into` without it.
        size_wanted: Bytes from which on a file is no longer joined with others.

    Raises:
        InvalidRequestError: It cannot be done as asked.
        ForeignDataError: Something else lands in the directory.
    """
    place = directory_of(into, "into")
    landing = Landing(place)
    owner, shards = _owner(landing, Path(root), stream, partition, schema)
    landed = _recovered(landing, owner)
    where = str(place / OWN / "checkpoint") if checkpoint is None else checkpoint_of(checkpoint)
    source = spark.readStream.format("shardlog").option("path", str(root)).option("stream", stream)
    # Counts where there is no checkpoint yet: one that was lost is made anew from here.
    begins = {str(shard): landed.get(shard, _EARLIEST) for shard in shards}
    begin = json.dumps({stream: begins})
    source = source.option("startingOffsets", begin if landed else "earliest")
    if owner.schema is not None:
        source = source.option("valueFormat", "avro").option("readerSchema", owner.schema)
        source = source.option("mode", mode)
    if columns is not None:
        source = source.option("columns", columns)
    if max_rows is not None:
        source = source.option("maxOffsetsPerTrigger", str(max_rows))
    if skip_lost:
        source = source.option("failOnDataLoss", "false")
    frame = source.load()
    if partition != "none":
        _refuse_clash(frame, partition)
    # What is wrong was told by now, and has left nothing that the next start has to agree with.
    claim_checkpoint(where, {"job": NAME, "stream": stream})
    landing.claim(owner)
    land = _landing_of(landing, partition, size_wanted, (where, stream))
    writer = frame.writeStream.foreachBatch(land).option("checkpointLocation", where)
    writer = writer.queryName(f"{NAME} {stream}")
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


def _owner(
    landing: Landing, root: Path, stream: str, partition: Partition, schema: str | None
) -> tuple[Owner, list[int]]:
    """Return how the directory is to be owned, and the stream's shards; it can be claimed so."""
    if partition not in get_args(Partition):
        message = f"partition {partition!r} is not {', '.join(get_args(Partition))}"
        raise InvalidRequestError(message)
    there = landing.owner()
    with StreamReader.open(root, stream) as reader:
        if partition != "none" and reader.options.unit == "sequence" and reader.origin is None:
            message = (
                f"stream {stream!r} counts a sequence, so its rows have no time to be parted by: "
                "use partition none"
            )
            raise InvalidRequestError(message)
        if schema is None:
            schema = there.schema if there is not None else newest_schema(reader)
        else:
            schema = text_of(schema)
        owner = Owner(stream, reader.position().incarnation, partition, schema)
        shards = list(reader.committed())
    landing.refuse_others(there, owner)
    return owner, shards


def _recovered(landing: Landing, owner: Owner) -> Mapping[int, int]:
    """Finish what an earlier run left; return up to which offset each shard has landed."""
    there = landing.owner()
    if there is None:
        return {}
    with landing.lock():
        landing.refuse_others(there, owner)
        landing.recover()
        landed = landing.landed()
    sweep(landing.into)
    return landed


def _refuse_clash(frame: DataFrame, partition: str) -> None:
    names = {name.lower() for name in frame.columns}
    if "timestamp" not in names:
        message = f"columns must have timestamp, by which rows are parted into a {partition} each"
        raise InvalidRequestError(message)
    if partition in names:
        message = (
            f"a column is called {partition}, as the directories would be: leave it out with "
            "columns, or use another partition"
        )
        raise InvalidRequestError(message)


def _landing_of(
    landing: Landing, partition: Partition, size_wanted: int, plan: tuple[str, str]
) -> Callable[[DataFrame, int], None]:
    """Return what is done with each batch."""

    def land(batch: DataFrame, number: int) -> None:
        span = span_of(batch.sparkSession, *plan, number)
        with landing.lock():
            landing.recover()
            if landing.has_landed(span.begins, span.ends, number):
                return
            _stage(batch, landing.staging, partition)
            landed = landing.publish(span.ends)
            join_small(landing.into, (file.parent for file in landed), size_wanted)

    return land


def _stage(batch: DataFrame, place: Path, partition: Partition) -> None:
    # The session of a query's batches is the query's own.
    for name, value in _CONF.items():
        batch.sparkSession.conf.set(name, value)
    if partition == "none":
        # A directory of their own, as the others have.
        writer, place = batch.write, place / _ALL
    else:
        writer = batch.withColumn(partition, _time(partition)).write.partitionBy(partition)
    writer.mode("overwrite").option("maxRecordsPerFile", _ONE_A_FILE).parquet(str(place))


def _time(partition: Partition) -> Column:
    return f.date_format("timestamp", _FORMATS[partition])


def command(  # noqa: PLR0913 - a command's arguments
    root: Root,
    stream: StreamName,
    into: Annotated[
        str, typer.Argument(metavar="INTO", help="Directory of Parquet.", show_default=False)
    ],
    schema: Schema = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to land, with commas between.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="What to do with values that cannot be read.")] = (
        "FAILFAST"
    ),
    partition: Annotated[
        Partition, typer.Option(help="Which part of a row's time names its directory, in UTC.")
    ] = "day",
    once: Once = False,
    trigger: Trigger = _TRIGGER,
    max_rows: RowsMax = None,
    skip_lost: SkipLost = False,
    checkpoint: Checkpoint = None,
    master: Master = "local[*]",
    conf: Settings = None,
) -> None:
    """Land a stream in a directory of Parquet, each record once.

    Example: python -m streaming_jobs.jobs.land_topic ./data telemetry ./lake --once
    """

    def begin(spark: SparkSession) -> StreamingQuery:
        return land_topic(
            spark,
            root,
            stream,
            into,
            schema=schema,
            columns=columns,
            mode=mode,
            partition=partition,
            once=once,
            trigger=trigger,
            max_rows=max_rows,
            skip_lost=skip_lost,
            checkpoint=checkpoint,
        )

    conduct(NAME, master, conf, begin)


if __name__ == "__main__":
    run(command, NAME)
