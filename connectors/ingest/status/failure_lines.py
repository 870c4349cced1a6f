"""Logs failures of background passes: a new one at once, the same one every ten minutes.

A pass comes every few seconds, and a disk that is full or a directory that may not be written stays
so for hours: a line a shard and pass would bury all others. So a shard's first failure is logged at
once, as is one of another kind, and the same one every ten minutes, with how often it came since.

Belongs to the worker's thread.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connectors.kafka import Partition

LOG_EVERY_S: Final = 600.0
# Numbers of files, addresses and seconds make no other kind, nor do the words of a library.
_DETAIL: Final = re.compile(r"\[.*\]|\d+")


@dataclass(slots=True)
class _Failure:
    logged_s: float
    unlogged: int = 0


class FailureLines:
    """Logs failures, shard by shard."""

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
        """Take note of a failure, and log it unless the same was logged lately.

        Args:
            partition: Whose it is; with a negative number all of its topic's.
            reason: What went wrong.
            now_s: The time.
        """
        key = (partition, _DETAIL.sub("", reason))
        failure = self._failures.get(key)
        if failure is not None and now_s - failure.logged_s < LOG_EVERY_S:
            failure.unlogged += 1
            return
        again = {} if failure is None else {"times": failure.unlogged + 1}
        self._failures = {
            other: recent
            for other, recent in self._failures.items()
            if now_s - recent.logged_s < 2 * LOG_EVERY_S
        }
        self._failures[key] = _Failure(now_s)
        shard = {} if partition.number < 0 else {"shard": partition.number}
        self._tell(self._event, topic=partition.topic, **shard, reason=reason, **again)
