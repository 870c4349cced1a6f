"""How many events of a context were stored at a place, those remembered that were asked for last.

They lie beside the rows (attached.py), so forgetting one costs a read.
"""

from collections import OrderedDict

from typed_events.store.submission import Place


class ContextCounts:
    """Counts by place and context; belongs to the writer's thread."""

    def __init__(self, size_max: int) -> None:
        """Remember so many."""
        self._size_max = size_max
        self._counts: OrderedDict[tuple[Place, bytes], int] = OrderedDict()

    def get(self, place: Place, context: bytes) -> int | None:
        """Return a count that is remembered."""
        return self._counts.get((place, context))

    def put(self, place: Place, context: bytes, count: int) -> None:
        """Remember a count that is durable."""
        counts, key = self._counts, (place, context)
        counts[key] = count
        counts.move_to_end(key)
        if len(counts) > self._size_max:
            counts.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._counts.clear()
