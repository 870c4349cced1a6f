"""Topics that are filled evenly, with a bad value now and then."""

from collections.abc import Sequence
from typing import Final

from bench.records import PARTITIONS
from connectors.kafka import Producer

_SETTINGS: Final = {"linger.ms": "20", "batch.size": "500000", "compression.type": "none"}
_RUN: Final = 500


def first_ms(now_ms: int, records: int) -> int:
    """Return the time of the first of so many records, a hundred a millisecond."""
    return now_ms - records // 100


def fill_topic(  # noqa: PLR0913 - what a topic is filled with
    bootstrap: str,
    topic: str,
    records: int,
    begin_ms: int,
    values: Sequence[bytes],
    bad: Sequence[bytes],
    bad_one_in: int | None,
) -> None:
    """Produce records in runs of one partition, as batches of producers are.

    Args:
        bootstrap: Where the broker is.
        topic: The topic.
        records: How many.
        begin_ms: The time of the first.
        values: What they have in turn.
        bad: What those that are bad have in turn.
        bad_one_in: Of so many one is bad; None for none.
    """
    keys = [(number * 617 % 1000).to_bytes(4, "big") for number in range(len(values))]
    with Producer(bootstrap, _SETTINGS) as producer:
        for number in range(records):
            partition = number // _RUN % PARTITIONS
            place = number % len(values)
            value = values[place]
            if bad_one_in and number % bad_one_in == 0:
                value = bad[number // bad_one_in % len(bad)]
            producer.send(topic, keys[place], value, begin_ms + number // 100, None, partition)
            if number % 1000 == 0:
                producer.poll()
    assert producer.acknowledged == records, producer.first_failure
