"""Errors as Spark's users see them: the first line says what is wrong.

Spark's Python workers send an exception with its traceback first, so that a mistyped option
reads `Traceback (most recent call last)` followed by thirty lines. They leave the traceback out
where an environment variable says so, and end after sending. So it is set when an error that
explains itself is on its way out, in worker processes only.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from storage_core import ShardlogError

_HIDES_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
# Every Python worker of Spark imports it before anything else; no other process does.
_WORKERS_OWN: Final = "pyspark.worker_util"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let shardlog's errors reach the user of Spark without a traceback."""
    try:
        yield
    except ShardlogError:
        if _WORKERS_OWN in sys.modules:
            os.environ[_HIDES_TRACEBACK] = "1"
        raise
