"""The topic is the topic: whether it is still the one a stream was made from.

A topic that is deleted and made again under a running consumer is followed without any error,
so its id is asked for beside every commit and compared before anything is written. Asking
runs in the background; the answer is awaited only when the rows are ready.
"""

from collections.abc import Callable, Mapping
from typing import Final

from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.kafka import Admin
from storage_core import (
    BrokerUnavailableError,
    Clock,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
)

ANSWER_WAIT_S: Final = 5.0
# How long a topic may be missing, as it is for moments while a cluster restarts.
GONE_AFTER_S: Final = 10.0


class TopicIdentities:
    """Compares topics with the ids their streams were made for.

    Any thread asks for an id; whether topics are still the ones, one at a time.
    """

    def __init__(self, admin: Admin, clock: Clock, broker: BrokerWatch) -> None:
        self._admin = admin
        self._clock = clock
        self._broker = broker
        self._missing_since_s: dict[str, float] = {}

    def id_of(self, topic: str) -> str:
        """Return a topic's id.

        Raises:
            BrokerUnavailableError: No answer, or no such topic for the moment.
            InvalidRequestError: We may not ask.
        """
        answer = self._admin.ask_topic_ids([topic])
        with self._broker.asking():
            topic_id = answer(ANSWER_WAIT_S).get(topic)
        if topic_id is None:
            message = f"the cluster has no topic {topic!r}; create it, or mend the setting"
            raise BrokerUnavailableError(message)
        if isinstance(topic_id, InvalidRequestError):
            raise _refused(topic, topic_id)
        return topic_id

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._admin.partitions(ANSWER_WAIT_S).get(topic, 0)

    def ask(self, expected: Mapping[str, str]) -> Callable[[], dict[str, ShardlogError]]:
        """Ask about topics now; calling what is returned waits for the answer and compares.

        The call returns what is wrong, by topic; nothing may be written of those. A
        ForeignDataError says that the topic is another one or is gone for good, an
        InvalidRequestError that we may not ask about it, and a BrokerUnavailableError that it is
        not known in bounded time.
        """
        answer = self._admin.ask_topic_ids(expected) if expected else None

        def compare() -> dict[str, ShardlogError]:
            if answer is None:
                return {}
            try:
                with self._broker.asking():
                    topic_ids = answer(ANSWER_WAIT_S)
            except BrokerUnavailableError as error:
                # What a silent broker does not know is not gone.
                self._missing_since_s.clear()
                return dict.fromkeys(expected, error)
            wrong: dict[str, ShardlogError] = {}
            for topic, topic_id in expected.items():
                try:
                    self._compare(topic, topic_id, topic_ids.get(topic))
                except ShardlogError as error:
                    wrong[topic] = error
            return wrong

        return compare

    def _compare(
        self, topic: str, expected: str, topic_id: str | InvalidRequestError | None
    ) -> None:
        if topic_id is None:
            since = self._missing_since_s.setdefault(topic, self._clock.monotonic_s())
            if self._clock.monotonic_s() - since < GONE_AFTER_S:
                message = f"the cluster does not know topic {topic!r} at the moment"
                raise BrokerUnavailableError(message)
            raise topic_deleted(topic)
        self._missing_since_s.pop(topic, None)
        if isinstance(topic_id, InvalidRequestError):
            raise _refused(topic, topic_id)
        if topic_id != expected:
            raise topic_recreated(topic, expected, topic_id)


def _refused(topic: str, error: InvalidRequestError) -> InvalidRequestError:
    return InvalidRequestError(error.message, stream=topic)


def topic_deleted(topic: str) -> ForeignDataError:
    """Return the error for a topic that is not there any more."""
    message = (
        "the topic was deleted; what was stored of it is safe and can be read: take it out of the "
        "topics, or drop its stream"
    )
    return ForeignDataError(message, stream=topic)


def topic_recreated(topic: str, expected: str, topic_id: str) -> ForeignDataError:
    """Return the error for a topic that is not the one a stream was made from."""
    message = (
        f"the topic was deleted and re-created: the stream holds records of id {expected}, "
        f"the topic has id {topic_id}; drop the stream to take the topic anew, or use another root"
    )
    return ForeignDataError(message, stream=topic)
