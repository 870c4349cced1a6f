"""How much of a disk a directory takes, and how that is said."""

import os
from pathlib import Path
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def bytes_below(path: Path) -> int:
    """Return what the files below a directory take; those that go meanwhile count nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                # Files are set out in advance; blocks are what the disk gives.
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - hot
            except FileNotFoundError:
                continue
    return total


def shown_bytes(count: int) -> str:
    """Return a size in the largest unit that leaves a number above one."""
    size, at = float(count), 0
    while size >= _STEP and at < len(_UNITS) - 1:
        size, at = size / _STEP, at + 1
    return f"{count} B" if not at else f"{size:.1f} {_UNITS[at]}"
