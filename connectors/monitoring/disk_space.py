"""How much room the disk of a root has left, as metrics.

It is asked for when somebody scrapes, by the thread that answers and not by the worker's loop.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from connectors.monitoring.metrics_text import Family, single


def disk_families(root: Path) -> Iterator[Family]:
    """Yield the size of the root's file system, and what is left of it for who is not root.

    A file system that does not say has no such metrics.
    """
    try:
        disk = os.statvfs(root)
    except OSError:
        return
    yield single(
        "shardlog_disk_size_bytes",
        "gauge",
        "Size of the file system that holds the root.",
        disk.f_blocks * disk.f_frsize,
    )
    yield single(
        "shardlog_disk_free_bytes",
        "gauge",
        "Bytes that are free on the file system that holds the root.",
        disk.f_bavail * disk.f_frsize,
    )
