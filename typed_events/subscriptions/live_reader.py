"""The live reader of a stream: one thread that reads new rows once, for all who subscribe to them.

It begins with the first subscriber that has caught up, and ends with the last. A subscriber that is
slow is left, and the live reader goes on; so is everybody where it cannot read: they read by
themselves, and are told why that fails.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from storage_core import ShardlogError, SystemClock
from storage_core.sql.pool.stream_ranges import Instance, StreamRanges
from typed_events.errors import CommandError
from typed_events.query.fields import TypeFields
from typed_events.subscriptions.checkpoints import Place
from typed_events.subscriptions.evaluator import Evaluator
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.polling import Polling
from typed_events.subscriptions.proofs import place_at, place_behind, proofs_of, refuse_stale
from typed_events.subscriptions.track import Piece, Track
from typed_events.subscriptions.wanted import Wanted, WantedRows

_LOOK_EVERY_S: Final = 0.25
_log = logging.getLogger(__name__)
TypesNow = Callable[[], Mapping[str, TypeFields]]


class LiveReader:
    """Offers new rows of a stream. Any thread attaches to it."""

    def __init__(
        self,
        ranges: StreamRanges,
        evaluator: Evaluator,
        types: TypesNow,
        options: SubscriptionOptions,
        polling: Polling,
    ) -> None:
        """LiveReader from a stream; its thread begins with the first subscriber."""
        self._ranges = ranges
        self._evaluator = evaluator
        self._types = types
        self._options = options
        self._polling = polling
        self._clock = SystemClock()
        self._lock = threading.Lock()
        # Where it stands in each shard, and of which instance it has read that.
        self._places: dict[int, Place] = {}
        self._instances: dict[int, Instance] = {}
        self._tracks: dict[Track, Wanted] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._woken = threading.Event()
        self._looked_s = -_LOOK_EVERY_S
        self._asking: Mapping[Track, Wanted] = {}
        self._wanted: Mapping[str, Wanted] = {}
        self.rows_read = 0

    def attach(self, track: Track, wanted: Wanted) -> None:
        """Offer new rows to a subscriber from here on; what is before it reads by itself."""
        with self._lock:
            if self._is_closed:
                return
            if not self._tracks:
                # Also behind a failure: what it could not read may have gone for good.
                self._instances.clear()
                self._places = {
                    shard: place_at(self._ranges, shard, end)
                    for shard, end in self._ranges.ends().items()
                }
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"subscriptions-{self._ranges.name}", daemon=True
                )
                self._polling.begin()
                self._thread.start()
            track.begin({shard: place.address for shard, place in self._places.items()})
            self._tracks[track] = wanted

    @property
    def followers(self) -> int:
        """How many subscribers are offered new rows."""
        return len(self._tracks)

    def wake(self) -> None:
        """Have it look for rows now; any thread."""
        self._woken.set()

    def close(self) -> None:
        """End the thread, once it has come to it."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        self._evaluator.open()
        while True:
            try:
                self._read_on()
            except ShardlogError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - the outermost loop; subscribers go on alone
                _log.exception("reading for subscribers of %s has failed", self._ranges.name)
                self._fail(error)
            if self._is_closed:
                self._leave_all()
            with self._lock:
                self._tracks = {one: of for one, of in self._tracks.items() if one.is_live}
                if not self._tracks:
                    self._asking = {}
                    self._thread = None
                    self._polling.end()
                    return

    def _fail(self, error: Exception) -> None:
        _log.warning("subscribers of %s read by themselves: %s", self._ranges.name, error)
        self._leave_all()
        self._clock.sleep(_LOOK_EVERY_S)

    def _leave_all(self) -> None:
        with self._lock:
            for track in self._tracks:
                track.leave()
            self._tracks.clear()

    def _read_on(self) -> None:
        """Offer what is new; wait for it a moment where nothing is."""
        # IMPORTANT: first, so that whoever wakes it behind this is not missed.
        self._woken.clear()
        ends = self._ends()
        is_new = False
        for shard, end in ends.items():
            if shard not in self._places:
                self._places[shard] = place_at(self._ranges, shard, self._ranges.start(shard))
            self._refuse_other(shard, self._ranges.instance(shard))
            if self._places[shard].address < end:
                is_new = True
                self._offer(shard, end)
        if not is_new:
            self._await_rows(ends)

    def _ends(self) -> Mapping[int, int]:
        """Return where shards end; shards that were added are looked for now and then."""
        now_s = self._clock.monotonic_s()
        if now_s < self._looked_s + _LOOK_EVERY_S:
            return self._ranges.committed()
        self._looked_s = now_s
        return self._ranges.ends()

    def _refuse_other(self, shard: int, instance: Instance) -> None:
        """Refuse a shard whose files were replaced, and have other rows."""
        if instance != self._instances.get(shard):
            refuse_stale(self._ranges, shard, self._places[shard])
            self._instances[shard] = instance

    def _await_rows(self, ends: Mapping[int, int]) -> None:
        """Wait until it is woken, or some shard ends elsewhere, or for a while."""
        until_s = self._clock.monotonic_s() + _LOOK_EVERY_S
        while not self._woken.wait(self._polling.pause_s):
            is_new = any(self._ranges.wait(shard, end, 0) for shard, end in ends.items())
            if is_new or self._clock.monotonic_s() >= until_s:
                return

    def _offer(self, shard: int, end: int) -> None:
        place = self._places[shard]
        end = min(end, place.address + self._options.rows_at_once)
        read = self._ranges.between(shard, place.address, end, self._options.bytes_at_once)
        self._refuse_other(shard, read.instance)
        behind = place_behind(self._ranges, read)
        with self._lock:
            tracks = dict(self._tracks)
        if tracks != self._asking:
            self._asking = tracks
            # The same again as long as the same follow, by which it is told.
            self._wanted = {one.mark: one for one in tracks.values()}
        wanted = self._wanted
        self.rows_read += behind.address - place.address
        # IMPORTANT: the types are looked up behind the rows, whose types are among them then.
        proofs = proofs_of(self._ranges, read)
        results = self._evaluator.wanted_rows(read, proofs, self._types(), wanted)
        # Who wants the same rows has the same piece.
        pieces = {
            id(rows): Piece(shard, place.address, behind, rows, place.proof)
            for rows in results.values()
            if isinstance(rows, WantedRows)
        }
        left = []
        with self._lock:
            self._places[shard] = behind
            for track, of_track in self._tracks.items():
                if track not in tracks:
                    # It came meanwhile.
                    track.read_to(shard, behind.address)
                elif isinstance(result := results[of_track.mark], CommandError):
                    track.leave()
                    left.append(track)
                elif not track.offer(pieces[id(result)]):
                    left.append(track)
            for track in left:
                del self._tracks[track]
