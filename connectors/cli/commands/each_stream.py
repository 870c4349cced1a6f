"""One stream by name, or all under a root: a damaged one does not hide its neighbours."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from storage_core import ShardlogError, list_streams

_Result = TypeVar("_Result")


def of_each_stream(
    root: Path, stream: str | None, look: Callable[[str], Iterable[_Result]]
) -> tuple[list[_Result], ShardlogError | None]:
    """Return what a look at each stream finds, and the first error, to be told after it."""
    return of_streams(list_streams(root) if stream is None else [stream], look)


def of_streams(
    names: Iterable[str], look: Callable[[str], Iterable[_Result]]
) -> tuple[list[_Result], ShardlogError | None]:
    """Return the same of streams by name."""
    results: list[_Result] = []
    first: ShardlogError | None = None
    for name in names:
        try:
            results += look(name)
        except ShardlogError as error:
            first = first or error
    return results, first
