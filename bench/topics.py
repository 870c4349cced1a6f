"""The topics of the benchmarks' brokers."""

from collections.abc import Mapping
from typing import Final

from bench.records import PARTITIONS
from connectors.kafka import Admin

# For records that are as old as a log's.
FOR_EVER: Final[Mapping[str, str]] = {"retention.ms": "-1"}


def make_topic(
    bootstrap: str,
    topic: str,
    partitions: int = PARTITIONS,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Make a topic.

    Args:
        bootstrap: The broker's address.
        topic: Its name.
        partitions: How many partitions it has.
        settings: What is set of it, as the broker names that.
    """
    Admin({"bootstrap.servers": bootstrap}).create_topic(topic, partitions, settings or {})
