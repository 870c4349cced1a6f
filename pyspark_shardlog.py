"""What Spark looks for: it imports every top-level module whose name begins with `pyspark_`.

The class it finds there, `DefaultSource`, makes `format("shardlog")` work with no registration.
Nothing else happens at import.
"""

from streaming_jobs.data_source import ShardlogSource as DefaultSource

__all__ = ["DefaultSource"]
