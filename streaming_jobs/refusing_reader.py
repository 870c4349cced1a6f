"""A stream reader whose options are wrong, and which says so when it is first asked anything.

An error raised while Spark makes a stream reader is lost behind one of Spark's own; one that is
raised by its first call reaches the user.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from storage_core import InvalidRequestError
from streaming_jobs.spark_errors import plain_errors


class RefusingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises one error, whatever is asked."""

    def __init__(self, error: InvalidRequestError) -> None:
        """Keep what is wrong."""
        self._message = str(error)

    def prepareForTriggerAvailableNow(self) -> None:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        """Raise."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        """Raise."""
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:  # type: ignore[explicit-override]  # noqa: N802 - Spark's
        """Raise."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[explicit-override]  # noqa: ARG002, N802 - Spark's
        """Raise."""
        self._refuse()

    def partitions(  # type: ignore[explicit-override]
        self,
        start: dict[str, Any],  # noqa: ARG002 - Spark's
        end: dict[str, Any],  # noqa: ARG002 - Spark's
    ) -> Sequence[InputPartition]:
        """Raise."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[explicit-override]  # noqa: ARG002 - Spark's
        """Raise."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        with plain_errors():
            raise InvalidRequestError(self._message)
