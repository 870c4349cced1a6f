"""What a run leaves on disk: directories that go, and bounded waits for what others write there."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.measure import VoidError
from storage_core import InvalidRequestError, StreamReader, SystemClock

_CLOCK: Final = SystemClock()
_LOOK_PAUSE_S: Final = 0.1
_LOOKS_QUIET: Final = 5
_LOOKS_MAX: Final = 300
_WAIT_MAX_S: Final = 60.0
_LOOK_S: Final = 0.01


@contextmanager
def empty_directory(parent: Path) -> Iterator[Path]:
    """Make a directory that goes, with all in it, when the block ends."""
    # What is told to go there may run in another directory.
    path = Path(tempfile.mkdtemp(prefix="shardlog-bench-", dir=parent.absolute()))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def await_compaction(path: Path) -> None:
    """Wait until RocksDB has left the files under a directory alone for a while, bounded."""
    seen: set[Path] = set()
    quiet = 0
    for _ in range(_LOOKS_MAX):
        _CLOCK.sleep(_LOOK_PAUSE_S)
        files = set(path.rglob("*.sst"))
        quiet = quiet + 1 if files == seen else 0
        seen = files
        if quiet == _LOOKS_QUIET:
            return


def committed(root: str | Path, stream: str) -> dict[int, int]:
    """Return committed by shard; nothing where the stream is not there yet."""
    try:
        with StreamReader.open(root, stream) as reader:
            return reader.committed()
    except InvalidRequestError:
        return {}


def await_records(root: str | Path, stream: str, records: int) -> None:
    """Wait until so many records are committed."""
    _await(lambda: sum(committed(root, stream).values()) >= records, f"{records} records")


def await_shards(root: str | Path, stream: str, shards: int) -> None:
    """Wait until so many shards are there."""
    _await(lambda: len(committed(root, stream)) == shards, f"{shards} shards")


def _await(is_there: Callable[[], bool], name: str) -> None:
    deadline = _CLOCK.monotonic_s() + _WAIT_MAX_S
    while not is_there():
        if _CLOCK.monotonic_s() > deadline:
            message = f"{name} were not there within {_WAIT_MAX_S:g} s"
            raise VoidError(message)
        _CLOCK.sleep(_LOOK_S)
