"""How long Kafka keeps the records of topics: what is not published by then is on one disk alone.

The cluster is asked every ten minutes while there are topics to ask for, and nobody waits for an
answer: it is taken once it has come. A topic that keeps its records for good, or by key, or that
may not be described, has no retention here. Belongs to the worker's thread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from storage_core import ShardlogError

ASK_EVERY_S: Final = 600.0

_Answer = Callable[[float], Mapping[str, float | None]]


class TopicSettings(Protocol):
    """Says how long topics keep records, as `Admin` does."""

    def ask_retentions(self, topics: Iterable[str]) -> _Answer:
        """Ask; calling what is returned waits so long for the answer."""


class TopicRetentions:
    """The retention of topics, as the cluster said it last."""

    def __init__(self, cluster: TopicSettings) -> None:
        self._cluster = cluster
        self._retention_s: dict[str, float | None] = {}
        self._topics: frozenset[str] = frozenset()
        self._answer: _Answer | None = None
        self._asked_s = float("-inf")

    def of(self, topics: Collection[str]) -> dict[str, float]:
        """Return the retention of those topics of which it is known."""
        spans_s = {topic: self._retention_s.get(topic) for topic in topics}
        return {topic: span_s for topic, span_s in spans_s.items() if span_s is not None}

    def tick(self, now_s: float, topics: Collection[str]) -> None:
        """Ask, or take what was answered."""
        if self._answer is not None:
            with suppress(ShardlogError):
                self._retention_s.update(self._answer(0.0))
                self._answer = None
        is_due = now_s - self._asked_s >= ASK_EVERY_S or not self._topics.issuperset(topics)
        if topics and is_due:
            self._topics, self._asked_s = frozenset(topics), now_s
            with suppress(ShardlogError):
                self._answer = self._cluster.ask_retentions(sorted(topics))
