"""Which of librdkafka's settings belong to one kind of client only.

All others concern every client: how a broker is reached and trusted, which sockets and addresses
are used, how metadata is kept. So the rule is written from the short side: what a consumer and
what a producer have to themselves. Everything else goes to all of them, settings of releases to
come included. A test holds both lists against the library itself, which prints its table of
settings with the column C/P.
"""

from collections.abc import Mapping
from typing import Final

CONSUMER_OWN: Final = frozenset(
    (
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.protocol.type",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "session.timeout.ms",
        "share.acknowledgement.mode",
    )
)
PRODUCER_OWN: Final = frozenset(
    (
        "acks",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.report.only.error",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "linger.ms",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queuing.strategy",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
        "transactional.id",
    )
)


def for_every_client(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what of a client's settings concerns every client."""
    return _without(settings, CONSUMER_OWN | PRODUCER_OWN)


def for_producers(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what of a client's settings concerns a producer."""
    return _without(settings, CONSUMER_OWN)


def _without(settings: Mapping[str, object], names: frozenset[str]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if name not in names}
