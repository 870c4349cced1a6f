"""The subscriptions of a root: its streams, with a live reader for each, and its types."""

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from weakref import WeakSet

import pyarrow as pa

from storage_core import (
    Clock,
    ClosedError,
    CorruptionError,
    ForeignDataError,
    ShardlogError,
    SystemClock,
    UnavailableError,
    list_streams,
)
from storage_core.platform.name_suggestions import unknown_names
from storage_core.platform.overriding import override
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.pool.stream_ranges import RangeQueries, StreamRanges
from typed_events.errors import BusyError, CommandError, NotFoundError, StaleCheckpointError
from typed_events.language.commands import Subscribe
from typed_events.query.fields import FieldsOfTypes, TypeFields
from typed_events.subscriptions.begins import (
    Begin,
    begin_at,
    begin_at_end,
    behind_end,
    refuse_places,
)
from typed_events.subscriptions.checkpoints import Place, places_of
from typed_events.subscriptions.evaluator import Evaluator
from typed_events.subscriptions.live_reader import LiveReader
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.polling import Polling
from typed_events.subscriptions.subscription import Source, Sources, Subscription
from typed_events.subscriptions.wanted import Wanted, condition_of, schema_of, side_of
from typed_events.types.stored_types import TypesOfRoot

_LOOK_EVERY_S: Final = 0.2


