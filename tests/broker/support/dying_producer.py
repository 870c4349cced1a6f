"""A process that is gone in place of one call of Kafka's client library, or behind it."""

import os
from random import Random
from threading import Timer
from typing import Any

import confluent_kafka
from typing_extensions import override

DIED = 9
_SOON_S = 0.05
_COMMITS_MOST = 3


class _DyingProducer(confluent_kafka.Producer):
    when = ""
    commits = 0

    @override
    def commit_transaction(self, *arguments: Any) -> None:
        if self.when == "before":
            os._exit(DIED)
        super().commit_transaction(*arguments)
        _DyingProducer.commits += 1
        if self.when == "behind" or self.commits == _COMMITS_MOST:
            os._exit(DIED)
        # At a random moment behind its first commit, and behind its third at the latest.
        if self.commits == 1:
            Timer(Random(os.getpid()).uniform(0, _SOON_S), os._exit, [DIED]).start()


def die_at_commit(when: str) -> None:
    """Let this process die right before, right behind or soon behind its first commit."""
    _DyingProducer.when = when
    confluent_kafka.Producer = _DyingProducer  # type: ignore[misc]  # all that is to come takes it
