"""The event streams of a root, all open for writing: whoever has them owns its events.

The stream of batches is locked first, so that two owners never each have some of the others.
Only the writer's thread opens and closes; any thread may maintain what is open.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from storage_core import (
    Environment,
    ExpiryReport,
    ShardlogError,
    Stream,
    StreamOptions,
    UnavailableError,
    describe_stream,
    list_streams,
)
from storage_core.platform.xxh3 import xxh3_64_intdigest
from typed_events.errors import CommandError, NotFoundError
from typed_events.store.attached import KEY_LAST, decode_number
from typed_events.store.options import EventStoreOptions
from typed_events.store.submission import Place
from typed_events.types.event_type import EventType, ttl_text
from typed_events.types.stored_types import TYPES_STREAM, StoredTypes, is_root

JOURNAL_STREAM: Final = "_batches"


@dataclass(slots=True)
class OwnedStream:
    """The stream of a type, open for writing.

    Attributes:
        stream: It.
        places: Its shards.
        tails: Of each shard the address that the next event gets.
        payload_bytes_max: How many bytes a payload has at most.
        last: The largest primary of them.
        is_state: Whether its rows are state, which no context counts as events.
        floor: The primary below which rows are past their time in one of them.
        cleared: Up to which bucket idempotency keys were deleted, by shard.
    """

    stream: Stream
    places: list[Place]
    tails: dict[int, int]
    payload_bytes_max: int
    last: int = 0
    is_state: bool = False
    floor: int = 0
    cleared: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, stream: Stream, *, is_state: bool) -> Self:
        """Take an open stream."""
        largest = stream.options.payload_bytes_max
        owned = cls(stream, [], {}, largest, is_state=is_state)
        owned.refresh()
        if stream.options.retention is not None:
            # As of the beginning of time: nothing but the floor is looked up.
            owned.note_floor(stream.expire(now=0, dry_run=True))
        owned.places = [Place(name, shard) for shard in sorted(owned.tails)]
        return owned

    def place(self, context: bytes) -> Place:
        """Return where the events of a context lie: as the log routes keys."""
        mask = len(self.places) - 1
        return self.places[xxh3_64_intdigest(context) & mask if mask else 0]

    def refuse_large(self, payload: bytes) -> None:
        """Refuse a payload that the stream does not take.

        Raises:
            CommandError: It is larger.
        """
        if len(payload) > self.payload_bytes_max:
            message = (
                f"the payload has {len(payload):,} bytes; {self.places[0].event_type} takes "
                f"{self.payload_bytes_max:,} at most"
            )
            raise CommandError(message)

    def note_floor(self, expiry: ExpiryReport) -> None:
        """Note below which primary rows would be past their time."""
        floors = [shard.floor_after for shard in expiry.shards.values()]
        self.floor = max([self.floor, *(floor for floor in floors if floor is not None)])

    @property
    def has_events_alone(self) -> bool:
        """Whether each shard is empty, or was written by a store of events."""
        return all(
            not tail or self.stream.attachments(shard, [KEY_LAST])[0] is not None
            for shard, tail in self.tails.items()
        )

    def refresh(self) -> None:
        """Commit what was appended, and note where the shards end."""
        self.tails = self.stream.commit()
        for shard in self.tails:
            self.last = max(self.last, decode_number(*self.stream.attachments(shard, [KEY_LAST])))


class OwnedStreams:
    """All streams of a store of events, open for writing.

    Attributes:
        journal: The stream of batches over several types.
        types: The stream of types.
        stored_types: The types.
        by_type: The stream of each type that has one.
    """

    def __init__(
        self, root: Path, options: EventStoreOptions, environment: Environment | None
    ) -> None:
        """Open none yet; use `open`."""
        self._root = root
        self._options = options
        self._environment = environment
        self._open: list[Stream] = []
        self.stored_types = StoredTypes({})
        self.by_type: dict[str, OwnedStream] = {}

    @classmethod
    def open(
        cls, root: Path, options: EventStoreOptions, environment: Environment | None
    ) -> "OwnedStreams":
        """Open all streams of events under a root; make the root and its own, if need be.

        Raises:
            ShardLockedError: Another process owns one of them; none is open.
        """
        owned = cls(root, options, environment)
        try:
            names = set(list_streams(root)) if is_root(root) else set()
            owned.journal = owned._opened(JOURNAL_STREAM, options.of_journal(), names)
            owned.types = owned._opened(TYPES_STREAM, options.of_types(), names)
            owned.refresh_types()
            for name in owned.stored_types.names:
                if name in names:
                    stream = owned._opened(name, None, names)
                    ttl_s = owned.stored_types.type_of(name).event_type.ttl_s
                    owned.by_type[name] = OwnedStream.of(name, stream, is_state=ttl_s is not None)
                    # DEFINE may have died before it did so.
                    owned.retain(name, ttl_s)
        except BaseException:
            owned.abandon()
            raise
        return owned

    journal: Stream
    types: Stream

    def add(self, name: str, ttl_s: int | None) -> None:
        """Make the stream of a type, unless it is there.

        Args:
            name: The type.
            ttl_s: How long rows of state live; None for events.

        Raises:
            CommandError: A stream of that name is there, and is none of events; or the TTL needs
                other windows than it has.
        """
        if name in self.by_type:
            if ttl_s is not None:
                self._refuse_other_windows(name, ttl_s)
            return
        names = set(list_streams(self._root))
        options = self._options.of_type(ttl_s)
        if name in names:
            self._refuse_other(name, options)
        stream = self._opened(name, options, names)
        owned = OwnedStream.of(name, stream, is_state=ttl_s is not None)
        if not owned.has_events_alone:
            self._open.remove(stream)
            stream.close()
            raise CommandError(_other_rows(name))
        self.by_type[name] = owned

    def add_unlisted(self, name: str) -> OwnedStream | None:
        """Open the stream of events of a name that no type has; None where there is none."""
        names = set(list_streams(self._root))
        if name in self.by_type or name not in names:
            return None
        described = describe_stream(self._root, name)
        ttl_s = ttl_of(described.options)
        expected = self._options.of_type(ttl_s)
        if described.origin is not None or _nature(described.options) != _nature(expected):
            return None
        stream = self._opened(name, None, names)
        owned = OwnedStream.of(name, stream, is_state=ttl_s is not None)
        if owned.has_events_alone and any(entry.registry_id > 0 for entry in stream.schemas()):
            self.by_type[name] = owned
            return owned
        self._open.remove(stream)
        stream.close()
        return None

    def add_version(self, event_type: EventType, now_us: int) -> None:
        """Store a version of a type, durably; `refresh_types` reads it."""
        versions = self.stored_types.versions(event_type.name)
        # Rising, as each version of a type must stand behind the one before.
        latest = max((stored.defined_us for stored in versions), default=0)
        row: dict[str, Any] = {
            "primary": pa.array([max(now_us, latest + 1)], pa.int64()),
            "key": pa.array([event_type.name.encode()], pa.binary()),
            "payload": pa.array([event_type.avro_text.encode()], pa.binary()),
            "version": pa.array([event_type.version], pa.uint16()),
        }
        self.types.append_batch(pa.RecordBatch.from_pydict(row))
        self.types.commit()

    def stream_of(self, name: str) -> OwnedStream:
        """Return the stream of a type.

        Raises:
            NotFoundError: It was dropped.
        """
        owned = self.by_type.get(name)
        if owned is None:
            message = f"the stream of type {name} is gone: it was dropped; DEFINE it again"
            raise NotFoundError(message)
        return owned

    def places(self, context: bytes) -> Iterator[Place]:
        """Yield where events of a context may lie, of each type; state is no event."""
        for owned in self.by_type.values():
            if not owned.is_state:
                yield owned.place(context)

    def expire(self, name: str, ttl_s: int | None) -> None:
        """Let rows go that are past the TTL so far, if another is to hold; not those of events."""
        if ttl_s is not None and not self._has_ttl(name, ttl_s):
            self.note_expiry(name, self.by_type[name].stream.expire())

    def retain(self, name: str, ttl_s: int | None) -> None:
        """Let rows live so long from now on; nothing for events."""
        if ttl_s is not None and not self._has_ttl(name, ttl_s):
            self.by_type[name].stream.alter(retention=timedelta(seconds=ttl_s))

    def _has_ttl(self, name: str, ttl_s: int) -> bool:
        return self.by_type[name].stream.options.retention == timedelta(seconds=ttl_s)

    def attachments(self, place: Place, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return what lies beside the rows of a place."""
        return self.by_type[place.event_type].stream.attachments(place.shard, keys)

    @property
    def last(self) -> int:
        """The largest primary of all."""
        return max((owned.last for owned in self.by_type.values()), default=0)

    @property
    def floor(self) -> int:
        """The primary below which a row may be past its time."""
        return max((owned.floor for owned in self.by_type.values()), default=0)

    def note_expiry(self, name: str, expiry: ExpiryReport) -> None:
        """Note what expired in a stream; any thread."""
        owned = self.by_type.get(name)
        if owned is not None:
            owned.note_floor(expiry)

    def all(self) -> Mapping[str, Stream]:
        """Return all streams by name."""
        named = {name: owned.stream for name, owned in list(self.by_type.items())}
        return {**named, TYPES_STREAM: self.types, JOURNAL_STREAM: self.journal}

    def refresh_types(self) -> None:
        """Read the types that are committed."""
        self.stored_types = StoredTypes.of(self.types.scan())

    def close(self) -> None:
        """Commit and close them all.

        Raises:
            ShardlogError: The first that one of them raised.
        """
        errors = self._close_all()
        if errors:
            raise errors[0]

    def abandon(self) -> bool:
        """Close them behind a failure, whose error says it all; tell whether all are closed."""
        self._close_all()
        return not self._open

    def _close_all(self) -> list[ShardlogError]:
        errors: list[ShardlogError] = []
        for stream in list(self._open):
            try:
                stream.close()
            except UnavailableError as error:
                # Another call holds it: it is still open.
                errors.append(error)
                continue
            except ShardlogError as error:
                errors.append(error)
            self._open.remove(stream)
        return errors

    def _opened(self, name: str, options: StreamOptions | None, names: set[str]) -> Stream:
        if name in names:
            stream = Stream.open(self._root, name, environment=self._environment)
        else:
            stream = Stream.create(self._root, name, options, environment=self._environment)
        self._open.append(stream)
        return stream

    def _refuse_other_windows(self, name: str, ttl_s: int) -> None:
        now = self.by_type[name].stream.options
        if self._options.of_state(ttl_s).scheme != now.scheme:
            lives = int((now.retention or timedelta()).total_seconds())
            message = (
                f"{name} has TTL {ttl_text(lives)}, and its rows go by the {_width(now)}; TTL "
                f"{ttl_text(ttl_s)} would go by the {_width(self._options.of_state(ttl_s))}, which "
                "is fixed when a type is made: define another type"
            )
            raise CommandError(message)

    def _refuse_other(self, name: str, expected: StreamOptions) -> None:
        """Refuse a stream that events cannot go to; one that a crash left empty is taken."""
        described = describe_stream(self._root, name)
        options = described.options
        is_ours = _nature(options) == _nature(expected)
        if described.origin is not None or not is_ours:
            raise CommandError(_other_rows(name))


def ttl_of(options: StreamOptions) -> int | None:
    """Return how long rows of a stream of state live; None for events."""
    lives = options.retention if options.never_cold else None
    return None if lives is None else int(lives.total_seconds())


def _nature(options: StreamOptions) -> tuple[object, ...]:
    """Return what streams of one kind have alike; of events, retention may have changed since."""
    windows = options.scheme if options.never_cold else None
    return options.unit, options.key_mode, options.never_cold, windows


def _width(options: StreamOptions) -> str:
    """Return by what windows rows go, such as `hour`."""
    return str(options.scheme.width)


def _other_rows(name: str) -> str:
    return f"there is a stream {name}, and its rows are no events: take another name"
