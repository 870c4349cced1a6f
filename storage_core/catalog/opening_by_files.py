"""Opening what a stream's files list, beside resets that replace them.

Between reading options.json and opening a shard where it says, the shard's log may be archived and
its directory moved. What then looks like damage is none: the files list another place by now.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import ShardlogError

_T = TypeVar("_T")
# Each is a reset that came within the moment of an opening.
_TRIES_MAX: Final = 20


def opened_by_files(read: Callable[[], StreamFiles], take: Callable[[StreamFiles], _T]) -> _T:
    """Return what is opened by a stream's files; where a log was moved meanwhile, by newer ones.

    Args:
        read: Reads the files.
        take: Opens what they list; it is called again after an error, with nothing left open.

    Raises:
        ShardlogError: What either raises, while the files list the same.
    """
    files = read()
    for _ in range(_TRIES_MAX):
        try:
            return take(files)
        except ShardlogError:
            newer = read()
            if _logs(newer) == _logs(files):
                raise
            files = newer
    return take(files)


def _logs(files: StreamFiles) -> Mapping[int, tuple[bytes, Path]]:
    """Return which log each shard is, and where it lies."""
    lineages = files.settings.lineages
    return {shard: (lineages[shard], files.shard_directory(shard)) for shard in lineages}
