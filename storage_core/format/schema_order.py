"""One order for the schemas of several shards: what came later in one of them stands later.

A shard keeps schemas in the order in which they came to it, and each sees some of them only. Where
no shard has two of them, the longer row of older ones decides, then who was named first. Shards
that contradict each other, as where two writers take turns, leave them as they were named.
"""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from storage_core.format.schema_entry import SchemaEntry

_Identity = tuple[int, bytes]


def in_order_of_all(orders: Iterable[Iterable[SchemaEntry]]) -> list[SchemaEntry]:
    """Return the schemas of several orders, each once."""
    entries: dict[_Identity, SchemaEntry] = {}
    older: TopologicalSorter[_Identity] = TopologicalSorter()
    for order in orders:
        known = {entry.identity: entry for entry in order}
        entries |= known
        for one in known:
            older.add(one)
        for before, after in pairwise(known):
            older.add(after, before)
    try:
        older.prepare()
    except CycleError:
        return list(entries.values())
    places = {identity: place for place, identity in enumerate(entries)}
    found: list[SchemaEntry] = []
    while older.is_active():
        ready = older.get_ready()
        found += [entries[identity] for identity in sorted(ready, key=places.__getitem__)]
        older.done(*ready)
    return found
