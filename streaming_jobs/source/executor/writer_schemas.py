"""The schemas that wrote a shard's rows, as its store has them; kept from task to task.

A schema never changes under its registry id and fingerprint in one stream, so it is read once a
process. One that is not known is read from the store's own dictionary: it is there in the
batch of the first row that it wrote, so whoever sees the row finds it. Where it is missing all the
same, the reader refreshes its snapshot, once.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from storage_core import InvalidRequestError, SchemaEntry
from storage_core.avro import AvroSchema
from streaming_jobs.common.stream_location import StreamLocation

_CACHE_MAX: Final = 1024
_Key = tuple[StreamLocation, int, bytes]
_CACHE: Final[OrderedDict[_Key, AvroSchema]] = OrderedDict()


class WriterSchemas:
    """Finds schemas for the rows of one shard. One thread at a time."""

    def __init__(
        self,
        place: StreamLocation,
        schemas: Callable[[int], Iterable[SchemaEntry]],
        refresh: Callable[[], object],
    ) -> None:
        """Find the schemas of a stream's shard.

        Args:
            place: The stream.
            schemas: Tells those that its shard knows of a registry id.
            refresh: Takes a new snapshot of the store.
        """
        self._place = place
        self._schemas = schemas
        self._refresh = refresh
        self._missing: set[tuple[int, bytes]] = set()

    def find(self, registry_id: int, fingerprint: bytes) -> AvroSchema | None:
        """Return a schema, None if the store has none, or one that is no Avro."""
        key = (self._place, registry_id, fingerprint)
        if key in _CACHE:
            _CACHE.move_to_end(key)
            return _CACHE[key]
        if (registry_id, fingerprint) in self._missing:
            return None
        schema = self._look(registry_id, fingerprint)
        if schema is None:
            self._refresh()
            schema = self._look(registry_id, fingerprint)
        if schema is None:
            self._missing.add((registry_id, fingerprint))
            return None
        _CACHE[key] = schema
        if len(_CACHE) > _CACHE_MAX:
            _CACHE.popitem(last=False)
        return schema

    def _look(self, registry_id: int, fingerprint: bytes) -> AvroSchema | None:
        for entry in self._schemas(registry_id):
            if entry.identity == (registry_id, fingerprint):
                try:
                    return AvroSchema.stored(entry.text)
                except InvalidRequestError:
                    return None
        return None
