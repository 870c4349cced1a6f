"""A subscription: the frames that one subscriber is told, history first, then live.

The subscriber's thread takes the frames, and reads by itself what lies before its live readers
(track.py). Closing it from another thread ends the wait for the next frame.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from storage_core import ClosedError, LostRangeError, ShardlogError, SystemClock
from storage_core.platform.closing import Closing
from storage_core.platform.overriding import override
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.pool.stream_ranges import StreamRanges
from typed_events.errors import CommandError
from typed_events.query.fields import TypeFields
from typed_events.subscriptions.checkpoints import around, checkpoint_of
from typed_events.subscriptions.evaluator import Evaluator
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Frame, Heartbeat, Rows
from typed_events.subscriptions.live_reader import LiveReader
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.track import Track
from typed_events.subscriptions.wanted import Wanted, WantedRows

_FOREVER_S: Final = 3_600.0
_ROWS_BETWEEN_CHECKPOINTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Source:
    """A stream that is followed."""

    ranges: StreamRanges
    live_reader: LiveReader
    evaluator: Evaluator

    def empty(self, options: SubscriptionOptions) -> PooledSnapshot:
        """Return a snapshot of the stream without rows: its columns."""
        return self.ranges.between(0, 0, 0, options.bytes_at_once)[0]


class Sources(Protocol):
    """Where subscriptions get their streams from."""

    def types(self) -> Mapping[str, TypeFields]:
        """Return the types that there are now."""
        ...

    def names(self) -> set[str]:
        """Return the types that there are, and have a stream."""
        ...

    def source(self, name: str) -> Source | None:
        """Return a stream; None where it is not there yet."""
        ...

    def forget(self, subscription: "Subscription") -> None:
        """Count a subscription no more."""
        ...


class Subscription(Closing):
    """Frames, one after the other. One thread takes them; any thread closes it.

    Attributes:
        schema: The columns of rows as they are at the beginning; a new version of the type may add
            some.

    Example:
        >>> with store.subscribe("SUBSCRIBE order FROM START") as frames:
        ...     rows = next(frames)
        >>> rows.batch.column("amount").to_pylist()
        [5]
    """

    schema: pa.Schema

    def __init__(
        self,
        event_type: str | None,
        wanted: Wanted,
        sources: Sources,
        options: SubscriptionOptions,
    ) -> None:
        """Subscribe to nothing yet; see `add`."""
        self._event_type = event_type
        self._wanted = wanted
        self._sources = sources
        self._options = options
        self._clock = SystemClock()
        self._changed = threading.Condition()
        self._tracks: dict[str, Track] = {}
        self._turns: deque[Track] = deque()
        self._frames: deque[Frame] = deque()
        self._rows_since = 0
        self._checkpoint: str | None = None
        self._is_caught_up = False
        # Whether there may be types that are not followed yet.
        self._is_to_look = False
        self._is_closed = False
        self._is_ended = False
        self._told_s = self._clock.monotonic_s()

    def add(self, name: str, positions: dict[int, int]) -> None:
        """Subscribe to a stream, too."""
        track = Track(name, positions, self._changed, self._options)
        self._tracks[name] = track
        self._turns.append(track)

    @property
    def names(self) -> list[str]:
        """The streams that are followed; any thread."""
        return [*self._tracks]

    @property
    def checkpoint(self) -> str:
        """Where the subscriber stands, behind all that it was told."""
        return checkpoint_of(self._positions())

    def poll(self, wait_s: float) -> Frame | None:
        """Return the next frame; None where there is none within some seconds, or it is closed.

        Raises:
            ShardlogError: The subscription cannot go on, and is over.
            ClosedError: So is the store.
        """
        until_s = self._clock.monotonic_s() + wait_s
        try:
            while not self._is_closed:
                self._refuse_if_ended()
                frame = self._next()
                if frame is not None:
                    self._told_s = self._clock.monotonic_s()
                    return frame
                if not self._await(until_s):
                    return None
        except BaseException as error:
            is_closed = self._is_closed
            self.close()
            if not is_closed or not isinstance(error, ShardlogError):
                raise
            # Another thread closed it, and with it the streams that were read.
        # What this thread attached to a live reader while another one closed it.
        self._leave()
        return None

    def look(self) -> None:
        """Look for types and streams that came; any thread."""
        with self._changed:
            self._is_to_look = True
            self._changed.notify_all()

    def end(self) -> None:
        """Tell the subscriber that the store is closed; any thread."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    @override
    def close(self) -> None:
        """End it; any thread, and closing twice is fine."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._sources.forget(self)
        self._leave()

    def __del__(self) -> None:
        """Leave the live readers, where nobody has closed it."""
        for track in getattr(self, "_tracks", {}).values():
            track.drop()

    def _leave(self) -> None:
        for track in [*self._tracks.values()]:
            # Its live reader soon notes that.
            track.leave()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        while True:
            frame = self.poll(_FOREVER_S)
            if frame is not None:
                return frame
            if self._is_closed:
                raise StopIteration

    def _refuse_if_ended(self) -> None:
        if self._is_ended:
            message = "the store of events is closed"
            raise ClosedError(message)

    # --- of the subscriber's thread ----------------------------------------------------------

    def _next(self) -> Frame | None:
        """Return what is to be told now, if anything is."""
        if self._is_to_look:
            self._join_new()
        for _ in range(len(self._turns)):
            if self._frames:
                break
            track = self._turns[0]
            self._turns.rotate(-1)
            self._advance(track)
        if self._frames:
            return self._frames.popleft()
        if not self._is_all_live():
            # Something was read, and nothing of it is wanted.
            return self._next_later()
        if not self._is_caught_up:
            self._is_caught_up = True
            self._rows_since = 0
            self._checkpoint = self.checkpoint
            self._frames.append(CaughtUp(self._checkpoint))
            return Checkpoint(self._checkpoint)
        if self._rows_since:
            return self._checkpoint_now()
        if self._clock.monotonic_s() - self._told_s >= self._options.heartbeat_s:
            return Heartbeat(self.checkpoint)
        return None

    def _next_later(self) -> Frame | None:
        if self._clock.monotonic_s() - self._told_s >= self._options.heartbeat_s:
            return Checkpoint(self.checkpoint)
        return None

    def _checkpoint_now(self) -> Checkpoint:
        self._rows_since = 0
        return Checkpoint(self.checkpoint)

    def _join_new(self) -> None:
        self._is_to_look = False
        for track in self._turns:
            track.is_missing = False
        if self._event_type is None:
            for name in sorted(self._sources.names() - {*self._tracks}):
                self.add(name, {})

    def _advance(self, track: Track) -> None:
        """Read on in a stream by itself, or take what its live reader has offered."""
        if not track.is_live:
            self._catch_up(track)
            return
        gap = track.next_gap()
        if gap is not None:
            source = self._sources.source(track.name)
            assert source is not None, "who attaches to a live reader has a stream"
            self._read(source, track, *gap)
            return
        piece = track.take()
        if piece is not None:
            self._tell(track, piece.shard, piece.end, piece.wanted_rows)

    def _catch_up(self, track: Track) -> None:
        source = self._sources.source(track.name)
        if source is None:
            track.is_missing = True
            return
        ends = source.ranges.ends()
        for shard, end in ends.items():
            if shard not in track.positions:
                track.positions[shard] = source.ranges.start(shard)
            if track.positions[shard] < end:
                self._is_caught_up = False
                self._read(source, track, shard, end)
                return
        source.live_reader.attach(track, self._wanted)

    def _read(self, source: Source, track: Track, shard: int, end: int) -> None:
        start = track.positions[shard]
        end = min(end, start + self._options.rows_at_once)
        try:
            snapshot, reached = source.ranges.between(
                shard, start, end, self._options.bytes_at_once
            )
        except LostRangeError:
            if not self._skip_expired(source, track, shard):
                raise
            return
        mark = self._wanted.mark
        # IMPORTANT: the types are looked up behind the rows, whose types are among them then.
        types = self._sources.types()
        result = source.evaluator.wanted_rows(snapshot, types, {mark: self._wanted})[mark]
        if isinstance(result, CommandError):
            if not self._wanted.is_of_all:
                raise result
            track.positions[shard] = reached
            return
        self._tell(track, shard, reached, result)

    def _skip_expired(self, source: Source, track: Track, shard: int) -> bool:
        """Go on behind rows of state that have gone; tell whether there are such."""
        fields = self._sources.types().get(track.name)
        if fields is None or fields.ttl_s is None:
            return False
        source.ranges.ends()
        begin = source.ranges.start(shard)
        if track.positions[shard] >= begin:
            return False
        track.positions[shard] = begin
        return True

    def _tell(self, track: Track, shard: int, end: int, rows: WantedRows) -> None:
        """Note that a range was told, with its rows."""
        track.positions[shard] = end
        if not rows.addresses:
            return
        left, right = around(self._positions(), track.name, shard)
        frame = Rows(track.name, rows.batch, rows.addresses, (left, right), rows.made)
        self._frames.append(frame)
        self._rows_since += len(rows.addresses)
        if self._rows_since >= _ROWS_BETWEEN_CHECKPOINTS:
            self._frames.append(self._checkpoint_now())

    def _positions(self) -> dict[str, dict[int, int]]:
        return {name: track.positions for name, track in self._tracks.items() if track.positions}

    def _is_all_live(self) -> bool:
        with self._changed:
            return all(map(self._is_settled, self._turns))

    @staticmethod
    def _is_settled(track: Track) -> bool:
        """Tell whether a stream has nothing to do before its live reader offers something."""
        if not track.is_live:
            return track.is_missing
        return track.next_gap() is None and not track.has_rows

    def _await(self, until_s: float) -> bool:
        """Wait until there may be a frame; return False once it is too late."""
        with self._changed:
            while not (self._is_closed or self._is_ended or self._is_to_look):
                now_s = self._clock.monotonic_s()
                if not all(map(self._is_settled, self._turns)):
                    return now_s < until_s
                heartbeat_s = self._told_s + self._options.heartbeat_s
                if now_s >= heartbeat_s:
                    return True
                if now_s >= until_s:
                    return False
                self._changed.wait(min(until_s, heartbeat_s) - now_s)
            return True


class SubscribedBatches:
    """The rows of a subscription as the batches of an answer, all with the columns of the first."""

    def __init__(self, subscription: Subscription) -> None:
        """Take over a subscription."""
        self._subscription = subscription

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        for frame in self._subscription:
            if isinstance(frame, Rows):
                return conformed(frame.batch, self._subscription.schema)
        raise StopIteration

    def close(self) -> None:
        """End the subscription; any thread."""
        self._subscription.close()


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with other columns: those that a later version added are left out.

    Raises:
        CommandError: The type of a field has changed since.
    """
    if batch.schema == schema:
        return batch
    untyped: Any = pa
    columns = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:
            message = (
                f"field {field.name} was {field.type} and is {column.type} now: subscribe again "
                "from the last position"
            )
            raise CommandError(message)
        columns.append(column)
    made: pa.RecordBatch = untyped.RecordBatch.from_arrays(columns, schema=schema)
    return made
