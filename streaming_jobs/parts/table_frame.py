"""The lake's table of a stream as a DataFrame, by Spark's own reader of Parquet and without Delta.

A frame has the files of one version of the table. What is published later is in the next frame.
"""

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from streaming_jobs.parts.casts import named
from streaming_jobs.parts.frame import FILE_OPTIONS, as_written

if TYPE_CHECKING:
    from storage_core.lake import TableFiles

# As Hadoop's file systems call S3.
_S3: Final = re.compile(r"^s3://")
_untyped: Any = from_arrow_schema


def table_frame(spark: SparkSession, table: "TableFiles") -> DataFrame:
    """Return the rows of one version of a table, with its columns.

    Conditions on `shard` choose files, others groups of rows by their statistics.
    """
    schema: StructType = _untyped(table.columns)
    if not table.paths:
        return spark.createDataFrame([], schema)
    here = f"file://{table.place}" if table.place.startswith("/") else table.place
    place = _S3.sub("s3a://", here)
    files = (as_written(f"{place}/{path}") for path in table.paths)
    reading = spark.read.options(**FILE_OPTIONS).option("basePath", place).schema(schema)
    rows = reading.parquet(*files)
    # It puts columns of directories behind all others.
    return rows.select(*map(named, schema.names))
