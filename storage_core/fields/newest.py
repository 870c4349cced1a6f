"""Which of a stream's schemas is the newest, by what a store knows of them."""

from collections.abc import Iterable

from storage_core.format.schema_entry import SchemaEntry


def newest_schema(schemas: Iterable[SchemaEntry]) -> SchemaEntry | None:
    """Return the schema with the highest id in its registry, of one id the last; None if none.

    A registry counts its ids up, and a shard keeps schemas in the order in which they came.
    """
    newest: SchemaEntry | None = None
    for one in schemas:
        if newest is None or one.registry_id >= newest.registry_id:
            newest = one
    return newest
