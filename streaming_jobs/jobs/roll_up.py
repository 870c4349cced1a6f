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
from typing import Annotated, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NumericType

from storage_core import InvalidRequestError, StreamReader, is_stream_name, root_id
from storage_core.avro import AvroSchema
from streaming_jobs.common.field_columns import column_of
from streaming_jobs.common.job_options import typer
from streaming_jobs.jobs.called_elsewhere import where_it_was_called
from streaming_jobs.jobs.command import (
    CheckpointNeeded,
    Mode,
    Once,
    Root,
    RowsMax,
    SkipLost,
    Starting,
    StreamName,
    Trigger,
    run,
)
from streaming_jobs.jobs.directory_claims import (
    checkpoint_of,
    claim_checkpoint,
    directory_of,
    has_come_on,
)
from streaming_jobs.jobs.newest_schema import text_of
from streaming_jobs.jobs.rollup.aggregation import Aggregation
from streaming_jobs.jobs.rollup.calendar import LEVELS, Calendar, Level
from streaming_jobs.jobs.rollup.cascade import Cascade
from streaming_jobs.jobs.rollup.older_rows import OlderRows
from streaming_jobs.jobs.rollup.retention_floor import refuse_caps, warn_of_short_retention
from streaming_jobs.jobs.rollup.rollup_files import RollupFiles
from streaming_jobs.jobs.rollup.rollup_streams import RollupStreams
from streaming_jobs.jobs.roots import refuse_several, root_of
from streaming_jobs.jobs.stream_query import TRIGGER, read_stream, start_query

NAME: Final = "roll_up"
_UTC: Final = "UTC"
_ALL_LEVELS: Final = ",".join(LEVELS)
Value = Annotated[
    str, typer.Option(metavar="FIELD", help="Field to measure, a number.", show_default=False)
]
Into = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What the streams of roll-ups are called before -hour, -day, …",
        show_default="STREAM-FIELD",
    ),
]
Zone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of the calendar, as Europe/Berlin.")
]
Levels = Annotated[
    str | Iterable[str],
    typer.Option(metavar="A,B", help="Levels, with commas between and none left out."),
]
Parquet = Annotated[
    str | Path | None,
    typer.Option(metavar="DIR", help="Directory to write the roll-ups to as Parquet too."),
]
ValueSchema = Annotated[
    str | None,
    typer.Option(
        metavar="SCHEMA",
        help="Schema to read values by: its JSON, a file, or a subject with a version.",
        show_default="one of FIELD alone",
    ),
]


def roll_up(  # noqa: PLR0913 - what a job is asked for
    spark: SparkSession,
    root: Root,
    stream: StreamName,
    value: Value,
    into: Into = None,
    *,
    checkpoint: CheckpointNeeded,
    zone: Zone = _UTC,
    levels: Levels = _ALL_LEVELS,
    starting: Starting = "earliest",
    parquet: Parquet = None,
    schema: ValueSchema = None,
    mode: Mode = "FAILFAST",
    once: Once = False,
    trigger: Trigger = TRIGGER,
    max_rows: RowsMax = None,
    skip_lost: SkipLost = False,
) -> StreamingQuery:
    """Roll up a stream by hour, day, month and year, per id or key.

    Example: python -m streaming_jobs.jobs.roll_up ./data telemetry --value temperature
    --zone Europe/Berlin --checkpoint ./rolled --once

    Raises:
        InvalidRequestError: It cannot be done as asked.
    """
    root = root_of(root)
    refuse_several(root)
    wanted, options = _neighbours(levels), _options_of_values(value, schema, mode)
    if skip_lost:
        # Of what earlier batches had as well: a late row may change a window that has lost some.
        options["failOnDataLoss"] = "false"
    with StreamReader.open(root, stream) as reader:
        aggregation = _aggregation(reader, stream, Calendar.of(zone), wanted[0], value)
        shards = 1 << max(0, (len(reader.committed()) - 1).bit_length())
        if schema is None:
            _check_field(reader, value)
    name, has_keys = into or f"{stream}-{value}", aggregation.whose == "key"
    streams = RollupStreams(root, name, aggregation.calendar, value, has_keys, shards)
    _check_streams(streams, stream, wanted)
    rows = OlderRows(root, stream, options, aggregation)
    where = checkpoint_of(checkpoint)
    read = {**options, "startingOffsets": starting, "columns": ",".join(aggregation.columns)}
    frame = read_stream(spark, root, stream, read, (max_rows, skip_lost, once))
    if starting.lower() != "earliest":
        _check_levels(streams, wanted, starting)
    data_type = frame.schema[value].dataType
    if not isinstance(data_type, NumericType):
        message = f"values of field {value!r} are {data_type.simpleString()}, which is no number"
        raise InvalidRequestError(message)
    files = _files(streams, parquet)
    # With more levels, or files, those of older windows would be missing.
    outputs = {"levels": ",".join(wanted), "parquet": "no" if parquet is None else "yes"}
    claim_checkpoint(where, {"job": NAME, "stream": stream, "into": name, **outputs})
    _make_streams(streams, wanted, where)
    notes = [] if files is None else [files.note]
    cascade = Cascade(where, rows, streams, wanted, files)
    process = where_it_was_called(frame, cascade, root, where, notes)
    return start_query(frame, process, f"{NAME} {name}", where, None if once else trigger)


