"""When a round begins: records gather for a moment, and an idle worker looks around now and then.

A call to Kafka collects records until that moment is over: mapped in one piece and not in four, a
small round takes two fifths less processor time. A round syncs every shard it touches however
little is in it, so small ones keep a distance; a record that comes alone waits for the moment only.

An idle worker's rounds carry no records. They move shards past offsets that hold none, and they
ask whether the topics are still the ones. Belongs to the worker's thread; times are monotonic.
"""

from dataclasses import dataclass
from typing import Final

from connectors.ingest.pending_batch import PendingBatch

_ADVANCE_EVERY_S: Final = 1.0
_IDENTITY_EVERY_S: Final = 10.0
_BESIDE_ROUNDS_MAX: Final = 2
_BEHIND_LINGERS: Final = 10
_BEHIND_CALLS: Final = 3
_SMALL_RECORDS: Final = 256
_SMALL_EVERY_LINGERS: Final = 3
_WAIT_LEAST_S: Final = 0.005
WAIT_MOST_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class CallSize:
    """How many records a call to Kafka brings at most, and how soon while a backlog waits."""

    records: int
    full_within_s: float

    @classmethod
    def of(cls, *, is_native: bool) -> "CallSize":
        """Return what fits the way records are fetched.

        Fewer cost more a record; more leave the processor's caches before they are mapped, and a
        record that is an object of Python takes more of them.
        """
        return cls(6_000, 0.04) if is_native else cls(3_000, 0.02)


class FetchPolicy:
    """What decides whether a round is due."""

    def __init__(self, linger_s: float, call: CallSize) -> None:
        self._linger_s = linger_s
        self.call = call
        self._begun_s = self._advance_due_s = self._identity_due_s = 0.0
        self._full_calls = 0
        self._was_empty = True

    @property
    def is_behind(self) -> bool:
        """Whether Kafka holds more than calls bring.

        Old records are not made younger by small rounds; large ones cost less.
        """
        return self._full_calls >= _BEHIND_CALLS

    def note_call(self, count: int, took_s: float) -> None:
        """Note what a call brought, and how soon.

        One that comes back full is what a moment's pause leaves, too; a backlog fills several.
        """
        self._was_empty = count == 0
        is_full = count == self.call.records and took_s < self.call.full_within_s
        self._full_calls = self._full_calls + 1 if is_full else 0

    def next_call(
        self, pending: PendingBatch, now_s: float, *, is_round_out: bool
    ) -> tuple[int, float]:
        """Return how many records the next call to Kafka asks for, and for how long.

        An idle worker asks for one: its wait ends with the first that comes.
        """
        if self._was_empty and not pending.count and not is_round_out:
            return 1, WAIT_MOST_S
        most = self.call.records
        if pending.count < _SMALL_RECORDS and not self.is_behind:
            most = _SMALL_RECORDS - pending.count
        left_s = self._due_s(pending, now_s) - now_s
        return most, min(max(left_s, _WAIT_LEAST_S), WAIT_MOST_S)

    def is_due(self, pending: PendingBatch, now_s: float) -> bool:
        """Tell whether records are there and make a round, or have waited for long enough."""
        is_full = pending.rounds >= 1
        return pending.count > 0 and (is_full or now_s >= self._due_s(pending, now_s))

    def is_enough(self, pending: PendingBatch) -> bool:
        """Tell whether so much has gathered beside a round that fetching waits for its end.

        A worker that stops at one round lets librdkafka's queues fill up, and its fetches end.
        """
        return pending.rounds >= _BESIDE_ROUNDS_MAX

    def _due_s(self, pending: PendingBatch, now_s: float) -> float:
        """Return when what was gathered becomes a round; of nothing, what comes from now on."""
        since_s = pending.since_s if pending.count else now_s
        due_s = since_s + self._linger_s * (_BEHIND_LINGERS if self.is_behind else 1)
        if pending.count < _SMALL_RECORDS:
            due_s = max(due_s, self._begun_s + self._linger_s * _SMALL_EVERY_LINGERS)
        return due_s

    def is_look_due(self, pending: PendingBatch, now_s: float) -> bool:
        """Tell whether an idle worker is to look where its partitions stand."""
        return pending.count == 0 and now_s >= self._advance_due_s

    def is_idle_round_due(self, now_s: float, *, has_moved: bool) -> bool:
        """Tell whether what the look has shown makes a round; the next look comes later."""
        self._advance_due_s = now_s + _ADVANCE_EVERY_S
        return has_moved or now_s >= self._identity_due_s

    def begun(self, now_s: float) -> None:
        """Note that a round begins; it asks about the topics."""
        self._begun_s = now_s
        self._identity_due_s = now_s + _IDENTITY_EVERY_S
