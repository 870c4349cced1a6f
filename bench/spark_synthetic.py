"""A source that does nothing: ready Arrow batches of our schema, as fast as Spark takes them.

What it reaches is what Spark's door for Python sources can carry; a source behind that door can
only be measured by how much of it is left.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from bench.records import FIRST_PRIMARY, PARTITIONS, payload_array
from streaming_jobs.source.spark_columns import arrow_schema, default_columns, spark_schema

BATCH_ROWS: Final = 10_000
_COLUMNS: Final = default_columns(has_headers=False)


@dataclass(frozen=True, slots=True)
class _Part(InputPartition):
    rows: int


class SyntheticSource(DataSource):
    """`format("synthetic")`; options `rows`, of all, `step`, of a micro-batch, and `tasks`."""

    @classmethod
    def name(cls) -> str:  # type: ignore[explicit-override]
        """Return the name of the format."""
        return "synthetic"

    def schema(self) -> StructType:  # type: ignore[explicit-override]
        """Return the columns that our source has by default."""
        return spark_schema(_COLUMNS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # type: ignore[explicit-override]  # noqa: ARG002, N802 - Spark's
        """Return what makes the rows."""
        rows = int(self.options["rows"])
        tasks = int(self.options.get("tasks", PARTITIONS))
        return SyntheticReader(rows, int(self.options.get("step", rows)), tasks)


class SyntheticReader(DataSourceStreamReader):
    """Counts rows on the driver, repeats one batch in tasks."""

    def __init__(self, rows: int, step: int, tasks: int) -> None:
        """Take how many rows there are, how many a micro-batch has, and in how many tasks."""
        self._rows, self._step, self._tasks = rows, step, tasks

    def initialOffset(self) -> dict[str, Any]:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        """Return the start."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        """Return how much a micro-batch takes."""
        return ReadAllAvailable() if self._step == self._rows else ReadMaxRows(self._step)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[explicit-override]  # noqa: ARG002, N802 - Spark's
        """Return the end of the next micro-batch."""
        return {"rows": min(self._rows, start["rows"] + self._step)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # type: ignore[explicit-override]
        """Return the tasks, unless told otherwise one for each partition of the others' topic."""
        return [_Part((end["rows"] - start["rows"]) // self._tasks)] * self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[explicit-override]
        """Yield the one batch until there are enough rows."""
        assert isinstance(partition, _Part)
        whole, rest = divmod(partition.rows, BATCH_ROWS)
        yield from itertools.repeat(_batch(), whole)
        if rest:
            yield _batch().slice(0, rest)


@lru_cache(maxsize=1)
def _batch() -> pa.RecordBatch:
    count = BATCH_ROWS
    numbers = range(count)
    values: dict[str, Any] = {
        "key": [(number % 1000).to_bytes(4, "big") for number in numbers],
        "value": payload_array(count, 100, seed=1),
        "topic": ["filled"] * count,
        "partition": [0] * count,
        "offset": numbers,
        "timestamp": [FIRST_PRIMARY * 1000 + number for number in numbers],
        "timestampType": [0] * count,
        "primary": numbers,
        "secondary": [number % 1000 for number in numbers],
        "version": [0] * count,
        "late": [False] * count,
        "state": [0] * count,
        "schema_id": [None] * count,
    }
    schema = arrow_schema(_COLUMNS)
    arrays = [
        values[field.name]
        if isinstance(values[field.name], pa.Array)
        else pa.array(values[field.name], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
