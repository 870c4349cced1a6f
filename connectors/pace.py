"""When a round begins: records gather for a moment, and an idle worker looks around now and then.

A call to Kafka collects records until that moment is over: what is mapped in one piece costs a
quarter of the same in five.

An idle worker's rounds carry no records. They move shards past offsets that hold none, and they
ask whether the topics are still the ones. Belongs to the worker's thread; times are monotonic.
"""

from typing import Final

from connectors.gathering import Gathering

_ADVANCE_EVERY_S: Final = 1.0
_IDENTITY_EVERY_S: Final = 10.0
_BEHIND_LINGERS: Final = 10
_WAIT_LEAST_S: Final = 0.005
_WAIT_MOST_S: Final = 0.1


class Pace:
    """What decides whether a round is due.

    Attributes:
        is_behind: Whether Kafka holds more than a call brings. Old records are not made younger
            by small rounds; large ones cost less.
    """

    def __init__(self, linger_s: float) -> None:
        """Let records gather for so long."""
        self._linger_s = linger_s
        self._advance_due_s = self._identity_due_s = 0.0
        self.is_behind = False

    def wait_s(self, gathered: Gathering, now_s: float) -> float:
        """Return how long a call may collect records; what else is to be done waits for it."""
        left_s = self._linger_s
        if gathered.count > 0:
            left_s += gathered.since_s - now_s
        return min(max(left_s, _WAIT_LEAST_S), _WAIT_MOST_S)

    def is_due(self, gathered: Gathering, now_s: float) -> bool:
        """Tell whether records are there and make a round, or have waited for long enough."""
        linger_s = self._linger_s * (_BEHIND_LINGERS if self.is_behind else 1)
        is_full = gathered.rounds >= 1
        return gathered.count > 0 and (is_full or now_s - gathered.since_s >= linger_s)

    def is_look_due(self, gathered: Gathering, now_s: float) -> bool:
        """Tell whether an idle worker is to look where its partitions stand."""
        return gathered.count == 0 and now_s >= self._advance_due_s

    def is_idle_round_due(self, now_s: float, *, has_moved: bool) -> bool:
        """Tell whether what the look has shown makes a round; the next look comes later."""
        self._advance_due_s = now_s + _ADVANCE_EVERY_S
        return has_moved or now_s >= self._identity_due_s

    def begun(self, now_s: float) -> None:
        """Note that a round begins; it asks about the topics."""
        self._identity_due_s = now_s + _IDENTITY_EVERY_S
