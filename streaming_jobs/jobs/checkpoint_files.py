"""What Spark writes into a query's checkpoint, of which a job reads some.

    <checkpoint>/metadata          the query's id, which a restart keeps
    <checkpoint>/offsets/<batch>   the plan of a batch

Spark says a query's id in the thread of its batches only where the job runs in Spark's own process;
the checkpoint says it everywhere.
"""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from storage_core import ForeignDataError
from streaming_jobs.sink.checkpoint import local_directory


def checkpoint_text(spark: SparkSession, checkpoint: str, name: str) -> str:
    """Return the text of a file of a checkpoint; of another file system Spark reads it."""
    place = local_directory(checkpoint)
    if place is not None:
        return (place / name).read_text()
    (row,) = spark.read.text(f"{checkpoint.rstrip('/')}/{name}", wholetext=True).collect()
    return str(row[0])


def query_id_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that runs on a checkpoint.

    Raises:
        ForeignDataError: It is not written as it should be.
    """
    try:
        return str(json.loads(checkpoint_text(spark, checkpoint, "metadata"))["id"])
    except (ValueError, KeyError, TypeError) as error:
        message = "the checkpoint does not say whose query's it is: begin with a new one"
        raise ForeignDataError(message, path=Path(checkpoint)) from error
