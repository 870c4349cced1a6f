"""A subscription: the frames that one subscriber is told, history first, then live.

The subscriber's thread takes the frames, and reads by itself what lies before its live readers
(track.py). Closing it from another thread ends the wait for the next frame.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

import pyarrow as pa

from storage_core import (
    ClosedError,
    CorruptionError,
    ForeignDataError,
    LostRangeError,
    ShardlogError,
    SystemClock,
)
from storage_core.platform.closing import Closing
from storage_core.platform.overriding import override
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.pool.stream_ranges import StreamRanges
from typed_events.errors import CommandError
from typed_events.query.fields import TypeFields
from typed_events.subscriptions.begins import INT64_MAX, Begin, behind_end, expired_events
from typed_events.subscriptions.changes import Changes
from typed_events.subscriptions.checkpoints import Place, around, checkpoint_of
from typed_events.subscriptions.evaluator import Evaluator
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Frame, Heartbeat, Rows
from typed_events.subscriptions.live_reader import LiveReader
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.proofs import place_at, place_behind, proofs_of, refuse_stale
from typed_events.subscriptions.track import Piece, Track
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
        return self.ranges.between(0, 0, 0, options.bytes_at_once).snapshot


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

    def refuse_stale(self, name: str, places: Mapping[int, Place]) -> None:
        """Refuse places that a stream does not have, by what is there now; it is opened anew."""
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
        self._changed = Changes()
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

    def add(self, name: str, begin: Begin) -> None:
        """Subscribe to a stream, too."""
        track = Track(name, begin.places, self._changed, self._options)
        track.horizons |= begin.horizons
        track.instances |= begin.instances
        self._tracks[name] = track
        self._turns.append(track)

    @property
    def names(self) -> list[str]:
        """The streams that are followed; any thread."""
        return [*self._tracks]

    @property
    def checkpoint(self) -> str:
        """Where the subscriber stands, behind all that it was told."""
        return checkpoint_of(self._places())

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

    def take_following(self, bytes_max: int) -> Sequence[Frame] | None:
        """Return what live readers have offered, all at once: what `poll(0)` tells one by one.

        None where `poll` is to say what comes: something is to be read, or there is none to follow.
        Of the thread that takes frames.

        Args:
            bytes_max: After about so many bytes of rows it is enough.
        """
        if self._frames or self._is_closed or self._is_ended or self._is_to_look:
            return None
        if not self._is_caught_up:
            return None
        goes_on = True
        for track in self._turns:
            pieces = track.take_following(bytes_max)
            if pieces is None and not track.is_missing:
                goes_on = False
            elif pieces and len(pieces) == len(self._turns) == 1:
                self._told_s = self._clock.monotonic_s()
                return self._told_alone(track, pieces[0])
            for piece in pieces or ():
                self._tell(track, piece.shard, piece.behind, piece.wanted_rows)
                bytes_max -= piece.wanted_rows.size
            if not goes_on or bytes_max <= 0:
                break
        frames = self._taken()
        return frames if frames or goes_on else None

    def _told_alone(self, track: Track, piece: Piece) -> Sequence[Frame]:
        """Return what one piece has to tell: the same to all who follow one shard alone."""
        if len(track.places) > 1 or self._rows_since:
            self._tell(track, piece.shard, piece.behind, piece.wanted_rows)
            return self._taken()
        track.places[piece.shard] = piece.behind
        frames = piece.wanted_rows.frames
        if not frames:
            self._tell(track, piece.shard, piece.behind, piece.wanted_rows)
            frames.append(self._taken())
        return frames[0]

    def _taken(self) -> Sequence[Frame]:
        """Return all that is to be told now, with a checkpoint behind it."""
        if self._rows_since:
            self._frames.append(self._checkpoint_now())
        frames = tuple(self._frames)
        self._frames.clear()
        if frames:
            self._told_s = self._clock.monotonic_s()
        return frames

    @property
    def is_following(self) -> bool:
        """Whether `poll(0)` tells what live readers have offered, and reads nothing by itself.

        Of the thread that takes frames.
        """
        with self._changed:
            if self._is_closed or self._is_ended or self._is_to_look or not self._is_caught_up:
                return False
            return all(
                track.next_gap() is None if track.is_live else track.is_missing
                for track in self._turns
            )

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Have a call told of whatever may be a frame; any thread calls it, and it must not wait.

        Args:
            listener: The call; None for nobody.
        """
        with self._changed:
            self._changed.listener = listener

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
                self.add(name, Begin({}))

    def _advance(self, track: Track) -> None:
        """Read on in a stream by itself, or take what its live reader has offered."""
        source = self._sources.source(track.name)
        if source is None:
            track.leave()
            track.is_missing = True
            track.opened_anew_at = None
            return
        try:
            if not track.is_live:
                self._catch_up(source, track)
            elif (gap := track.next_gap()) is not None:
                self._read(source, track, *gap)
            elif (piece := track.take()) is not None:
                place = track.places[piece.shard]
                if piece.proof != place.proof:
                    refuse_stale(source.ranges, piece.shard, place)
                self._tell(track, piece.shard, piece.behind, piece.wanted_rows)
        except ClosedError:
            # Another subscriber had it opened anew, or the store is closed.
            if self._sources.source(track.name) is source:
                raise
            track.leave()
        except (CorruptionError, ForeignDataError) as error:
            if isinstance(error, LostRangeError) or track.opened_anew_at == track.places:
                raise
            self._sources.refuse_stale(track.name, track.places)
            # All that was told is still there: it goes on, by what was opened anew.
            track.opened_anew_at = {**track.places}
            track.leave()

    def _catch_up(self, source: Source, track: Track) -> None:
        for shard, end in source.ranges.ends().items():
            if shard not in track.places:
                start, track.horizons[shard] = source.ranges.horizon(shard)
                track.places[shard] = place_at(source.ranges, shard, start)
            place = track.places[shard]
            if place.address > end:
                raise behind_end(track.name, shard, place, end)
            if source.ranges.instance(shard) != track.instances.get(shard):
                track.instances[shard] = refuse_stale(source.ranges, shard, place)
            if place.address < end:
                self._is_caught_up = False
                self._read(source, track, shard, end)
                return
        source.live_reader.attach(track, self._wanted)

    def _read(self, source: Source, track: Track, shard: int, end: int) -> None:
        end = min(end, track.address(shard) + self._options.rows_at_once)
        try:
            read = source.ranges.between(
                *(shard, track.address(shard), end),
                *(self._options.bytes_at_once, track.horizons.get(shard, 0)),
            )
        except LostRangeError:
            if not self._passes_expired(source, track, shard, end):
                raise
            return
        if read.instance != track.instances.get(shard):
            refuse_stale(source.ranges, shard, track.places[shard])
            track.instances[shard] = read.instance
        behind, mark = place_behind(source.ranges, read), self._wanted.mark
        # IMPORTANT: the types are looked up behind the rows, whose types are among them then.
        types, proofs = self._sources.types(), proofs_of(source.ranges, read)
        result = source.evaluator.wanted_rows(read, proofs, types, {mark: self._wanted})[mark]
        if isinstance(result, CommandError):
            if not self._wanted.is_of_all:
                raise result
            track.places[shard] = behind
            return
        self._tell(track, shard, behind, result)

    def _passes_expired(self, source: Source, track: Track, shard: int, end: int) -> bool:
        """Go on behind rows of state that have gone; tell whether they have expired.

        Raises:
            ExpiredEventsError: Events have expired that were to be told.
            StaleCheckpointError: The rows were others.
        """
        ranges, place = source.ranges, track.places[shard]
        gone = ranges.expired(shard, place.address, end, track.horizons.get(shard, 0))
        if gone is None:
            return False
        refuse_stale(ranges, shard, place)
        fields = self._sources.types().get(track.name)
        if fields is None or fields.ttl_s is None:
            raise expired_events(track.name, shard, *gone)
        track.horizons[shard] = INT64_MAX
        track.places[shard] = place_at(ranges, shard, max(place.address, ranges.start(shard)))
        return True

    def _tell(self, track: Track, shard: int, behind: Place, rows: WantedRows) -> None:
        """Note that a range was told, with its rows."""
        track.places[shard] = behind
        if not rows.addresses:
            return
        left, right = around(self._places(), track.name, shard)
        beside = rows.proofs, rows.made
        frame = Rows(track.name, rows.batch, rows.addresses, (left, right), *beside)
        self._frames.append(frame)
        self._rows_since += len(rows.addresses)
        if self._rows_since >= _ROWS_BETWEEN_CHECKPOINTS:
            self._frames.append(self._checkpoint_now())

    def _places(self) -> dict[str, dict[int, Place]]:
        return {name: track.places for name, track in self._tracks.items() if track.places}

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
