"""What the PySpark that runs has, from 4.0 to 4.3; what it lacks has a stand-in here.

    | since | what                                                  | before that               |
    |-------|-------------------------------------------------------|---------------------------|
    | 4.1   | a streaming writer that takes Arrow batches           | both writers as one class |
    | 4.1   | registers a source that Spark finds by itself         | it is found               |
    | 4.2   | limits of a batch, and an end of Trigger.AvailableNow | the source keeps both     |
    | 4.3   | a vectorized Parquet reader of all that parts have    | the other reader          |

No other module asks for a version, and none but this one calls what PySpark keeps to itself. It is
found out by what is there to import, but for the reader of Parquet, which is Java's. All of it is
tested with each version (`make spark-versions`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark.sql.datasource
from pyspark import __version__
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamWriter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

# Whether Spark hands a source its last offset and a limit, and tells it of Trigger.AvailableNow.
HAS_ADMISSION: Final = find_spec("pyspark.sql.streaming.datasource") is not None
VERSION: Final = __version__
_HAS_STREAM_ARROW_WRITER: Final = hasattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter")
_VECTORIZED: Final = "spark.sql.parquet.enableVectorizedReader"
_SPLIT_FLOATS_SINCE: Final = (4, 3)
_TIME_ZONE: Final = "timezone"
_CONNECT: Final = "pyspark.sql.connect."
_IS_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"

if TYPE_CHECKING or HAS_ADMISSION:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """How much a batch takes."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """All there is."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """So many rows at most."""

        max_rows: int

    @dataclass
    class ReadMinRows(ReadLimit):
        """So many rows at least."""

        min_rows: int

    class SupportsTriggerAvailableNow:
        """What Spark would tell of its trigger: nothing is told here."""


if TYPE_CHECKING or _HAS_STREAM_ARROW_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """A writer of micro-batches that takes Arrow batches, which Spark tells by the former."""


__all__ = [
    "HAS_ADMISSION",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema_of",
    "is_of_connect",
    "lacks_split_floats",
    "map_in_arrow",
    "register_source",
]

BatchFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_untyped: Any = to_arrow_schema


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the schema of the batches in which Spark hands over columns; times are in UTC."""
    # Where it takes no time zone, it is UTC.
    zone = {_TIME_ZONE: "UTC"} if _TIME_ZONE in signature(to_arrow_schema).parameters else {}
    return _untyped(schema, **zone)  # type: ignore[no-any-return]  # it is one


def is_of_connect(frame: DataFrame) -> bool:
    """Tell whether a frame is one of Spark Connect, whose driver is in another process."""
    return type(frame).__module__.startswith(_CONNECT)


def map_in_arrow(frame: DataFrame, function: BatchFunction, schema: str) -> DataFrame:
    """Return what a function makes of a frame's batches, task by task.

    NOTE: `mapInArrow` refuses to run without pandas, and does not use it (4.0 to 4.3). Where there
    is none its steps are taken here.
    """
    if find_spec("pandas") is not None:
        return frame.mapInArrow(function, schema)
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    mapping = UserDefinedFunction(function, schema, evalType=kind)
    column: Any = mapping(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: FBT003, SLF001 - Spark's own way


def lacks_split_floats(spark: SparkSession) -> str | None:
    """Return the setting that must be off where Spark reads no floats of parts; None if it does.

    NOTE: Spark's vectorized reader of Parquet knows BYTE_STREAM_SPLIT since 4.3; the other one,
    which is slower, always did.
    """
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    is_vectorized = str(spark.conf.get(_VECTORIZED)).lower() == "true"
    return _VECTORIZED if is_vectorized and version < _SPLIT_FLOATS_SINCE else None


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Have a source run by `PYSPARK_PYTHON`, with what is shipped to executors.

    NOTE: PySpark 4.0 refuses what it finds by itself, which runs by the driver's own Python.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != _IS_THERE:
            raise
