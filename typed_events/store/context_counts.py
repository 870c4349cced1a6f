"""How many events of a context were stored at a place, those remembered that were asked for last.

They lie beside the rows (attached.py), so forgetting one costs a read. Two generations: what is
asked for or stored lies in the young one then, and once that is full the old one is let go.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from typed_events.store.submission import Place

_NONE: Final[Mapping[bytes, int]] = MappingProxyType({})
_Counts = dict[Place, dict[bytes, int]]


class ContextCounts:
    """Counts by place and context; belongs to the writer's thread."""

    def __init__(self, size_max: int) -> None:
        """Remember so many, and those of a group or two beyond."""
        self._young_max = size_max // 2
        self._young: _Counts = {}
        self._old: _Counts = {}
        self._young_size = 0

    def get(self, place: Place, context: bytes) -> int | None:
        """Return a count that is remembered."""
        young = self._young.get(place)
        count = None if young is None else young.get(context)
        if count is None and place in self._old:
            # What is counted on is put again, once it is durable.
            count = self._old[place].get(context)
        return count

    def young(self, place: Place) -> Mapping[bytes, int]:
        """Return the counts of a place that were asked for or stored last."""
        return self._young.get(place, _NONE)

    def put(self, place: Place, counts: Mapping[bytes, int]) -> None:
        """Remember counts that are durable."""
        if self._young_size > self._young_max:
            self._old, self._young, self._young_size = self._young, {}, 0
        young = self._young.setdefault(place, {})
        before = len(young)
        young.update(counts)
        self._young_size += len(young) - before

    def clear(self) -> None:
        """Forget all."""
        self._young, self._old, self._young_size = {}, {}, 0
