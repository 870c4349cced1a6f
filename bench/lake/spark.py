"""The table as Spark reads it, against plain files of Spark's own.

Spark 4.1 reads the table by delta-spark; it is fetched once, 440 MB, with its jars. The plain files
are what Spark writes, by its defaults, of the rows and columns that the table gives: each shard
one, at most a million rows a file, sorted as they lie in the table. All in one session, equally
warm. SHARDLOG_BENCH_ORDER_ROWS says how many rows there are.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.lake import tables
from bench.log.orders import ORDER_ROWS, published_orders
from bench.measure import Contestant, Experiment, Row, VoidError
from bench.spark.rates import spark_process, warmed
from connectors.devtools.fetch import fetched
from tests.lake.readers.delta_spark import JARS, VERSION, settings_of_the_page
from tests.versions.pysparks import FetchError, pyspark_of

_WARM_ROUNDS: Final = 2
# As docs/LAKE.md advises: fifty as it comes, for tables of millions of files.
_FEW_FILES: Final = {"spark.databricks.delta.snapshotPartitions": "2"}


@contextmanager
def _of_spark(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root, table = published_orders(workspace)
    plain = root.parent / "plain-of-spark"
    try:
        packages = pyspark_of(VERSION, lambda line: print(line, file=sys.stderr))
    except FetchError as error:
        raise VoidError(str(error)) from error
    jars = [str(jar) for jar in sorted(fetched(JARS).glob("*.jar"))]
    settings = {**settings_of_the_page(), **_FEW_FILES}
    with spark_process(workspace, jars, settings, packages) as spark:
        if not plain.exists():
            spark.run(tables.write_plain, table, plain)
        yield warmed(
            {
                "table": partial(spark.run, tables.of_table, table),
                "plain": partial(spark.run, tables.of_files, plain),
            },
            _WARM_ROUNDS,
        )


def _rows(kind: str, text: str, limit: float | None) -> tuple[Row, Row]:
    return (
        Row(
            f"lake-spark/{kind}",
            f"{text}, of a table by delta-spark against `spark.read.parquet` of plain files",
            ("table", kind),
            ("plain", kind),
            sense="at most",
            limit=limit,
        ),
        Row(
            f"lake-spark/{kind}-cpu",
            "the same by Spark's processor time",
            ("table", f"{kind} cpu"),
            ("plain", f"{kind} cpu"),
            sense="at most",
        ),
    )


LAKE_SPARK: Final = Experiment(
    "lake-spark",
    (
        *_rows("scan", f"all fields of {ORDER_ROWS:,} orders to noop", 1.1),
        *_rows("groups", "a grouping of an enum with an average", 1.1),
        *_rows("id", "the rows of one id", None),
    ),
    _of_spark,
    bytes_needed=2**30 + ORDER_ROWS * 200,
)
