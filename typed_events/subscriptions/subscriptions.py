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
    InvalidRequestError,
    SystemClock,
    list_streams,
)
from storage_core.platform.name_suggestions import unknown_names
from storage_core.platform.overriding import override
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.pool.stream_ranges import RangeQueries, StreamRanges
from typed_events.answer import counted
from typed_events.errors import BusyError, CommandError, NotFoundError
from typed_events.language.commands import Subscribe
from typed_events.query.fields import FieldsOfTypes, TypeFields
from typed_events.subscriptions.checkpoints import positions_of
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
            try:
                return self._subscribed(command)
            except (CorruptionError, ForeignDataError):
                # A stream may be another one since it was opened for those before.
                self._close_unused(beginning_max=1)
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
            sources = [*self._sources.values()]
            self._sources.clear()
        for source in sources:
            source.live_reader.close()
        self._live_queries.close()
        self._own_queries.close()
        for source in sources:
            source.ranges.close()

    def _close_unused(self, beginning_max: int = 0) -> None:
        """Close the streams that nobody is subscribed to, unless more subscriptions are made."""
        with self._lock:
            if self._beginning > beginning_max:
                return
            used = {name for subscription in self._open for name in subscription.names}
            unused = [self._sources.pop(name) for name in {*self._sources} - used]
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
        for name, positions in self._begin(command).items():
            subscription.add(name, positions)
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

    def _begin(self, command: Subscribe) -> Mapping[str, dict[int, int]]:
        """Return where a subscription begins, by stream."""
        names = [command.event_type] if command.event_type is not None else sorted(self.names())
        from_positions: Mapping[str, Mapping[int, int]] = {}
        if command.start.lower() not in ("start", "now"):
            from_positions = positions_of(command.start, command.event_type)
        begins: dict[str, dict[int, int]] = {}
        for name in names:
            source = self.source(name)
            if source is None:
                begins[name] = {0: 0}
                places = from_positions.get(name, {})
                if any(places.values()):
                    raise _beyond(name, 0, max(places.values()), 0)
                continue
            ends = source.ranges.ends()
            if command.start.lower() == "now":
                begins[name] = ends
                continue
            begins[name] = {shard: source.ranges.start(shard) for shard in ends}
            # What has gone of state is past its time, and no loss.
            starts = dict.fromkeys(ends, 0) if self._is_state(name) else begins[name]
            for shard, address in from_positions.get(name, {}).items():
                _check_place(name, shard, address, starts, ends)
                begins[name][shard] = address
        return begins

    def _is_state(self, name: str) -> bool:
        fields = self._types.current().get(name)
        return fields is not None and fields.ttl_s is not None

    def _watch(self) -> None:
        """Tell subscriptions of new types and streams, and close streams that are not used."""
        before: set[str] = set()
        while not self._closing.wait(_LOOK_EVERY_S):
            self._close_unused()
            try:
                names = self.names() | {*list_streams(self._root)}
            except InvalidRequestError:
                # The root is gone; who reads is told so.
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


def _check_place(
    name: str, shard: int, address: int, starts: Mapping[int, int], ends: Mapping[int, int]
) -> None:
    """Refuse a place that a stream does not have."""
    if shard not in ends:
        message = f"{name} has {counted(len(ends), 'shard')}: there is no shard {shard}"
        raise CommandError(message)
    if address > ends[shard]:
        raise _beyond(name, shard, address, ends[shard])
    if address < starts[shard]:
        message = (
            f"{name}/{shard}:{address} is gone: what is left begins at "
            f"{name}/{shard}:{starts[shard]}; FROM START begins there"
        )
        raise CommandError(message)


def _beyond(name: str, shard: int, address: int, end: int) -> CommandError:
    return CommandError(
        f"{name}/{shard}:{address} lies behind the end, {name}/{shard}:{end}: is the checkpoint of "
        "another store?"
    )
