"""Whether topics are still the ones: each is judged by itself; no broker answers here."""

from typing import Any

import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.assignment.topic_identity import GONE_AFTER_S, TopicIdentities
from connectors.ingest.status.broker_watch import BrokerWatch
from storage_core import BrokerUnavailableError, ForeignDataError, InvalidRequestError
from storage_core.testing import ManualClock

IDS = {"orders": "o", "clicks": "c"}


class ScriptedAdmin:
    """Answers with these ids, or does not answer."""

    def __init__(self):
        self.topic_ids: Any = dict(IDS)

    def ask_topic_ids(self, _topics):
        def answer(_timeout_s):
            if isinstance(self.topic_ids, Exception):
                raise self.topic_ids
            return self.topic_ids

        return answer


@pytest.fixture
def admin():
    return ScriptedAdmin()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def broker(clock):
    return BrokerWatch(clock, CapturingLogger())


@pytest.fixture
def wrong(admin, clock, broker):
    """Ask about the topics; return the kinds of what is wrong, by topic."""
    identities = TopicIdentities(admin, clock, broker)
    return lambda: {topic: type(error) for topic, error in identities.ask(IDS)().items()}


def test_topics_that_are_the_ones_have_nothing_wrong(wrong):
    assert wrong() == {}


def test_topic_made_anew_is_wrong_alone(admin, wrong):
    admin.topic_ids["clicks"] = "another"
    assert wrong() == {"clicks": ForeignDataError}


def test_topic_that_may_not_be_described_is_wrong_alone(admin, wrong):
    admin.topic_ids["clicks"] = InvalidRequestError("denied")
    assert wrong() == {"clicks": InvalidRequestError}


def test_topic_that_is_missing_is_gone_only_after_a_while(admin, clock, wrong):
    del admin.topic_ids["clicks"]
    assert wrong() == {"clicks": BrokerUnavailableError}
    clock.elapsed_s += GONE_AFTER_S
    assert wrong() == {"clicks": ForeignDataError}


def test_silence_of_the_broker_is_no_topics_absence(admin, clock, wrong):
    del admin.topic_ids["clicks"]
    wrong()
    admin.topic_ids = BrokerUnavailableError("no answer")
    clock.elapsed_s += GONE_AFTER_S
    assert wrong() == dict.fromkeys(IDS, BrokerUnavailableError)
    admin.topic_ids = {"orders": "o"}
    assert wrong() == {"clicks": BrokerUnavailableError}


def test_question_without_an_answer_tells_that_the_broker_is_away_and_the_next_that_it_is_back(
    admin, broker, wrong
):
    admin.topic_ids = BrokerUnavailableError("no answer in 5 s")
    assert set(wrong().values()) == {BrokerUnavailableError}
    assert broker.is_away
    admin.topic_ids = dict(IDS)
    wrong()
    assert not broker.is_away
