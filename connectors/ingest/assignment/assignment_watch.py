"""Whether a worker has anything to do: one that holds no partition logs so, again and again.

The group may have given all partitions to others, the topics may not be there yet, or the broker
may be gone; librdkafka waits without a word in each case. None of it is an error: it may end.

Belongs to the worker's thread.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from storage_core import UnavailableError

LOG_EVERY_S: Final = 30.0
_ANSWER_WAIT_S: Final = 2.0


class AssignmentWatch:
    """Logs, at a bounded pace, that nothing is assigned."""

    def __init__(
        self,
        topics: Collection[str],
        existing_topics: Callable[[float], Collection[str]],
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Watch from the first tick on; `existing_topics` asks, waiting at most so many seconds."""
        self._topics = topics
        self._existing_topics = existing_topics
        self._log = log
        self._since_s: float | None = None
        self._logged_s = 0.0

    def tick(self, now_s: float, *, is_assigned: bool) -> None:
        """Take note of whether any partition is held; log it when none was for long."""
        if is_assigned:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = self._logged_s = now_s
        elif now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            waited_s = round(now_s - self._since_s)
            self._log.warning("no partition is assigned", waited_s=waited_s, **self._reason())

    def _reason(self) -> dict[str, object]:
        # Asked of a pattern too: while no partition is held, nothing else asks the broker anything.
        try:
            topics = self._existing_topics(_ANSWER_WAIT_S)
        except UnavailableError as error:
            return {"reason": str(error)}
        missing = sorted(set(self._topics) - set(topics))
        return {"no_such_topics": missing} if missing else {}
