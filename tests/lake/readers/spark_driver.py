"""Spark with Delta's jars, in a process of its own: a line of JSON for each line that it is asked.

python -m tests.lake.readers.spark_driver PLACE < QUESTIONS

The first line has the settings. Each that comes behind it asks for rows of one table:

    program      the page's program, which loads it
    columns      of the table
    where        which of its rows
    checkpoint   of a stream of it, which brings what is new
    land         the root and the stream whose table it is, for `land_topic`; or null
    parts        columns of a frame of the stream's parts; none are read without them
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from streaming_jobs.jobs.land_topic import land_topic
from streaming_jobs.parts import dataframe
from tests.lake.readers.rows import rows_of
from tests.spark.support.session import QUICK, make_session

_TURN_MAX_S = 600
# Fifty as it comes, for tables of millions of files.
_QUICK = {**QUICK, "spark.databricks.delta.snapshotPartitions": "1"}


def main(place: Path) -> None:
    """Answer what is asked. The first failure ends it, with its trace."""
    # Spark's own programs write to the standard output too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = make_session(place, settings={**_QUICK, **json.loads(sys.stdin.readline())})
    for line in sys.stdin:
        answers.write(json.dumps(_turn(spark, json.loads(line))) + "\n")
        answers.flush()
    spark.stop()


def _turn(spark: SparkSession, question: dict[str, Any]) -> dict[str, Any]:
    columns, where = question["columns"], question["where"]
    names: dict[str, Any] = {"spark": spark}
    exec(question["program"], names)  # noqa: S102 - the page's
    news: list[dict[str, Any]] = []

    def note(batch: DataFrame, _number: int) -> None:
        news.extend(_plain(row) for row in batch.select(*columns).collect())

    writing = names["news"].writeStream.foreachBatch(note)
    writing = writing.option("checkpointLocation", question["checkpoint"])
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(_TURN_MAX_S), "the stream does not end"
    answer = {"frame": _rows(names["frame"].where(where), columns), "news": rows_of(news)}
    if question["land"] is not None:
        root, stream = question["land"]
        answer["landed"] = _rows(land_topic(spark, root, stream).where(where), columns)
        wanted = question["parts"]
        answer["parts"] = _rows(dataframe(spark, root, stream, wanted), wanted)
    return answer


def _rows(frame: DataFrame, columns: list[str]) -> list[str]:
    return rows_of(_plain(row) for row in frame.select(*columns).collect())


def _plain(value: Any) -> Any:
    """Return a record as a dictionary, and a map as the pairs that it has."""
    if isinstance(value, Row):
        return {name: _plain(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return [(key, _plain(item)) for key, item in value.items()]
    return [_plain(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
