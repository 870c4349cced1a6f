"""Topics that are deleted under a worker: each is a fault, also once none of it is held.

The group takes the partitions of a topic that is gone away, and with them goes whatever could be
wrong with them. So the cluster is asked every ten seconds whether the topics are there that the
worker names or has held. One that is missing for as long as a restart of a cluster may take, and
whose rows lie in the root, is quarantined as a whole, as foreign data is, until it exists again or
its stream is dropped. While partitions of it are held their rounds say so (topic_identity.py).

Nobody waits for an answer: it is taken once it has come. Belongs to the worker's thread.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol

from connectors.group.quarantine_notes import WHOLE_TOPIC
from connectors.ingest.assignment.quarantine import Quarantine
from connectors.ingest.assignment.topic_identity import ANSWER_WAIT_S, GONE_AFTER_S, topic_deleted
from connectors.kafka import Partition
from storage_core import UnavailableError

ASK_EVERY_S: Final = 10.0
# While one is missing.
ASK_AGAIN_S: Final = 2.0

_Answer = Callable[[float], Collection[str]]


class TopicIds(Protocol):
    """Says which topics are there, by their ids, as `Admin` does."""

    def ask_topic_ids(self, topics: Iterable[str]) -> Callable[[float], Any]:
        """Ask; calling what is returned waits so long for the answer."""


class DeletedTopics:
    """Which topics are gone, and which of them are quarantined for it."""

    def __init__(
        self,
        named: Collection[str],
        cluster: TopicIds,
        quarantine: Quarantine,
        stream_of: Callable[[str], object | None],
    ) -> None:
        """Know of none that is gone.

        Args:
            named: The topics that the worker consumes by name.
            cluster: Who is asked.
            quarantine: Where a topic that is gone is quarantined.
            stream_of: Returns None where the root has no stream of a topic.
        """
        self._topics = set(named)
        self._cluster = cluster
        self._quarantine = quarantine
        self._stream_of = stream_of
        self._missing_since_s: dict[str, float] = {}
        self._faulty: set[str] = set()
        self._answer: _Answer | None = None
        self._requested_s = float("-inf")

    @property
    def are_all_gone(self) -> bool:
        """Whether there is none of the topics that the worker names or has held."""
        return bool(self._topics) and self._topics == self._missing_since_s.keys()

    def held(self, partitions: Collection[Partition]) -> None:
        """Take note of partitions that were given out."""
        self._topics.update(at.topic for at in partitions)

    def tick(self, now_s: float, held: Collection[str]) -> None:
        """Ask, or take what was answered.

        Args:
            now_s: The time.
            held: The topics of which partitions are held.

        Raises:
            ShardlogError: A topic is gone, and that is to stop the worker.
        """
        if not self._topics:
            return
        is_due = now_s - self._requested_s >= (
            ASK_AGAIN_S if self._missing_since_s else ASK_EVERY_S
        )
        try:
            if self._answer is not None:
                topics = self._answer(0.0)
                self._answer = None
                self._judge(now_s, topics, held)
            elif is_due:
                self._requested_s = now_s
                self._answer = self._cluster.ask_topic_ids(self._topics)
        except UnavailableError:
            if now_s - self._requested_s >= ANSWER_WAIT_S:
                # What a silent broker does not know is not gone.
                self._answer = None
                self._missing_since_s.clear()

    def _judge(self, now_s: float, existing: Collection[str], held: Collection[str]) -> None:
        missing = self._topics - set(existing)
        self._missing_since_s = {at: self._missing_since_s.get(at, now_s) for at in missing}
        gone = {
            topic
            for topic, since_s in self._missing_since_s.items()
            if now_s - since_s >= GONE_AFTER_S
            and topic not in held
            and self._stream_of(topic) is not None
        }
        for topic in self._faulty - gone:
            self._quarantine.healed(Partition(topic, WHOLE_TOPIC))
        for topic in self._faulty & gone:
            self._quarantine.note_again(Partition(topic, WHOLE_TOPIC))
        fresh, self._faulty = gone - self._faulty, gone
        for topic in sorted(fresh):
            self._quarantine.add([Partition(topic, WHOLE_TOPIC)], topic_deleted(topic))
