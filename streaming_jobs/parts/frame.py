"""A stream as a DataFrame that Spark reads itself: its parts by Spark's own reader of Parquet.

    from streaming_jobs.parts import dataframe

    rows = dataframe(spark, "./data", "telemetry")
    rows.where("secondary = 7").groupBy("room").avg("temperature")

Filters and columns reach the files: Spark reads the columns that a query names, and skips groups of
rows by their statistics. It is a snapshot of the stream, as SQL over it shows it, columns and all
(docs/SQL.md): the list of its parts, and beside them the rows that are not sealed yet, which the
driver hands over. What has expired is not shown. Called on the driver.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from os import PathLike, fsdecode
from typing import Any, Final, NoReturn

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import DataType, StructField, StructType

from storage_core import InvalidRequestError
from storage_core.parts.part_home import local_files
from storage_core.parts.visible_rows import COMPARED_COLUMNS, as_condition, visible_rows
from storage_core.platform.name_suggestions import unknown_names
from storage_core.sql.access.path_streams import PathStreams
from storage_core.sql.part_groups import SNAPSHOT_TRIES_MAX, PartGoneError
from storage_core.sql.query_errors import missing_part_error
from storage_core.sql.stream_snapshot import StreamSnapshot, take_snapshot
from storage_core.sql.type_unification import OutputColumn
from streaming_jobs.common.field_types import shown_types
from streaming_jobs.common.option_values import path_here
from streaming_jobs.common.spark_features import lacks_split_floats
from streaming_jobs.parts.casts import named, value_of

# What Spark has no reader of in files, and what the column would be.
_UNREAD: Final = "{} is {}, which Spark cannot read from Parquet; leave it out by `columns`"
_SPLIT: Final = (
    "Spark {} cannot read the numbers of {!r} from Parquet, which are BYTE_STREAM_SPLIT, with {}: "
    "set it to false, or leave the column out by `columns`"
)
FILE_OPTIONS: Final = {
    # IMPORTANT: a file that is not there, or is damaged, is an error whatever the session says.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # NOTE: Spark (4.3) compares no page with its checksum unless told so, and shows what is there.
    "parquet.page.verify-checksum.enabled": "true",
    "datetimeRebaseMode": "CORRECTED",
}
# NOTE: Spark (4.3) takes paths for patterns. Told not to (`__globPaths__`), it reads all of several
# paths once for each that looks like one.
_PATTERN: Final = re.compile(r"([][{}*?\\])")
_arrow: Any = pa.types  # the stubs do not tell one kind of type from another


def dataframe(
    spark: SparkSession,
    root: str | PathLike[str],
    stream: str,
    columns: Iterable[str] | None = None,
) -> DataFrame:
    """Return a snapshot of a stream.

    A file that goes later ends a query over the frame (`FAILED_READ_FILE.FILE_NOT_EXIST`), as one
    that has expired, was joined with others longer ago than the stream's `keep_replaced` says, that
    `keep_local` lets go, or of a log that another one took the place of; ask for a frame anew then.
    Rows that
    are not sealed are held by the driver. Of parts that only the stream's lake has copies are made
    here first, which stay for a while; where these are many, read the lake's table itself.

    Args:
        spark: The session.
        root: The root, or its `file:` URI, which tasks see under the same path; `~` in front is
            the home directory.
        stream: The stream's name.
        columns: Those wanted, a list of names; all if None.

    Raises:
        InvalidRequestError: There is no such stream or column, or Spark cannot read one.
        CorruptionError: A part is not there.
        UnavailableError: Parts went on being deleted before they could be read, or the lake does
            not answer.
    """
    wanted = _checked(columns)
    place = path_here("root", fsdecode(root), "a directory")
    for _ in range(SNAPSHOT_TRIES_MAX):
        try:
            moment = take_snapshot(place, stream)
            sources = [*_files(spark, moment, wanted), *_hot(spark, moment, wanted)]
        except (PartGoneError, FileNotFoundError):
            continue
        return _united(sources, wanted)
    raise missing_part_error(PathStreams(place), [stream])


def _checked(columns: Iterable[str] | None) -> list[str] | None:
    """Return names as a list; one text alone would be taken for the names of its letters."""
    if columns is None:
        return None
    wanted = [] if isinstance(columns, str) else list(columns)
    if isinstance(columns, str) or not all(isinstance(name, str) for name in wanted):
        message = f"columns: {columns!r} is no list of names"
        raise InvalidRequestError(message)
    return wanted


def _files(
    spark: SparkSession, moment: StreamSnapshot, wanted: Sequence[str] | None
) -> Iterator[DataFrame]:
    """Yield the rows of parts that are shown, those of one schema together."""
    for columns, files in moment.parts:
        selected = _selected(columns, wanted)
        schema = _as_spark(selected)
        _refuse_floats(spark, selected)
        try:
            rows = (
                spark.read.options(**FILE_OPTIONS)
                .schema(schema)
                .parquet(*(as_written(f"file://{file}") for file in local_files(files.parts)))
            )
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                raise FileNotFoundError from error
            raise
        yield _cast(rows.where(_is_visible(moment)) if files.has_hidden else rows, selected)


def _refuse_floats(spark: SparkSession, columns: Iterable[OutputColumn]) -> None:
    """Refuse columns that Spark, as it is set, has no reader of; its own error names none."""
    setting = lacks_split_floats(spark)
    if setting is None:
        return
    for column in columns:
        if any(_arrow.is_floating(source.type) for source in column.sources):
            raise InvalidRequestError(_SPLIT.format(spark.version, column.name, setting))


def as_written(uri: str) -> str:
    """Return a file's URI as Spark takes it for that file, and for no pattern of several."""
    return _PATTERN.sub(r"\\\1", uri)


