"""`drain_late`: the late rows of a stream, and how late each was, as a stream of corrections.

    query = drain_late(spark, root, "telemetry", checkpoint="/var/lib/jobs/late", once=True)
    python -m streaming_jobs.jobs.drain_late ROOT STREAM --checkpoint DIR --once

Each row that came behind its id's newest (`state` 1) is written to `<stream>-late` as it is, with
two headers more: `shardlog.late_by`, how far its primary lay below the largest that its id had by
then, in the stream's unit; and `shardlog.origin`, its topic, shard and offset. So a job that keeps
something up to date by windows, or by id, subscribes to what it has to mend, and reads no more.

Values of Avro are written by one schema, the newest that the stream has when the job starts unless
one is named; so the corrections are read by fields as the stream is. One that cannot be read goes
on as its bytes.

How late a row was stands nowhere in the log. It is found among the rows of that time: those from
the least late primary on, up to the late row, so the cost follows from how late rows are. Where
retention has taken the newest row by then, there is no `shardlog.late_by`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from storage_core import InvalidRequestError, StreamReader, is_stream_name, list_streams
from streaming_jobs.common.job_options import typer
from streaming_jobs.jobs.called_elsewhere import where_it_was_called
from streaming_jobs.jobs.checkpoint_files import query_id_of
from streaming_jobs.jobs.command import (
    CheckpointNeeded,
    Once,
    Root,
    RowsMax,
    Schema,
    SkipLost,
    Starting,
    StreamName,
    Trigger,
    run,
)
from streaming_jobs.jobs.directory_claims import checkpoint_of, claim_checkpoint
from streaming_jobs.jobs.newest_schema import newest_schema, text_of_file
from streaming_jobs.jobs.roots import options_of, refuse_several, root_of
from streaming_jobs.jobs.stream_query import TRIGGER, read_stream, start_query

NAME: Final = "drain_late"
LATE_BY: Final = "shardlog.late_by"
ORIGIN: Final = "shardlog.origin"
_STATE_NORMAL: Final = 0
_STATE_LATE: Final = 1
_LATEST: Final = -1
# More are not named one by one: all rows of the time are read.
_IDS_MAX: Final = 1000
_CORRUPT: Final = "_corrupt_value"
_BESIDE: Final = ("key", "version", "headers", "timestamp", "timestampType")
Into = Annotated[
    str | None,
    typer.Option(metavar="STREAM", help="The stream of corrections.", show_default="<stream>-late"),
]
_PLACE: Final = ("partition", "offset", "state", "primary")


@dataclass(frozen=True, slots=True)
class Drained:
    """A stream whose late rows are wanted.

    Attributes:
        root: Where it is, by its path or by servers.
        stream: Its name.
        unit: What its primaries count.
        id_column: The column of ids: `secondary`, or `key` where ids are a shard's own.
        schema: The schema by which values are read and written; None for bytes.
        is_of_all: Whether keys are only carried, so that rows are late behind any of their shard.
    """

    root: str
    stream: str
    unit: str
    id_column: str
    schema: str | None = None
    is_of_all: bool = False

    @staticmethod
    def of(root: str, stream: str, schema: str | None = None) -> "Drained":
        """Look at a stream; without a schema its newest counts.

        Raises:
            InvalidRequestError: There is no such stream.
        """
        with StreamReader.open(root, stream) as reader:
            id_column = "secondary" if reader.has_ids else "key"
            is_of_all = not reader.has_ids and reader.options.key_mode != "dictionary"
            unit = reader.options.unit
            schema = text_of_file(schema) if schema else newest_schema(reader)
        return Drained(root, stream, unit, id_column, schema, is_of_all)


def drain_late(  # noqa: PLR0913 - what a job is asked for
    spark: SparkSession,
    root: Root,
    stream: StreamName,
    into: Into = None,
    *,
    checkpoint: CheckpointNeeded,
    schema: Schema = None,
    starting: Starting = "earliest",
    once: Once = False,
    trigger: Trigger = TRIGGER,
    max_rows: RowsMax = None,
    skip_lost: SkipLost = False,
) -> StreamingQuery:
    """Write the late rows of a stream, and how late each was, to a stream of corrections.

    Example: python -m streaming_jobs.jobs.drain_late ./data telemetry --checkpoint ./late --once

    Raises:
        InvalidRequestError: It cannot be done as asked.
    """
    root = root_of(root)
    refuse_several(root)
    drained = Drained.of(root, stream, schema)
    into, where = into or f"{stream}-late", checkpoint_of(checkpoint)
    _check_name(into, stream)
    if into in list_streams(drained.root):
        _check_target(into, drained)
    options = {"includeHeaders": "true", "startingOffsets": starting}
    if drained.schema is not None:
        options |= {"valueFormat": "avro", "readerSchema": drained.schema, "mode": "PERMISSIVE"}
    frame = read_stream(spark, drained.root, stream, options, (max_rows, skip_lost, once))
    correct = _correcting(drained, into, where)
    claim_checkpoint(where, {"job": NAME, "stream": stream, "into": into})
    correct = where_it_was_called(frame, correct, drained.root, where)
    return start_query(frame, correct, f"{NAME} {stream}", where, None if once else trigger)


def _check_name(into: str, stream: str) -> None:
    if into == stream:
        message = f"corrections of {stream!r} cannot be written to itself; name another with into"
        raise InvalidRequestError(message)
    if not is_stream_name(into):
        message = f"{into!r} can be no stream's name; name another with into"
        raise InvalidRequestError(message)


def _check_target(into: str, drained: Drained) -> None:
    """Refuse a stream that is there and has something else than corrections of these rows."""
    kinds = {True: "keys", False: "ids"}
    has_keys = drained.id_column == "key"
    with StreamReader.open(drained.root, into) as reader:
        options = reader.options
        fault = None
        if reader.origin is not None:
            fault = "is a topic's"
        elif options.unit != drained.unit:
            fault = f"counts {options.unit}, and {drained.stream!r} {drained.unit}"
        elif (options.key_mode == "dictionary") != has_keys:
            of_whom = f"{kinds[not has_keys]}, and those of {drained.stream!r} of {kinds[has_keys]}"
            fault = f"has rows that are of {of_whom}"
        elif not _begins_with_a_correction(reader):
            fault = "holds rows that are no corrections"
    if fault is not None:
        message = f"stream {into!r} {fault}; name another with into"
        raise InvalidRequestError(message)


def _begins_with_a_correction(reader: StreamReader) -> bool:
    for batch in reader.scan(columns=["headers"]):
        if batch.num_rows:
            headers = batch.column("headers")[0].as_py() or []
            return any(one["key"] == ORIGIN for one in headers)
    return True


def with_lateness(late: DataFrame, drained: Drained) -> DataFrame:
    """Return late rows with a column `late_by`, null where the log does not tell any more.

    They need columns partition, offset, state, primary, and who they are of.
    """
    id_column = drained.id_column
    ids = [row[0] for row in late.select(id_column).distinct().limit(_IDS_MAX + 1).collect()]
    bounds = late.groupBy("partition").agg(f.max("offset"), f.min("primary")).collect()
    ends, least = {row[0]: row[1] + 1 for row in bounds}, min((row[2] for row in bounds), default=0)
    before = _rows_of_the_time(late.sparkSession, drained, ids, least, ends)
    both = before.unionByName(late, allowMissingColumns=True)
    of_whom = ("partition",) if drained.is_of_all else ("partition", id_column)
    rows_of_id = Window.partitionBy(*of_whom).orderBy("offset")
    moving = f.when(f.col("state") == _STATE_NORMAL, f.col("primary"))
    newest = f.max(moving).over(rows_of_id.rowsBetween(Window.unboundedPreceding, -1))
    judged = both.withColumn("late_by", newest - f.col("primary"))
    return judged.where(f.col("state") == _STATE_LATE)


def _rows_of_the_time(
    spark: SparkSession, drained: Drained, ids: list[object], least: int, ends: dict[int, int]
) -> DataFrame:
    """Return the normal rows among which the newest of each late row's time is."""
    with StreamReader.open(drained.root, drained.stream) as reader:
        # Of shards without late rows all is read and left out, so that expiry cannot pass a bound.
        bounds = {str(shard): ends.get(shard, _LATEST) for shard in reader.committed()}
    source = spark.read.format("shardlog").options(**options_of(drained.root))
    source = source.option("stream", drained.stream).option("startPrimary", str(least))
    source = source.option("endingOffsets", json.dumps({drained.stream: bounds}))
    source = source.option("columns", ",".join((*_PLACE, drained.id_column)))
    if drained.id_column == "secondary" and len(ids) <= _IDS_MAX:
        source = source.option("ids", ",".join(str(one) for one in ids))
    is_there = f.col("partition").isin(list(ends))
    return source.load().where((f.col("state") == _STATE_NORMAL) & is_there)


