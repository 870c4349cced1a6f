"""What the C library does with large buffers once they are freed.

Reading a block takes two buffers of some hundred kilobytes, one RocksDB's and one ours, and
frees them again. By itself glibc gives such memory back to the system at once, or does not,
as the sizes before happened to fall; where it does, every block costs its pages anew, and a
scan takes up to twice as long (ADR 0013). A worker frees some rounds of 8 MiB at once, as they were
fetched and as they were joined (ADR 0027).
"""

import ctypes
import os
from functools import cache
from typing import Final

# Freed memory that is kept; and of what size a buffer is mapped by itself, and never kept.
KEPT_BYTES: Final = 32 * 2**20
MAPPED_BYTES_MIN: Final = 16 * 2**20
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
_VARIABLES: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


@cache
def keep_large_buffers() -> bool:
    """Have freed memory kept for the next buffer, up to 32 MiB; tell whether that was done.

    Once a process. What the environment says of these thresholds goes before; a C library
    without `mallopt` is left alone.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if "glibc.malloc" in tunables or any(name in os.environ for name in _VARIABLES):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = {_MMAP_THRESHOLD: MAPPED_BYTES_MIN, _TRIM_THRESHOLD: KEPT_BYTES}
    return all(mallopt(name, value) == 1 for name, value in wanted.items())


def give_back() -> None:
    """Give freed memory back to the system, as far as the C library does so."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
