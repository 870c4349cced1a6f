"""What goes wrong in a worker's upkeep turn after turn is told again and again, but seldom.

A turn comes every few seconds, and a disk that is full or a directory that may not be written stays
so for hours: a line a shard and turn would bury all others. So a shard's first failure is told at
once, as is one of another kind, and the same one every ten minutes, with how often it came since.

Belongs to the worker's thread.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connectors.kafka import Partition

TELL_EVERY_S: Final = 600.0
# Numbers of files, addresses and seconds make no other kind.
_NUMBER: Final = re.compile(r"\d+")


@dataclass(slots=True)
class _Failure:
    told_s: float
    untold: int = 0


class FailureLines:
    """Tells of failures, shard by shard."""

    def __init__(self, event: str, tell: Callable[..., object]) -> None:
        """Know of none.

        Args:
            event: What the lines say.
            tell: Tells a line, as a logger's `warning`.
        """
        self._event = event
        self._tell = tell
        self._failures: dict[tuple[Partition, str], _Failure] = {}

    def note(self, partition: Partition, reason: str, now_s: float) -> None:
        """Take note of a failure, and tell it unless the same was told lately."""
        key = (partition, _NUMBER.sub("", reason))
        failure = self._failures.get(key)
        if failure is not None and now_s - failure.told_s < TELL_EVERY_S:
            failure.untold += 1
            return
        again = {} if failure is None else {"times": failure.untold + 1}
        self._failures = {
            other: recent
            for other, recent in self._failures.items()
            if now_s - recent.told_s < 2 * TELL_EVERY_S
        }
        self._failures[key] = _Failure(now_s)
        self._tell(
            self._event, topic=partition.topic, shard=partition.number, reason=reason, **again
        )
