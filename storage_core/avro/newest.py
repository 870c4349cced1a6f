"""Which of a stream's schemas is the newest, by what a store knows of them."""

from collections.abc import Iterable

from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all


def newest_schema(*orders: Iterable[SchemaEntry]) -> SchemaEntry | None:
    """Return the schema with the highest id in its registry, of one id the last; None if none.

    A registry counts its ids up. Those of one id, as of no registry, are told apart by the order
    in which they came to the shards (`schema_order.py`).

    Args:
        orders: The schemas of a stream, or of each of several, as `schemas()` returns them.
    """
    newest: SchemaEntry | None = None
    for entry in in_order_of_all(orders):
        if newest is None or entry.registry_id >= newest.registry_id:
            newest = entry
    return newest
