"""`land_topic`: a stream into a directory of Parquet with typed columns, partitioned by time.

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

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from storage_core import InvalidRequestError, StreamReader
from streaming_jobs.common.job_options import typer
from streaming_jobs.jobs.batch_span import span_of
from streaming_jobs.jobs.called_elsewhere import where_it_was_called
from streaming_jobs.jobs.command import (
    Checkpoint,
    Mode,
    Once,
    Root,
    RowsMax,
    Schema,
    SkipLost,
    StreamName,
    Trigger,
    run,
)
from streaming_jobs.jobs.directory_claims import checkpoint_of, claim_checkpoint, directory_of
from streaming_jobs.jobs.landing import OWN, Landing, Owner
from streaming_jobs.jobs.newest_schema import newest_schema, text_of
from streaming_jobs.jobs.roots import root_of
from streaming_jobs.jobs.small_files import SIZE_WANTED, delete_leftovers, join_small
from streaming_jobs.jobs.stream_query import TRIGGER, read_stream, start_query

NAME: Final = "land_topic"
_Partition = Literal["hour", "day", "month", "none"]
Into = Annotated[
    str | Path, typer.Argument(metavar="INTO", help="Directory of Parquet.", show_default=False)
]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns to land, with commas between.")
]
Partition = Annotated[
    _Partition, typer.Option(help="Which part of a row's time names its directory, in UTC.")
]
_ALL: Final = "all"
_EARLIEST: Final = -2
_FORMATS: Final = {"hour": "yyyy-MM-dd-HH", "day": "yyyy-MM-dd", "month": "yyyy-MM"}
_ONE_A_FILE: Final = 2_000_000
_CONF: Final = {
    # As all other tools read times; Spark's own default is a type that Parquet deprecates.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}


def land_topic(  # noqa: PLR0913 - what a job is asked for
    spark: SparkSession,
    root: Root,
    stream: StreamName,
    into: Into,
    *,
    schema: Schema = None,
    columns: Columns = None,
    mode: Mode = "FAILFAST",
    partition: Partition = "day",
    once: Once = False,
    trigger: Trigger = TRIGGER,
    max_rows: RowsMax = None,
    skip_lost: SkipLost = False,
    checkpoint: Checkpoint = None,
    size_wanted: int = SIZE_WANTED,
) -> StreamingQuery:
    """Land a stream in a directory of Parquet, each record once.

    Example: python -m streaming_jobs.jobs.land_topic ./data telemetry ./lake --once

    Raises:
        InvalidRequestError: It cannot be done as asked.
        ForeignDataError: Something else lands in the directory.
    """
    root, place = root_of(root), directory_of(into, "into")
    landing = Landing(place)
    owner, shards = _owner(landing, root, stream, partition, schema)
    landed = _recovered(landing, owner)
    where = str(place / OWN / "checkpoint") if checkpoint is None else checkpoint_of(checkpoint)
    options = {}
    if landed:
        # Counts where there is no checkpoint yet: one that was lost is made anew from here.
        begins = {str(shard): landed.get(shard, _EARLIEST) for shard in shards}
        options["startingOffsets"] = json.dumps({stream: begins})
    if owner.schema is not None:
        options |= {"valueFormat": "avro", "readerSchema": owner.schema, "mode": mode}
    if columns is not None:
        options["columns"] = columns
    frame = read_stream(spark, root, stream, options, (max_rows, skip_lost, once))
    if partition != "none":
        _refuse_clash(frame, partition)
    # All checks are done, and have left nothing that the next start has to agree with.
    claim_checkpoint(where, {"job": NAME, "stream": stream})
    landing.claim(owner)
    land = _landing_of(landing, partition, size_wanted, (where, stream))
    land = where_it_was_called(frame, land, root, where, [landing.note])
    return start_query(frame, land, f"{NAME} {stream}", where, None if once else trigger)


def _owner(
    landing: Landing, root: str, stream: str, partition: Partition, schema: str | None
) -> tuple[Owner, list[int]]:
    """Return how the directory is to be owned, and the stream's shards; it can be claimed so."""
    if partition not in get_args(_Partition):
        message = f"partition {partition!r} is not {', '.join(get_args(_Partition))}"
        raise InvalidRequestError(message)
    previous = landing.owner()
    with StreamReader.open(root, stream) as reader:
        if partition != "none" and reader.options.unit == "sequence" and reader.origin is None:
            message = (
                f"stream {stream!r} counts a sequence, so its rows have no time to partition by: "
                "use partition none"
            )
            raise InvalidRequestError(message)
        if schema is None:
            schema = previous.schema if previous is not None else newest_schema(reader)
        else:
            schema = text_of(schema)
        # Rows of a log that has replaced another must not land behind those of the other.
        logs = [reader.position().incarnation, *sorted(reader.archived_lineages())]
        owner = Owner(stream, "~".join(logs), partition, schema)
        shards = list(reader.committed())
    landing.refuse_others(previous, owner)
    return owner, shards


def _recovered(landing: Landing, owner: Owner) -> Mapping[int, int]:
    """Finish what an earlier run left; return up to which offset each shard has landed."""
    previous = landing.owner()
    if previous is None:
        return {}
    with landing.lock():
        landing.refuse_others(previous, owner)
        landing.recover()
        landed = landing.landed()
    delete_leftovers(landing.into)
    return landed


def _refuse_clash(frame: DataFrame, partition: str) -> None:
    names = {name.lower() for name in frame.columns}
    if "timestamp" not in names:
        message = (
            f"columns must include timestamp, by which rows are partitioned into a {partition} each"
        )
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


if __name__ == "__main__":
    run(land_topic, NAME)
