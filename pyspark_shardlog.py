"""What Spark looks for: it imports every top-level module whose name begins with `pyspark_`.

The class it finds there, `DefaultSource`, makes `format("shardlog")` work with no registration.
Nothing else happens at import. What jobs import by name is here as well.
"""

from streaming_jobs.data_source import ShardlogSource as DefaultSource
from streaming_jobs.source.driver.snapshot import snapshot

__all__ = ["DefaultSource", "snapshot"]
