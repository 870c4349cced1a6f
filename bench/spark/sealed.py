"""Sealed rows as a batch of Spark's: parts against plain files of Spark's own, and against blocks.

All in one session, equally warm. The plain files are what Spark writes of the same rows and columns
with its defaults; our source reads the same stream's blocks, by fields.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.log.orders import ORDER_FIELDS, ORDER_ROWS, ORDER_SCHEMA, ORDERS, sealed_orders
from bench.measure import Contestant, Experiment, Row
from bench.spark import batches
from bench.spark.rates import ours, spark_process, warmed

_NAMED: Final = {
    "valueFormat": "avro",
    "readerSchema": ORDER_SCHEMA,
    "columns": ",".join(ORDER_FIELDS),
}


@contextmanager
def _sealed(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = sealed_orders(workspace)
    plain = root.parent / "plain-of-spark"
    with spark_process(workspace) as spark:
        if not plain.exists():
            spark.run(batches.write_plain, root, plain)
        options = ours(root, ORDERS, **_NAMED)
        sources = {
            "parts": partial(spark.run, batches.of_parts, root),
            "plain": partial(spark.run, batches.of_files, plain),
            "blocks": partial(spark.run, batches.of_source, options),
        }
        yield warmed(sources)


def _rows(kind: str, text: str) -> tuple[Row, Row]:
    return (
        Row(
            f"spark-sealed/{kind}-plain",
            f"{text}, against `spark.read.parquet` of plain files",
            ("parts", kind),
            ("plain", kind),
            sense="at most",
            limit=1.2,
        ),
        Row(
            f"spark-sealed/{kind}-blocks",
            f"{text}, how much faster than our source on blocks",
            ("blocks", kind),
            ("parts", kind),
            limit=2,
        ),
    )


SPARK_SEALED: Final = Experiment(
    "spark-sealed",
    (
        *_rows("scan", f"all fields of {ORDER_ROWS:,} sealed orders to noop"),
        *_rows("groups", "a grouping of an enum with an average"),
    ),
    _sealed,
    bytes_needed=2**30 + ORDER_ROWS * 200,
)
