"""Spark beside the log: a source that tails and reads shards, a sink that writes them once.

Jobs use it by name, `format("shardlog")`; `pyspark_shardlog` is where Spark finds it.
"""

from storage_core.platform.extras import how_to_install

try:
    import pyspark as _  # noqa: F401 - an extra
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise ModuleNotFoundError(how_to_install("pyspark"), name="pyspark") from error