def _hot(
    spark: SparkSession, moment: StreamSnapshot, wanted: Sequence[str] | None
) -> Iterator[DataFrame]:
    """Yield the rows that are not sealed."""
    for columns, table in moment.hot:
        selected = _selected(columns, wanted)
        schema = _as_spark(selected)
        rows: Any = table.select(schema.names)
        arrow = pa.schema([(one.name, shown_types(_plain(one.type))[1]) for one in rows.schema])
        # NOTE: PySpark (4.3) makes nothing of a table whose lists have no rows.
        handed_over = rows.cast(arrow) if len(rows) else []
        yield _cast(spark.createDataFrame(handed_over, schema).where(_is_visible(moment)), selected)


def _selected(columns: Iterable[OutputColumn], wanted: Sequence[str] | None) -> list[OutputColumn]:
    """Return the columns of a table that are shown, or needed to tell what is."""
    names = None if wanted is None else {*map(str.lower, wanted), *COMPARED_COLUMNS}
    return [one for one in columns if names is None or one.name.lower() in names]


def _as_spark(columns: Iterable[OutputColumn]) -> StructType:
    """Return columns of a table by Spark's types."""
    fields: dict[str, StructField] = {}
    for column in columns:
        for kind in column.types:
            # Whichever rows are there: a schema tells what a column can have.
            _type_of(column.name, kind)
        for source in column.sources:
            name = source.name
            previous = fields.get(name.lower())
            if previous is not None and previous.name != name:
                _refuse_alike(previous.name, name)
            fields[name.lower()] = StructField(name, _type_of(column.name, source.type))
    return StructType(list(fields.values()))


def _cast(rows: DataFrame, columns: Iterable[OutputColumn]) -> DataFrame:
    """Return rows of a table as they are beside those of others."""
    return rows.select(*map(value_of, columns))


def _type_of(name: str, kind: pa.DataType) -> DataType:
    unread = next((one for one in _leaves(kind) if _is_unread(one)), None)
    if unread is not None:
        raise InvalidRequestError(_UNREAD.format(repr(name), unread))
    return shown_types(_plain(kind))[0]


def _refuse_alike(name: str, other: str) -> NoReturn:
    message = (
        f"columns of a part, {name!r} and {other!r}, differ only in case, which Spark does not "
        "tell apart; leave them out by `columns`, or ask in SQL"
    )
    raise InvalidRequestError(message)


def _plain(kind: Any) -> pa.DataType:  # noqa: ANN401 - a type of Arrow's
    """Return a type that fields of Avro have for one that parts have: numbers of 32 bits, texts."""
    if _arrow.is_dictionary(kind):
        return _plain(kind.value_type)
    is_small = _arrow.is_integer(kind) and kind not in (pa.int32(), pa.int64())
    return pa.int32() if is_small else kind


def _leaves(kind: Any) -> Iterator[pa.DataType]:  # noqa: ANN401 - a type of Arrow's
    if not _arrow.is_nested(kind):
        yield kind
    for index in range(kind.num_fields):
        yield from _leaves(kind.field(index).type)


def _is_unread(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    is_ns = _arrow.is_timestamp(kind) and kind.unit == "ns"
    return bool(is_ns or _arrow.is_time(kind) or _arrow.is_null(kind))


def _united(
    sources: Sequence[DataFrame],
    wanted: Sequence[str] | None,
) -> DataFrame:
    names = list(dict.fromkeys(name for rows in sources for name in rows.columns))
    lowered = {name.lower() for name in names}
    unknown = [name for name in wanted or () if name.lower() not in lowered]
    if unknown:
        message = unknown_names("columns", unknown, names)
        raise InvalidRequestError(message)
    try:
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), sources)
        return rows if wanted is None else rows.select(*map(named, wanted))
    except AnalysisException as error:
        raise InvalidRequestError(str(error).splitlines()[0]) from error


def _is_visible(moment: StreamSnapshot) -> Column:
    """Return the condition on rows that are visible."""
    condition: Column = as_condition(visible_rows(moment.shards), F.col)
    return condition
