"""One stream of a subscription: where the subscriber stands in it, and what waits for it.

A track reads the log by itself until it is where the stream's live reader is; from then on that
offers new rows. Whose queue is full is left by it, and reads by itself again. All is by address:
what was told is skipped, and what is missing is read, so that no row comes twice or never.
"""

from collections import deque
from dataclasses import dataclass, replace
from threading import Condition

from storage_core.sql.pool.stream_ranges import Instance
from typed_events.subscriptions.checkpoints import Place
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.wanted import WantedRows


@dataclass(slots=True)
class Piece:
    """What a subscriber wants of a range of a shard.

    Attributes:
        shard: The shard.
        start: The range's first address.
        behind: The place behind it.
        wanted_rows: The rows of it that are wanted.
        proof: What proves the place at its start; None where nobody knows.
    """

    shard: int
    start: int
    behind: Place
    wanted_rows: WantedRows
    proof: str | None

    @property
    def end(self) -> int:
        """The range's exclusive end."""
        return self.behind.address

    @property
    def rows(self) -> int:
        """How many are wanted."""
        return len(self.wanted_rows.addresses)


class Track:
    """One stream of a subscription.

    Attributes:
        name: The stream.
        places: Where it stands in each shard; only the subscriber changes them.
        instances: Of which instance of each shard it was told last.
        horizons: Of each shard a generation: what had expired by then is not to be told.
        opened_anew_at: Where it stood when the stream was opened anew last.
        is_live: Whether the live reader offers new rows.
        is_missing: Whether its stream was not there when it was looked for.
        targets: How far the subscriber has still to read by itself, by shard, though the live
            reader offers.
    """

    def __init__(
        self,
        name: str,
        places: dict[int, Place],
        changed: Condition,
        options: SubscriptionOptions,
    ) -> None:
        """Stand at places; `changed` guards what waits, and is notified of it."""
        self.name = name
        self.places = places
        self.instances: dict[int, Instance] = {}
        self.horizons: dict[int, int] = {}
        self.opened_anew_at: dict[int, Place] | None = None
        self.is_live = False
        self.is_missing = False
        self.targets: dict[int, int] = {}
        self._changed = changed
        self._options = options
        self._waiting: deque[Piece] = deque()
        self._rows = 0
        self._bytes = 0

    def address(self, shard: int) -> int:
        """Return the next address of a shard."""
        return self.places.setdefault(shard, Place(0)).address

    def begin(self, nexts: dict[int, int]) -> None:
        """Take what a live reader offers from these addresses on."""
        with self._changed:
            self.is_live = True
            self.targets = dict(nexts)

    def read_to(self, shard: int, target: int) -> None:
        """Have the subscriber read a shard up to an address by itself, whatever is offered."""
        with self._changed:
            self.targets[shard] = max(target, self.targets.get(shard, 0))
            self._changed.notify_all()

    def offer(self, piece: Piece) -> bool:
        """Queue a piece, unless too much waits; then, and where it is left, return False."""
        wanted = piece.wanted_rows
        size, rows = wanted.size, len(wanted.addresses)
        with self._changed:
            if not self.is_live:
                return False
            if self._waiting:
                last = self._waiting[-1]
                if last.rows == 0 and (last.shard, last.end) == (piece.shard, piece.start):
                    # Ranges without a row take no room.
                    self._waiting.pop()
                    piece = replace(piece, start=last.start, proof=last.proof)
                if self._waiting and self._is_full(rows, size):
                    self._leave()
                    return False
            self._waiting.append(piece)
            self._rows += rows
            self._bytes += size
            if rows:
                self._changed.notify_all()
            return True

    def _is_full(self, rows: int, size: int) -> bool:
        options = self._options
        return (
            self._rows + rows > options.queue_rows_max
            or self._bytes + size > options.queue_bytes_max
            or len(self._waiting) >= options.queue_rows_max
        )

    def leave(self) -> None:
        """Take no more of the live reader; what waited is read again."""
        with self._changed:
            self._leave()

    def drop(self) -> None:
        """Take no more, as nobody is left to be told.

        It waits for no lock: garbage is collected wherever a thread stands.
        """
        self.is_live = False

    def _leave(self) -> None:
        self.is_live = False
        self._waiting.clear()
        self._rows = self._bytes = 0
        self._changed.notify_all()

    @property
    def has_rows(self) -> bool:
        """Whether rows wait; call it under the lock."""
        return self._rows > 0

    def next_gap(self) -> tuple[int, int] | None:
        """Return a shard that the subscriber reads by itself, and how far; None for none."""
        if not self.targets:
            return None
        with self._changed:
            for shard, target in [*self.targets.items()]:
                if self.address(shard) < target:
                    return shard, target
                del self.targets[shard]
            return None

    def take_following(self, bytes_max: int) -> list[Piece] | None:
        """Return the next pieces, of about so many bytes, each of which goes on where it stands.

        None where something is to be read or proved before: nothing is taken then.
        """
        with self._changed:
            if not self.is_live or self.targets:
                return None
            waiting = self._waiting
            places = self.places if len(waiting) == 1 else {**self.places}
            taken, size, rows = [], 0, 0
            for piece in waiting:
                if (piece.start, piece.proof) != places.get(piece.shard):
                    return None
                taken.append(piece)
                size += piece.wanted_rows.size
                rows += piece.rows
                if size >= bytes_max or len(taken) == len(waiting):
                    break
                places[piece.shard] = piece.behind
            for _ in taken:
                waiting.popleft()
            self._rows -= rows
            self._bytes -= size
            return taken

    def take(self) -> Piece | None:
        """Return the next piece that has something new, cut to that; None where nothing waits.

        One that was cut has no proof.

        Where rows before it are missing, it waits on, and they are to be read.
        """
        with self._changed:
            while self._waiting:
                piece = self._waiting[0]
                position = self.address(piece.shard)
                if piece.start > position:
                    self.targets[piece.shard] = piece.start
                    return None
                self._waiting.popleft()
                self._rows -= piece.rows
                self._bytes -= piece.wanted_rows.size
                if piece.start == position:
                    return piece
                if piece.end > position:
                    rows = piece.wanted_rows.behind(position)
                    return replace(piece, start=position, wanted_rows=rows, proof=None)
            return None
