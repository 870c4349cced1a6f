"""The plan of a query's batch, made durable before the batch is.

Spark writes a batch's offsets to its checkpoint before the batch runs, and syncs nothing. A cut of
power could take that file and leave the batch in the stream; then Spark plans another batch under
the same number. So the commit syncs what tells which rows the batch has: the query's id, the
offsets, and what the sources noted beside them. Only on a local disk, and only where the query
names its checkpoint; elsewhere the contents of the batch tell (sink_commit.py).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from storage_core import UnavailableError


def local_directory(location: str) -> Path | None:
    """Return the directory that a checkpoint's location names on this machine, if it does."""
    place = urlsplit(location)
    if place.scheme not in ("", "file") or place.netloc:
        return None
    return Path(unquote(place.path) if place.scheme else location)


def sync_plan(checkpoint: Path, batch: int) -> list[Path]:
    """Make durable what Spark has written of a batch's plan; return what was.

    Raises:
        UnavailableError: The disk refuses.
    """
    synced = []
    for path in _plan(checkpoint, batch):
        try:
            _sync(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            message = f"the query's checkpoint cannot be made durable: {error.strerror}"
            raise UnavailableError(message, path=path) from error
        synced.append(path)
    return synced


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


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
