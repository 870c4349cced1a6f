"""What a worker has stored, seen from outside; every wait is bounded."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_core import InvalidRequestError, StreamReader, SystemClock

_WAIT_MAX_S: Final = 60.0
_LOOK_S: Final = 0.01
_CLOCK: Final = SystemClock()


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


def _await(is_there: Callable[[], bool], what: str) -> None:
    deadline = _CLOCK.monotonic_s() + _WAIT_MAX_S
    while not is_there():
        if _CLOCK.monotonic_s() > deadline:
            message = f"{what} were not there within {_WAIT_MAX_S:g} s"
            raise SystemExit(message)
        _CLOCK.sleep(_LOOK_S)
