"""The streams of a root that are no event types, as LIST TYPES and DESCRIBE tell of them."""

from collections.abc import Collection, Mapping
from pathlib import Path

from storage_core import ShardlogError, describe_stream
from storage_core.sql.pool.stream_pool import StreamPool
from typed_events.errors import NotFoundError
from typed_events.query.operands import Operand, Side
from typed_events.types.other_stream import OtherStream


class OtherStreams:
    """Tells of them. Any thread."""

    def __init__(self, root: Path, streams: StreamPool) -> None:
        """Tell of the streams below a root."""
        self._root = root
        self._streams = streams

    def names(self, types: Collection[str]) -> list[str]:
        """Return the names of the streams that are none of these types, nor the store's own."""
        names = sorted(self._streams.names())
        return [name for name in names if name not in types and not name.startswith("_")]

    def listed(self, types: Collection[str]) -> list[OtherStream]:
        """Return them; those whose files cannot be read have no fields."""
        streams = []
        for name in self.names(types):
            try:
                streams.append(self.described(name))
            except ShardlogError:
                streams.append(OtherStream(name, None))
        return streams

    def described(self, name: str) -> OtherStream:
        """Return one with its fields.

        Raises:
            ShardlogError: Its files cannot be read.
        """
        return OtherStream(name, self.topic(name), self._fields(name))

    def topic(self, name: str) -> str | None:
        """Return the topic that a stream is a copy of, if it is one; raises as `described` does."""
        origin = describe_stream(self._root, name).origin
        return None if origin is None else origin.topic

    def reason(self, error: NotFoundError, name: str, types: Collection[str]) -> ShardlogError:
        """Return why nothing was stored: what the stream is that was taken for a type, if any."""
        try:
            if name in self.names(types):
                return NotFoundError(OtherStream(name, self.topic(name)).refused)
        except ShardlogError:
            pass
        return error

    def _fields(self, name: str) -> Mapping[str, str]:
        side = Side(self._streams.columns(name), name, "e0", None)
        return {operand.name: _type_of(operand) for operand in side.fields.values()}


def _type_of(operand: Operand) -> str:
    """Return a type as DEFINE has it; of what no type can have as Arrow calls it."""
    if operand.kind == "other":
        return str(operand.type)
    return "timestamp" if operand.kind == "local_timestamp" else operand.kind
