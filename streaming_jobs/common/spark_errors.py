"""Errors as Spark's users see them: the first line says what is wrong.

Spark's Python workers send an exception with its traceback first, so that a mistyped option
reads `Traceback (most recent call last)` followed by thirty lines. They leave the traceback out
where an environment variable says so, and end after sending. So it is set when an error that
explains itself is on its way out, in worker processes only.

An error raised while Spark makes a stream reader is lost behind one of Spark's own; one that is
raised by the reader's first call reaches the user.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from storage_core import InvalidRequestError, ShardlogError
from storage_core.platform.extras import how_to_install
from streaming_jobs.common.spark_features import SupportsTriggerAvailableNow

_HIDES_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
# Every Python worker of Spark imports it before anything else; no other process does.
WORKERS_OWN: Final = "pyspark.worker_util"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let shardlog's errors, and a missing extra, reach the user of Spark without a traceback."""
    try:
        yield
    except ShardlogError:
        _hide_traceback()
        raise
    except ModuleNotFoundError as error:
        _hide_traceback()
        said = None if error.name is None else how_to_install(error.name.partition(".")[0])
        if said is None:
            raise
        raise ModuleNotFoundError(said, name=error.name) from error


def _hide_traceback() -> None:
    if WORKERS_OWN in sys.modules:
        os.environ[_HIDES_TRACEBACK] = "1"


class RefusingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader whose options are wrong: raises what is wrong, whatever is asked."""

    def __init__(self, error: InvalidRequestError) -> None:
        self._message = str(error)

    def _refuse(self, *_arguments: object, **_keywords: object) -> NoReturn:
        with plain_errors():
            raise InvalidRequestError(self._message)

    prepareForTriggerAvailableNow = getDefaultReadLimit = _refuse
    initialOffset = latestOffset = partitions = read = _refuse
