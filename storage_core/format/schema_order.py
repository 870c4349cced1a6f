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
        known = {entry.identity: entry for entry in order}
        entries |= known
        for one in known:
            before.setdefault(one, set())
        for one, after in pairwise(known):
            before[after].add(one)
    places = {identity: place for place, identity in enumerate(entries)}
    older = TopologicalSorter(before)
    try:
        older.prepare()
    except CycleError:
        return [entries[one] for one in sorted(entries, key=lambda one: (one[0], places[one]))]
    found: list[SchemaEntry] = []
    rows: dict[_Identity, int] = {}
    ready: list[tuple[int, int, int, _Identity]] = []
    while older.is_active():
        for one in older.get_ready():
            rows[one] = 1 + max((rows[each] for each in before[one]), default=0)
            heappush(ready, (one[0], rows[one], places[one], one))
        *_, first = heappop(ready)
        found.append(entries[first])
        older.done(first)
    return found
