"""JSON values of topics: judged by an event type, as STORE judges what it is given.

A value of a type of the root has no version of it in it: it is one of the newest version that takes
it. So those who write the fields of before and those who write the new ones stand side by side in a
topic. A value that names a schema of a registry is of the type that this schema is like.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from connectors.ingest.values.avro_values import (
    NO_SCHEMA,
    Answers,
    FramedValues,
    WriterSchema,
)
from connectors.ingest.values.framing import Frames
from connectors.kafka import Fetched
from storage_core import ShardlogError
from storage_core.avro import body_starts
from typed_events.types.event_type import EventType
from typed_events.types.json_events import json_fault, json_schema_of, versions_of_values
from typed_events.types.stored_types import StoredType, TypesOfRoot

# So many versions of a type are tried, the newest first.
_VERSIONS_TRIED_MAX: Final = 16
_TYPES_MAX: Final = 64


def framed_texts(fetched: Fetched, frames: Frames, answers: Answers) -> FramedValues:
    """Return what is known of texts that name schemas of a registry."""
    values: Any = fetched.values

    def reason(row: int) -> str | None:
        writer = answers[frames.names[frames.indices[row]]]
        assert isinstance(writer, WriterSchema), "only what has a schema is read by it"
        text = values[row].as_py()[frames.starts[row] :]
        return json_fault(_type_of_rows(writer.schema.text), text)

    return FramedValues(frames, answers, reason_of=reason)


@lru_cache(_TYPES_MAX)
def _type_of_rows(text: str) -> EventType:
    return EventType.from_avro(1, text)


class EventValues:
    """The event types of a root, as values are read by them. Belongs to one thread."""

    def __init__(self, root: Path) -> None:
        """Read no types yet."""
        self._types = TypesOfRoot(root)
        self._writers: dict[tuple[str, int], WriterSchema] = {}
        self._last: dict[str, list[StoredType]] = {}

    def check(self, event_type: str) -> None:
        """Refuse a type that is not there, or that values of a topic cannot be of.

        Raises:
            NotFoundError: Nobody has defined it.
            CommandError: It is one of state.
        """
        self._last[event_type] = versions_of_values(self._types.current(), event_type)

    def framed(self, fetched: Fetched, event_type: str) -> FramedValues:
        """Return what is known of values that are events of a type.

        The types are looked at again each time: who was told that a version is there may write it.

        Raises:
            ShardlogError: The type was never there.
        """
        try:
            self.check(event_type)
        except ShardlogError:
            if event_type not in self._last:
                raise
        newest, *older = self._last[event_type][: -_VERSIONS_TRIED_MAX - 1 : -1]
        values: Any = fetched.values
        starts = body_starts(values, fetched.headers).astype(np.int32)
        indices = np.zeros(len(values), np.int32)
        if values.null_count:
            indices[values.is_null().to_numpy(zero_copy_only=False)] = NO_SCHEMA
        name = event_type.encode()

        def reason(row: int) -> str | None:
            text = values[row].as_py()[starts[row] :]
            return json_fault(newest.event_type, text)

        return FramedValues(
            Frames((name,), indices, starts, {}),
            {name: self._writer(newest)},
            [self._writer(one) for one in older],
            reason,
        )

    def _writer(self, stored: StoredType) -> WriterSchema:
        key = stored.event_type.name, stored.event_type.version
        if key not in self._writers:
            schema = json_schema_of(stored.event_type)
            self._writers[key] = WriterSchema(len(self._writers), key[1], schema, key[1])
        return self._writers[key]