def _check_streams(streams: RollupStreams, stream: str, levels: Iterable[Level]) -> None:
    for level in levels:
        if streams.name(level) == stream:
            message = f"{stream!r} is read, so it cannot keep roll-ups too; name another with into"
            raise InvalidRequestError(message)
        if not is_stream_name(streams.name(level)):
            message = f"{streams.name(level)!r} can be no stream's name; name another with into"
            raise InvalidRequestError(message)
        streams.check(level)


def _check_levels(streams: RollupStreams, levels: Sequence[Level], starting: str) -> None:
    """Refuse levels that are made of others, where those lack what rows before came to."""
    is_latest = starting.lower() == "latest"
    is_there = not is_latest and all(map(streams.is_there, levels))
    if len(levels) > 1 and not is_there:
        begins = "latest" if is_latest else "these offsets"
        message = (
            f"from {begins} on, windows above would lack what rows before came to, so only one "
            "level is whole: name one with levels, or begin with earliest"
        )
        raise InvalidRequestError(message)


def _make_streams(streams: RollupStreams, levels: Iterable[Level], checkpoint: str) -> None:
    """Make the streams that are not there, before a first batch; one that is gone is refused."""
    missing = [level for level in levels if not streams.is_there(level)]
    if missing and has_come_on(checkpoint):
        message = (
            f"checkpoint {checkpoint} has committed batches, and stream "
            f"{streams.name(missing[0])!r} is gone, so that windows above would lack what it had: "
            "put it back, or begin with a new checkpoint, which rolls up everything again"
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


def _neighbours(levels: str | Iterable[str]) -> Sequence[Level]:
    """Return levels from below, which are some that follow on each other."""
    names = levels.split(",") if isinstance(levels, str) else levels
    named = {name.strip() for name in names} - {""}
    wanted = [level for level in LEVELS if level in named]
    if not wanted or len(wanted) != len(named):
        message = f"levels {', '.join(sorted(named)) or 'none'}: choose of {', '.join(LEVELS)}"
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


def _aggregation(
    reader: StreamReader, stream: str, calendar: Calendar, level: Level, value: str
) -> Aggregation:
    unit = reader.options.unit
    if unit == "sequence":
        message = f"stream {stream!r} counts a sequence, so its rows have no time to be windowed by"
        raise InvalidRequestError(message)
    refuse_caps(reader, stream)
    warn_of_short_retention(reader, stream, level)
    whose = "secondary" if reader.has_ids else "key"
    return Aggregation(calendar, level, unit, column_of(value), whose)


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


if __name__ == "__main__":
    run(roll_up, NAME)