def _correcting(drained: Drained, into: str, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """Return what is done with each batch: its late rows are written, once."""

    def correct(batch: DataFrame, number: int) -> None:
        late = batch.where(f.col("state") == _STATE_LATE).persist()
        try:
            if not late.isEmpty():
                app = f"{NAME}:{query_id_of(batch.sparkSession, checkpoint)}"
                _write(with_lateness(late, drained), drained, into, (app, number))
        finally:
            late.unpersist()

    return correct


def _write(late: DataFrame, drained: Drained, into: str, batch: tuple[str, int]) -> None:
    rows = late.withColumn("headers", _headers())
    beside = ["primary", *dict.fromkeys((drained.id_column, *_BESIDE))]
    if drained.schema is None:
        _append(rows.select("value", *beside), drained, into, batch)
        return
    is_read = f.col(_CORRUPT).isNull()
    left_out = {*_PLACE, "primary", "topic", "late", "late_by", "schema_id", "secondary", _CORRUPT}
    fields = [name for name in rows.columns if name not in left_out | {*beside}]
    _append(rows.where(is_read).select(*fields, *beside), drained, into, batch, "avro")
    app, number = batch
    bytes_left = rows.where(~is_read).withColumn("value", f.col(_CORRUPT))
    if not bytes_left.isEmpty():
        _append(bytes_left.select("value", *beside), drained, into, (f"{app}:bytes", number))


def _append(
    rows: DataFrame, drained: Drained, into: str, batch: tuple[str, int], value_format: str = "raw"
) -> None:
    writer = rows.write.format("shardlog").mode("append").options(**options_of(drained.root))
    writer = writer.option("stream", into).option("unit", drained.unit)
    if drained.id_column == "key":
        writer = writer.option("keyMode", "dictionary")
    # How late a row was is lost with the rows of its time: then a batch that comes again differs.
    writer = writer.option("onChangedBatch", "skip").option("txnAppId", batch[0])
    if value_format == "avro":
        writer = writer.option("valueFormat", "avro").option("writerSchema", drained.schema)
    writer.option("txnVersion", str(batch[1])).save()


def _headers() -> Column:
    own = f.coalesce(f.col("headers"), f.array())
    late_by = f.when(f.col("late_by").isNotNull(), f.array(_header(LATE_BY, f.col("late_by"))))
    place = f.concat_ws("/", "topic", "partition", "offset")
    return f.concat(own, f.coalesce(late_by, f.array()), f.array(_header(ORIGIN, place)))


def _header(name: str, value: Column) -> Column:
    text = f.encode(value.cast("string"), "UTF-8")
    return f.struct(f.lit(name).alias("key"), text.alias("value"))


if __name__ == "__main__":
    run(drain_late, NAME)
