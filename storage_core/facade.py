"""What a stream's writer and its readers both answer: the calls of what they are composed of."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.open_shards import OpenShards, S
from storage_core.rows import StreamRows

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def delegate(
    part: str, method: Callable[Concatenate[Any, P], R]
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls `method` of the object that an instance has as `part`.

    It has the signature and the documentation of `method`.
    """

    @wraps(method)
    def call(owner: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(owner, part), *args, **kwargs)

    return call


def facade(owner: type[T]) -> type[T]:
    """Give the methods that a class delegates its own name, by which they are pickled, too."""
    for name, method in vars(owner).items():
        if hasattr(method, "__wrapped__"):
            method.__module__ = owner.__module__
            method.__qualname__ = f"{owner.__qualname__}.{name}"
    return owner


@facade
class StreamFacade(Generic[S]):
    """What a writer and a reader of a stream both answer. Any thread may call it.

    Attributes:
        rows: Reads of the stream's rows; `read`, `scan` and the like are its methods.
    """

    def __init__(self, shards: OpenShards[S], read_bytes_max: int | None = None) -> None:
        """Answer through these shards; a read gathers so many bytes at most."""
        self._open = shards
        self.rows = StreamRows(shards, read_bytes_max)

    def __enter__(self) -> Self:
        return self

    @property
    def origin(self) -> StreamOrigin | None:
        """What the stream is a copy of; None if its rows come from callers."""
        return self._open.meta.origin

    @property
    def options(self) -> StreamOptions:
        """The options in force; a reader's as they were at its last `refresh`."""
        return self._open.options

    @property
    def has_ids(self) -> bool:
        """Whether secondaries are ids, the same in all shards; else they mean nothing outside."""
        if self.options.key_mode == "dictionary":
            return False
        return self.origin is None or self.origin.has_ids

    lineage = delegate("_open", OpenShards.lineage)
    committed = delegate("_open", OpenShards.committed)
    lost_ranges = delegate("_open", OpenShards.lost_ranges)
    gaps = delegate("_open", OpenShards.gaps)
    source = delegate("_open", OpenShards.source)
    dead_letters = delegate("_open", OpenShards.dead_letters)
    schemas = delegate("_open", OpenShards.schemas)
    parts = delegate("_open", OpenShards.parts)
    unsealed = delegate("_open", OpenShards.unsealed)
    part_marks = delegate("_open", OpenShards.part_marks)
    untrimmed = delegate("_open", OpenShards.untrimmed)
    stats = delegate("_open", OpenShards.stats)

    read = delegate("rows", StreamRows.read)
    scan = delegate("rows", StreamRows.scan)
    tail = delegate("rows", StreamRows.tail)
    for_each = delegate("rows", StreamRows.for_each)
    latest = delegate("rows", StreamRows.latest)
    earliest = delegate("rows", StreamRows.earliest)
    available = delegate("rows", StreamRows.available)
