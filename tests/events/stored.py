"""Writes types and events in their stored form, by the public calls of the log alone."""

import json
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from storage_core import SchemaEntry, Stream, StreamOptions
from storage_core.avro import AvroSchema, encode_batch, frame_of

TYPES: Final = "_types"
# The time of the first event: microseconds since the epoch.
FIRST_US: Final = 1_780_000_000_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# What a field's type is called in Avro.
_AVRO: Final[Mapping[str, Any]] = {
    "int": "long",
    "float": "double",
    "string": "string",
    "bool": "boolean",
    "uuid": {"type": "string", "logicalType": "uuid"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}
Fields = Mapping[str, str | Sequence[str]]
Event = dict[str, Any]


def time_of(microseconds: int) -> datetime:
    """Return the time of a primary."""
    return EPOCH + timedelta(microseconds=microseconds)


def avro_text(event_type: str, fields: Fields) -> str:
    """Return the record schema of a type."""

    def avro_field(name: str, written: str | Sequence[str]) -> dict[str, Any]:
        if not isinstance(written, str):
            symbols = {"type": "enum", "name": f"{event_type}_{name}", "symbols": list(written)}
            return {"name": name, "type": symbols}
        base = written.removesuffix(" | null")
        if base == written:
            return {"name": name, "type": _AVRO[base]}
        return {"name": name, "type": ["null", _AVRO[base]], "default": None}

    record = {
        "type": "record",
        "name": event_type,
        "namespace": "shardlog.events",
        "fields": [avro_field(name, written) for name, written in fields.items()],
    }
    return json.dumps(record)


class StoredEvents:
    """A root with event types; a list of all events beside it, as they were stored."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.streams: dict[str, Stream] = {}
        self.events: list[Event] = []
        self._options = options
        self._schemas: dict[tuple[str, int], AvroSchema] = {}
        self._addresses: dict[tuple[str, int], int] = {}
        self._now = FIRST_US

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for stream in self.streams.values():
            stream.close()
        self.streams.clear()

    def define(
        self, event_type: str, fields: Fields, version: int = 1, *, is_made: bool = True
    ) -> None:
        """Write a version of a type, and make its stream."""
        text = avro_text(event_type, fields)
        self._schemas[event_type, version] = AvroSchema.parse(text)
        if is_made and event_type not in self.streams:
            options = StreamOptions(
                **{"shards": 1, **self._options}, unit="us", key_mode="dictionary"
            )
            self.streams[event_type] = Stream.create(self.root, event_type, options)
        self._append(TYPES, [event_type.encode()], [text.encode()], version)

    def store(
        self, event_type: str, contexts: Sequence[str], rows: Sequence[Event], version: int = 1
    ) -> None:
        """Store events, a context and the fields of each."""
        schema = self._schemas[event_type, version]
        columns = {
            field.name: pa.array([row.get(field.name) for row in rows], _plain(field.type))
            for field in schema.arrow_schema()
        }
        payloads = encode_batch(pa.table(columns), schema, frame=frame_of(schema, None))
        keys = [context.encode() for context in contexts]
        entry = SchemaEntry(0, schema.identity, schema.text)
        first = self._now
        self._append(event_type, keys, payloads, version, entry)
        tails: dict[int, list[tuple[int, int]]] = {}
        stream = self.streams[event_type]
        for shard, start in list(self._ends(event_type).items()):
            for batch in stream.tail(shard, start, columns=["address", "primary"]):
                tails.setdefault(shard, []).extend(
                    zip(*(column.to_pylist() for column in batch.columns), strict=True)
                )
        places = {
            primary: (shard, address) for shard, ends in tails.items() for address, primary in ends
        }
        for number, (context, row) in enumerate(zip(contexts, rows, strict=True)):
            shard, address = places[first + number]
            self._addresses[event_type, shard] = address + 1
            self.events.append(
                {
                    "context_id": context,
                    "event_type": event_type,
                    "timestamp": time_of(first + number),
                    "id": f"{shard}:{address}",
                    "version": version,
                    **row,
                }
            )

    def reopen(self) -> None:
        """Close all streams and open them again, as another process does."""
        for name, stream in self.streams.items():
            stream.close()
            self.streams[name] = Stream.open(self.root, name)

    def restore(self, event_type: str, copy: Path) -> None:
        """Put an older copy in the place of a type's stream."""
        self.streams[event_type].close()
        shutil.rmtree(self.root / event_type)
        copy.rename(self.root / event_type)
        self.streams[event_type] = Stream.open(self.root, event_type)
        for shard, end in self.streams[event_type].committed().items():
            self._addresses[event_type, shard] = end
            self.events = [
                event
                for event in self.events
                if event["event_type"] != event_type
                or int(event["id"].split(":")[0]) != shard
                or int(event["id"].split(":")[1]) < end
            ]

    def expire(self, event_type: str, age: timedelta) -> None:
        """Let the events of a type expire that are older than an age."""
        stream = self.streams[event_type]
        stream.alter(retention=age)
        stream.expire(now=self._now)
        stream.alter(retention=None)
        floor = time_of(self._now) - age
        self.events = [
            event
            for event in self.events
            if event["event_type"] != event_type or event["timestamp"] >= floor
        ]

    def _ends(self, event_type: str) -> dict[int, int]:
        committed = self.streams[event_type].committed()
        return {shard: self._addresses.get((event_type, shard), 0) for shard in committed}

    def _append(
        self,
        name: str,
        keys: Sequence[bytes],
        payloads: Any,
        version: int,
        entry: SchemaEntry | None = None,
    ) -> None:
        if name not in self.streams:
            options = StreamOptions(shards=1, unit="us", key_mode="dictionary")
            self.streams[name] = Stream.create(self.root, name, options)
        count = len(keys)
        columns: dict[str, Any] = {
            "primary": pa.array(range(self._now, self._now + count), pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "payload": payloads if entry else pa.array(payloads, pa.binary()),
            "version": pa.array([version] * count, pa.uint16()),
        }
        if entry is not None:
            columns["schema"] = pa.array([0] * count, pa.int32())
        self._now += count
        schemas = [] if entry is None else [entry]
        self.streams[name].append_batch(pa.table(columns), schemas=schemas)
        self.streams[name].commit()


def _plain(data_type: Any) -> Any:
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type