class Subscriptions(Sources):
    """Makes subscriptions. Any thread; closing it ends them all."""

    def __init__(
        self,
        root: Path,
        options: SubscriptionOptions | None = None,
        types: FieldsOfTypes | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            root: The directory that holds the streams.
            options: How much subscriptions take.
            types: The types; None for reading them from the root.
            clock: Says which rows of state are past their time.
        """
        self._root = root
        self._clock = clock or SystemClock()
        self._options = options or SubscriptionOptions()
        self._polling = Polling(self._options.pause_s)
        self._types = types or FieldsOfTypes(TypesOfRoot(root).current)
        # New rows for all, and old rows for each, do not wait for each other.
        self._live_queries, self._own_queries = RangeQueries(), RangeQueries()
        self._lock = threading.Lock()
        self._sources: dict[str, Source] = {}
        # Those of files that are there no more; they are closed soon.
        self._retired: list[Source] = []
        # Whoever drops a subscription has ended it, too.
        self._open: WeakSet[Subscription] = WeakSet()
        # How many are being made, whose streams are in use though no subscription has them yet.
        self._beginning = 0
        self._closing = threading.Event()
        self._watcher: threading.Thread | None = None

    def subscribe(self, command: Subscribe) -> Subscription:
        """Return a subscription, which stands where the command says.

        Raises:
            CommandError: A name is unknown, a literal does not fit, or there is no such place.
            NotFoundError: There is no such type.
            BusyError: There are too many subscriptions.
        """
        with self._lock:
            self._beginning += 1
        try:
            return self._subscribed(command)
        except (CorruptionError, ForeignDataError) as error:
            # What was open may be of files that others have taken the place of.
            name = command.event_type or error.stream
            if name is None or not self._retire(name):
                raise
            return self._subscribed(command)
        finally:
            with self._lock:
                self._beginning -= 1

    def wake(self, names: Iterable[str]) -> None:
        """Have new rows of streams told at once; any thread, and it waits for none."""
        for name in names:
            source = self._sources.get(name)
            if source is not None:
                source.live_reader.wake()

    def close(self) -> None:
        """End all subscriptions, and close what is open; closing twice is fine."""
        with self._lock:
            self._closing.set()
            subscriptions, watcher = [*self._open], self._watcher
        for subscription in subscriptions:
            subscription.end()
        if watcher is not None:
            watcher.join()
        with self._lock:
            sources = [*self._sources.values(), *self._retired]
            self._sources.clear()
            self._retired.clear()
        for source in sources:
            source.live_reader.close()
        self._live_queries.close()
        self._own_queries.close()
        for source in sources:
            source.ranges.close()

    def _close_unused(self) -> None:
        """Close the streams that nobody is subscribed to any more."""
        with self._lock:
            unused, self._retired = self._retired, []
            if not self._beginning:
                used = {name for subscription in self._open for name in subscription.names}
                unused += [self._sources.pop(name) for name in {*self._sources} - used]
        for source in unused:
            source.live_reader.close()
            source.ranges.close()

    # --- of subscriptions ------------------------------------------------------------------

    @override
    def types(self) -> Mapping[str, TypeFields]:
        """Return the types that there are now."""
        return self._types.current()

    @override
    def names(self) -> set[str]:
        """Return the types of events that there are, and have a stream."""
        events = {name for name, fields in self._types.current().items() if fields.ttl_s is None}
        return events & {*list_streams(self._root)}

    @override
    def source(self, name: str) -> Source | None:
        """Return a stream; None where it is not there yet."""
        with self._lock:
            if self._closing.is_set():
                message = "the store of events is closed"
                raise ClosedError(message)
            source = self._sources.get(name)
            if source is None:
                if name not in list_streams(self._root):
                    return None
                ranges = StreamRanges(self._root, name)
                evaluator = Evaluator(self._live_queries, self._clock)
                live_reader = LiveReader(
                    ranges, evaluator, self.types, self._options, self._polling
                )
                source = Source(ranges, live_reader, Evaluator(self._own_queries, self._clock))
                self._sources[name] = source
            return source

    @override
    def forget(self, subscription: Subscription) -> None:
        """Count a subscription no more."""
        with self._lock:
            self._open.discard(subscription)

    # --- how one begins --------------------------------------------------------------------

    def _subscribed(self, command: Subscribe) -> Subscription:
        wanted = Wanted(command.context, command.where, command.event_type is None)
        types = self._types.current()
        self._check(command, wanted, types)
        subscription = Subscription(command.event_type, wanted, self, self._options)
        subscription.schema = self._schema(command, types)
        for name, begin in self._begin(command).items():
            subscription.add(name, begin)
        with self._lock:
            if self._closing.is_set():
                message = "the store of events is closed"
                raise ClosedError(message)
            if len(self._open) >= self._options.subscriptions_max:
                message = f"there are {len(self._open)} subscriptions already; try again later"
                raise BusyError(message)
            self._open.add(subscription)
            if self._watcher is None:
                self._watcher = threading.Thread(
                    target=self._watch, name="subscriptions-types", daemon=True
                )
                self._watcher.start()
        return subscription

    def _check(self, command: Subscribe, wanted: Wanted, types: Mapping[str, TypeFields]) -> None:
        """Refuse a type that is not there, and a condition that fits none."""
        name = command.event_type
        if name is not None:
            streams = list_streams(self._root)
            if name not in types and (name not in streams or name.startswith("_")):
                listed = sorted(one for one in {*types, *streams} if not one.startswith("_"))
                raise NotFoundError(unknown_names("type", [name], listed))
            condition_of(wanted, side_of(name, self._empty(name), types))
            return
        errors = []
        for event_type in types:
            if types[event_type].ttl_s is not None:
                continue
            try:
                condition_of(wanted, side_of(event_type, None, types))
            except CommandError as error:
                errors.append(error)
            else:
                return
        if errors:
            message = f"the condition fits no type: {errors[0].message}"
            raise CommandError(message)

    def _empty(self, name: str) -> PooledSnapshot | None:
        source = self.source(name)
        return None if source is None else source.empty(self._options)

    def _schema(self, command: Subscribe, types: Mapping[str, TypeFields]) -> pa.Schema:
        name = command.event_type or ""
        side = side_of(name, self._empty(name) if name else None, types)
        return schema_of(side, is_of_all=not name)

    def _begin(self, command: Subscribe) -> Mapping[str, Begin]:
        """Return where a subscription begins, by stream."""
        names = [command.event_type] if command.event_type is not None else sorted(self.names())
        from_places: Mapping[str, Mapping[int, Place]] = {}
        if command.start.lower() not in ("start", "now"):
            from_places = places_of(command.start, command.event_type)
        begins: dict[str, Begin] = {}
        for name in names:
            source, places = self.source(name), from_places.get(name, {})
            if source is None:
                for shard, place in places.items():
                    if place.address:
                        raise behind_end(name, shard, place, 0)
                begins[name] = Begin({0: Place(0)})
            elif command.start.lower() == "now":
                begins[name] = begin_at_end(source.ranges)
            else:
                begins[name] = begin_at(source.ranges, places, is_state=self._is_state(name))
        return begins

    @override
    def refuse_stale(self, name: str, places: Mapping[int, Place]) -> None:
        """Refuse places that a stream does not have, by what is there now; it is opened anew.

        One that is gone is awaited by whoever was told nothing of it.
        """
        self._retire(name)
        if self._closing.is_set():
            return
        try:
            source = self.source(name)
            if source is not None:
                refuse_places(source.ranges, places, is_state=True)
                return
        except (CorruptionError, ForeignDataError, UnavailableError):
            # It cannot be told; the subscriber is told what failed.
            return
        if not any(place.address for place in places.values()):
            return
        message = f"{name} was dropped or moved away while it was subscribed to"
        raise StaleCheckpointError(message)

    def _retire(self, name: str) -> bool:
        """Have a stream opened anew; tell whether it was open."""
        with self._lock:
            source = self._sources.pop(name, None)
            if source is not None:
                self._retired.append(source)
        return source is not None

    def _is_state(self, name: str) -> bool:
        fields = self._types.current().get(name)
        return fields is not None and fields.ttl_s is not None

    def _watch(self) -> None:
        """Tell subscriptions of new types and streams, and close streams that are not used."""
        before: tuple[set[str], set[str]] | None = None
        while not self._closing.wait(_LOOK_EVERY_S):
            self._close_unused()
            try:
                # A stream may be there before its type is, and is followed once both are.
                names = {*list_streams(self._root)}, self.names()
            except ShardlogError:
                # The root is gone, or cannot be read; who reads is told so.
                continue
            if names != before:
                before = names
                self._have_all_look()

    def _have_all_look(self) -> None:
        # By itself, so that the watcher holds no subscription while it waits.
        with self._lock:
            subscriptions = [*self._open]
        for subscription in subscriptions:
            subscription.look()
