"""Spark's daemon of Python workers, which has imported what they need before it forks them.

    spark.python.daemon.module=tests.spark.warm_daemon

A worker is the same process as one of Spark's own daemon, but for the half second of processor time
that each takes for its imports. Arrow has a thread of its own by then, that of its allocator, which
takes care of forks; NumPy is asked for none.
"""

import importlib
import os

from pyspark.daemon import manager

_IMPORTED = (
    "pyspark.worker",
    "pyspark_shardlog",
    "streaming_jobs.source.ranges",
    "streaming_jobs.source.tail",
    "streaming_jobs.sink.writer",
)

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in _IMPORTED:
        importlib.import_module(name)
    manager()
