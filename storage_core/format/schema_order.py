"""One order for the schemas of several shards: what came later in one of them stands later.

A shard keeps schemas in the order in which they came to it, and each sees some of them only. Where
no shard has two of them, the lower id of a registry, which counts its ids up, comes first; of one
id the longer row of older ones decides, then who was named first. Shards that contradict each
other, as where two writers take turns, leave the order to the ids, and then to who was named first.
"""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import pairwise

from storage_core.format.schema_entry import SchemaEntry

_Identity = tuple[int, bytes]


def in_order_of_all(orders: Iterable[Iterable[SchemaEntry]]) -> list[SchemaEntry]:
    """Return the schemas of several orders, each once."""
    entries: dict[_Identity, SchemaEntry] = {}
    before: dict[_Identity, set[_Identity]] = {}
    for order in orders:
        by_identity = {entry.identity: entry for entry in order}
        entries |= by_identity
        for key in by_identity:
            before.setdefault(key, set())
        for key, after in pairwise(by_identity):
            before[after].add(key)
    places = {identity: place for place, identity in enumerate(entries)}
    older = TopologicalSorter(before)
    try:
        older.prepare()
    except CycleError:
        return [entries[key] for key in sorted(entries, key=lambda key: (key[0], places[key]))]
    ordered: list[SchemaEntry] = []
    rows: dict[_Identity, int] = {}
    ready: list[tuple[int, int, int, _Identity]] = []
    while older.is_active():
        for key in older.get_ready():
            rows[key] = 1 + max((rows[each] for each in before[key]), default=0)
            heappush(ready, (key[0], rows[key], places[key], key))
        *_, first = heappop(ready)
        ordered.append(entries[first])
        older.done(first)
    return ordered
