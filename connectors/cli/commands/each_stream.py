"""One stream by name, or all under a root: a damaged one does not hide its neighbours."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from storage_core import ShardlogError, list_streams

_Found = TypeVar("_Found")


def of_each_stream(
    root: Path, stream: str | None, look: Callable[[str], Iterable[_Found]]
) -> tuple[list[_Found], ShardlogError | None]:
    """Return what a look at each stream finds, and the first error, to be told after it."""
    results: list[_Found] = []
    first: ShardlogError | None = None
    for name in list_streams(root) if stream is None else [stream]:
        try:
            results += look(name)
        except ShardlogError as error:
            first = first or error
    return results, first
