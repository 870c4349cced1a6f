"""The plan of a query's batch, made durable before the batch is.

Spark writes a batch's offsets to its checkpoint before the batch runs, and syncs nothing. A cut of
power could take that file and leave the batch in the stream; then Spark plans another batch under
the same number. So the commit syncs what decides which rows the batch has: the query's id, the
offsets, and what the sources noted beside them. Only on a local disk, and only where the query
names its checkpoint; elsewhere the contents of the batch tell (commit.py).
"""

import logging
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from storage_core import UnavailableError

_LOG: Final = logging.getLogger("shardlog")
_CHECKPOINTS_MAX: Final = 64


def local_directory(location: str) -> Path | None:
    """Return the directory that a checkpoint's location names on this machine, if it does.

    NOTE: Hadoop 3's `Path` takes what stands behind the scheme as it is: `%20`, `#` and `?` are
    letters of a name. A colon behind a slash ends no scheme.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    is_here = scheme == "file" and (not rest.startswith("//") or rest.startswith("///"))
    return Path("/" + rest.lstrip("/")) if is_here else None


def sync_plan(checkpoint: Path, batch: int) -> list[Path]:
    """Make durable what Spark has written of a batch's plan; return what was.

    A plan that is not there is warned of once a checkpoint: commits go on without what it is for.

    Raises:
        UnavailableError: The disk refuses.
    """
    synced = []
    for path in _plan(checkpoint, batch):
        try:
            sync(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            message = f"the query's checkpoint cannot be made durable: {error.strerror}"
            raise UnavailableError(message, path=path) from error
        synced.append(path)
    if checkpoint / "offsets" / str(batch) not in synced:
        _warn_once(checkpoint)
    return synced


@lru_cache(maxsize=_CHECKPOINTS_MAX)
def _warn_once(checkpoint: Path) -> None:
    _LOG.warning(
        "the offsets of the query's batch are not in its checkpoint at %s, as seen from here, and "
        "are not synced before it is committed: a cut of power may take them and leave the batch, "
        "which then comes again with other rows and is refused",
        checkpoint,
    )


def _plan(checkpoint: Path, batch: int) -> Iterator[Path]:
    sources = checkpoint / "sources"
    try:
        noted = sorted(sources.iterdir())
    except OSError:
        noted = []
    yield checkpoint / "metadata"
    for directory in (checkpoint / "offsets", *noted):
        yield directory / str(batch)
        yield directory / f".{batch}.crc"
        yield directory / f"{batch}.compact"
        yield directory
    yield sources
    yield checkpoint
    yield checkpoint.parent


def sync(path: Path) -> None:
    """Make a file, or the entries of a directory, durable."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
