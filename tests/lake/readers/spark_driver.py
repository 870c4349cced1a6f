"""Spark with Delta's jars, in a process of its own: a line of JSON for each line that it is asked.

python -m tests.lake.readers.spark_driver PLACE < QUESTIONS

The first line has the settings and the page's program. Each that comes behind it has columns, and
asks for the rows of the table, and for those that a stream of it brings from its checkpoint on.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

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
    settings, program = json.loads(sys.stdin.readline())
    spark = make_session(place, settings={**_QUICK, **settings})
    for line in sys.stdin:
        answers.write(json.dumps(_turn(spark, program, json.loads(line), place)) + "\n")
        answers.flush()
    spark.stop()


def _turn(spark: SparkSession, program: str, columns: list[str], place: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)  # noqa: S102 - the page's
    news: list[str] = []

    def note(batch: DataFrame, _number: int) -> None:
        news.extend(_rows(batch, columns))

    writing = names["news"].writeStream.foreachBatch(note)
    writing = writing.option("checkpointLocation", str(place / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(_TURN_MAX_S), "the stream does not end"
    return {"frame": _rows(names["frame"], columns), "news": news}


def _rows(frame: DataFrame, columns: list[str]) -> list[str]:
    return rows_of(row.asDict() for row in frame.select(*columns).collect())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
