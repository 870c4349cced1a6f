"""`roll_up`: a stream's measurements by hour, day, month and year, as records that can be merged.

    query = roll_up(spark, root, "telemetry", "temperature", checkpoint="/var/lib/jobs/temperature",
                    zone="Europe/Berlin", once=True)
    python -m streaming_jobs.jobs.roll_up ROOT STREAM --value FIELD --checkpoint DIR --once

Each id, or key, gets a record a window: count, sum, sum of squares, least, greatest, first and last
with their times. They lie in streams `<into>-hour`, `<into>-day`, …, where the newest row of an id
and window counts (rollup_record.py), and as Parquet if wanted. Rows that come late change the
windows that they belong to, and those above (cascade.py).

A value is read by a schema of its one field, `["null", "double"]`, which resolves against each
schema that rows were written by; so schemas may change under a job that runs. Rows without it are
left out and counted.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
import typer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NumericType

from storage_core import InvalidRequestError, StreamReader, is_stream_name, root_id
from storage_core.avro import AvroSchema
from streaming_jobs.common.field_columns import column_of
from streaming_jobs.jobs.command import (
    CheckpointNeeded,
    Master,
    Once,
    Root,
    RowsMax,
    Settings,
    SkipLost,
    StreamName,
    Trigger,
    conduct,
    run,
)
from streaming_jobs.jobs.newest_schema import text_of
from streaming_jobs.jobs.places import checkpoint_of, claim_checkpoint, directory_of, has_come_on
from streaming_jobs.jobs.rollup.calendar import LEVELS, Calendar, Level
from streaming_jobs.jobs.rollup.cascade import Cascade
from streaming_jobs.jobs.rollup.floors import refuse_caps, warn_of_short_retention
from streaming_jobs.jobs.rollup.measuring import Measuring
from streaming_jobs.jobs.rollup.older_rows import OlderRows
from streaming_jobs.jobs.rollup.rollup_files import RollupFiles
from streaming_jobs.jobs.rollup.rollup_streams import RollupStreams

NAME: Final = "roll_up"
From = Literal["earliest", "latest"]
Mode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
_TRIGGER: Final = "30 seconds"
_UTC: Final = "UTC"
_ALL_LEVELS: Final = ",".join(LEVELS)
_Value = Annotated[
    str, typer.Option(metavar="FIELD", help="Field to measure, a number.", show_default=False)
]
_Into = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What the streams of roll-ups are called before -hour, -day, …",
        show_default="STREAM-FIELD",
    ),
]
_Zone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of the calendar, as Europe/Berlin.")
]
_Levels = Annotated[
    str, typer.Option(metavar="A,B", help="Levels, with commas between and none left out.")
]
_Starting = Annotated[From, typer.Option("--from", help="Where the first start begins.")]
_Parquet = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Directory to write the roll-ups to as Parquet too."),
]
_Schema = Annotated[
    str | None,
    typer.Option(
        metavar="SCHEMA",
        help="Schema to read values by: its JSON, a file, or a subject with a version.",
        show_default="one of FIELD alone",
    ),
]
_Mode = Annotated[Mode, typer.Option(help="What to do with values that cannot be read.")]


def roll_up(  # noqa: PLR0913 - what a job is asked for
    spark: SparkSession,
    root: str | Path,
    stream: str,
    value: str,
    into: str | None = None,
    *,
    checkpoint: str | Path,
    zone: str = _UTC,
    levels: Iterable[Level] = LEVELS,
    starting: From = "earliest",
    parquet: str | Path | None = None,
    schema: str | None = None,
    mode: Mode = "FAILFAST",
    once: bool = False,
    trigger: str = _TRIGGER,
    max_rows: int | None = None,
    skip_lost: bool = False,
) -> StreamingQuery:
    """Begin to roll up a stream, or go on; the query ends by itself with `once`.

    Args:
        spark: The session.
        root: The directory that holds the streams.
        stream: The stream.
        value: The field that is measured, a number.
        into: What the streams of roll-ups are called before their levels; `<stream>-<value>`
            without it. They are made if need be.
        checkpoint: Where Spark keeps how far it came.
        zone: The time zone whose calendar windows are of.
        levels: Of hour, day, month and year those wanted, without one left out between.
        starting: Where the first start begins; windows are rolled up whole either way, so that
            there is but one level from `latest` on.
        parquet: A directory to write the roll-ups to as well.
        schema: The schema to read values by, as the source's `readerSchema`; one of `value` alone
            without it.
        mode: What to do with values that cannot be read.
        once: Whether to end with what is there.
        trigger: How often to look for rows.
        max_rows: How many rows a batch takes at most.
        skip_lost: Whether to go on where rows have expired, or were lost, that it had not read.

    Raises:
        InvalidRequestError: It cannot be done as asked.
    """
    wanted, options = _neighbours(levels), _options_of_values(value, schema, mode)
    if starting == "latest" and len(wanted) > 1:
        message = (
            "from latest on, windows above would lack what rows before came to, so only one level "
            "is whole: name one with levels, or begin with earliest"
        )
        raise InvalidRequestError(message)
    if skip_lost:
        # Of what earlier batches had as well: a late row may change a window that has lost some.
        options["failOnDataLoss"] = "false"
    with StreamReader.open(root, stream) as reader:
        measuring = _measuring(reader, stream, Calendar.of(zone), wanted[0], value)
        shards = 1 << max(0, (len(reader.committed()) - 1).bit_length())
        if schema is None:
            _check_field(reader, value)
    name, has_keys = into or f"{stream}-{value}", measuring.whose == "key"
    streams = RollupStreams(str(root), name, measuring.calendar, value, has_keys, shards)
    _check_streams(streams, stream, wanted)
    rows = OlderRows(str(root), stream, options, measuring)
    where = checkpoint_of(checkpoint)
    source = spark.readStream.format("shardlog").options(**options).option("path", str(root))
    source = source.option("stream", stream).option("startingOffsets", starting)
    source = source.option("columns", ",".join(measuring.columns))
    if max_rows is not None:
        source = source.option("maxOffsetsPerTrigger", str(max_rows))
    frame = source.load()
    kind = frame.schema[value].dataType
    if not isinstance(kind, NumericType):
        message = f"values of field {value!r} are {kind.simpleString()}, which is no number"
        raise InvalidRequestError(message)
    files = _files(streams, parquet)
    # With more levels, or files, those of older windows would be missing.
    kept = {"levels": ",".join(wanted), "parquet": "no" if parquet is None else "yes"}
    claim_checkpoint(where, {"job": NAME, "stream": stream, "into": name, **kept})
    _make_streams(streams, wanted, where)
    writer = frame.writeStream.foreachBatch(Cascade(where, rows, streams, wanted, files))
    writer = writer.option("checkpointLocation", where).queryName(f"{NAME} {name}")
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


def _check_streams(streams: RollupStreams, stream: str, levels: Iterable[Level]) -> None:
    for level in levels:
        if streams.name(level) == stream:
            message = f"{stream!r} is read, so it cannot keep roll-ups too; name another with into"
            raise InvalidRequestError(message)
        if not is_stream_name(streams.name(level)):
            message = f"{streams.name(level)!r} can be no stream's name; name another with into"
            raise InvalidRequestError(message)
        streams.check(level)


def _make_streams(streams: RollupStreams, levels: Iterable[Level], checkpoint: str) -> None:
    """Make the streams that are not there, before a first batch; one that is gone is refused."""
    missing = [level for level in levels if not streams.is_there(level)]
    if missing and has_come_on(checkpoint):
        message = (
            f"checkpoint {checkpoint} has come on, and stream {streams.name(missing[0])!r} is "
            "gone, so that windows above would lack what it had: put it back, or begin with a "
            "new checkpoint, which rolls all up anew"
        )
        raise InvalidRequestError(message)
    for level in missing:
        streams.make(level)


def _files(streams: RollupStreams, parquet: str | Path | None) -> RollupFiles | None:
    if parquet is None:
        return None
    files = RollupFiles(directory_of(parquet, "parquet"), streams.calendar, streams.measure)
    files.claim(root_id(streams.root), streams.into)
    return files


def _neighbours(levels: Iterable[str]) -> Sequence[Level]:
    """Return levels from below, which are some that follow on each other."""
    given = set(levels)
    wanted = [level for level in LEVELS if level in given]
    if not wanted or len(wanted) != len(given):
        message = f"levels {', '.join(sorted(given)) or 'none'}: choose of {', '.join(LEVELS)}"
        raise InvalidRequestError(message)
    first = LEVELS.index(wanted[0])
    between = LEVELS[first : first + len(wanted)]
    if tuple(wanted) != between:
        message = (
            f"levels {', '.join(wanted)}: each is made from the one below it, so none may be left "
            "out between"
        )
        raise InvalidRequestError(message)
    return wanted


def _measuring(
    reader: StreamReader, stream: str, calendar: Calendar, level: Level, value: str
) -> Measuring:
    unit = reader.options.unit
    if unit == "sequence":
        message = f"stream {stream!r} counts a sequence, so its rows have no time to be windowed by"
        raise InvalidRequestError(message)
    refuse_caps(reader, stream)
    warn_of_short_retention(reader, stream, level)
    whose = "secondary" if reader.has_ids else "key"
    return Measuring(calendar, level, unit, column_of(value), whose)


def _options_of_values(value: str, schema: str | None, mode: Mode) -> dict[str, str]:
    """Return how the source reads values."""
    if schema is None:
        # It resolves against each schema that has the field as a number, or not at all.
        field = {"name": value, "type": ["null", "double"], "default": None}
        schema = json.dumps({"type": "record", "name": "Measured", "fields": [field]})
    else:
        schema = text_of(schema)
    return {"valueFormat": "avro", "readerSchema": schema, "mode": mode}


def _check_field(reader: StreamReader, value: str) -> None:
    """Refuse a field that no schema of the stream has as a number; without schemas one may come."""
    schemas = [AvroSchema.stored(one.text) for one in reader.schemas()]
    names = dict.fromkeys(each.name for one in schemas for each in one.fields)
    if schemas and value not in names:
        message = f"no schema of the stream has a field {value!r}; there are {', '.join(names)}"
        raise InvalidRequestError(message)
    with_field = [one for one in schemas if any(each.name == value for each in one.fields)]
    kinds = [one.arrow_schema([value]).field(0).type for one in with_field]
    if kinds and all(map(_is_no_number, kinds)):
        message = f"values of field {value!r} are {kinds[-1]}, which is no number"
        raise InvalidRequestError(message)


def _is_no_number(kind: pa.DataType) -> bool:
    # What a union is shown as is a struct, and may hold numbers.
    is_one = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_struct(kind)
    return not (is_one or pa.types.is_decimal(kind))


def _levels_of(text: str) -> list[Any]:
    return [one.strip() for one in text.split(",") if one.strip()]


def command(  # noqa: PLR0913 - a command's arguments
    root: Root,
    stream: StreamName,
    value: _Value,
    checkpoint: CheckpointNeeded,
    into: _Into = None,
    zone: _Zone = _UTC,
    levels: _Levels = _ALL_LEVELS,
    starting: _Starting = "earliest",
    parquet: _Parquet = None,
    schema: _Schema = None,
    mode: _Mode = "FAILFAST",
    once: Once = False,
    trigger: Trigger = _TRIGGER,
    max_rows: RowsMax = None,
    skip_lost: SkipLost = False,
    master: Master = "local[*]",
    conf: Settings = None,
) -> None:
    """Roll up a stream by hour, day, month and year, per id or key.

    Example: python -m streaming_jobs.jobs.roll_up ./data telemetry --value temperature
    --zone Europe/Berlin --checkpoint ./rolled --once
    """

    def begin(spark: SparkSession) -> StreamingQuery:
        return roll_up(
            spark,
            root,
            stream,
            value,
            into,
            checkpoint=checkpoint,
            zone=zone,
            levels=_levels_of(levels),
            starting=starting,
            parquet=parquet,
            schema=schema,
            mode=mode,
            once=once,
            trigger=trigger,
            max_rows=max_rows,
            skip_lost=skip_lost,
        )

    conduct(NAME, master, conf, begin)


if __name__ == "__main__":
    run(command, NAME)
