"""Settings of librdkafka: our defaults, what is fixed, whose each is, where its own lines go.

Most settings concern every client: how a broker is reached and trusted, which sockets and
addresses are used, how metadata is kept. So whose each is is written from the short side: what a
consumer and what a producer have to themselves. Everything else goes to all of them, settings of
releases to come included. A test holds both lists against the library itself, which prints its
table of settings with the column C/P.
"""

import logging
import re
from collections.abc import Mapping
from typing import Final, Literal

from storage_core import InvalidRequestError
from storage_core.platform.name_suggestions import likely_name

LOGGER_NAME: Final = "shardlog.librdkafka"
# How records are fetched: natively is by the compiled library; auto, by it where it can be had.
FetchWay = Literal["auto", "python", "native"]
REQUEST_TIMEOUT_S: Final = 10.0
# Where the brokers are; without these a client asks nobody.
BROKER_NAMES: Final = ("bootstrap.servers", "metadata.broker.list")

_STRATEGY: Final = "partition.assignment.strategy"
_STRATEGY_TAKEN: Final = "cooperative-sticky"
# With the default pause of a full prefetch queue, 1,000 ms, a consumer runs at a seventh. A small
# record takes several times its size there; with 100,000 a partition a worker is no faster.
_CONSUMER_DEFAULTS: Final[Mapping[str, object]] = {
    "client.id": "shardlog-consumer",
    "fetch.queue.backoff.ms": 2,
    "queued.max.messages.kbytes": 16_384,
    "queued.min.messages": 10_000,
    _STRATEGY: _STRATEGY_TAKEN,
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 10_000,
    "check.crcs": True,
}
_RESET: Final = "auto.offset.reset"
_START_INSTEAD: Final = "where a shard begins that is not there yet is set by `start`"
# Where a shard goes on is the shard's to say; what is not committed is not to be seen.
_CONSUMER_FIXED: Final[Mapping[str, object]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    _RESET: "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": False,
}
# The protocol of KIP-848 leaves these to the broker.
_CLASSIC_ONLY: Final = (
    _STRATEGY,
    "session.timeout.ms",
    "heartbeat.interval.ms",
)
_ADMIN_NAME: Final = "shardlog-admin"
_MASK: Final = "***"
# Parts of names whose values open something.
_SECRET_PARTS: Final = (
    "password",
    "passphrase",
    "secret",
    "key.pem",
    "jaas",
    "oauthbearer.config",
    "kinit.cmd",
)
_SECRET_ENDS: Final = ("token",)
# A certificate's text may have its key behind it, whatever the setting's name.
_KEY_TEXT: Final = "PRIVATE KEY"
# Of an address, who asks and what is asked with it.
_SECRETS_OF_ADDRESS: Final = re.compile(r"(?<=://)\S*@|(?<=\?)\S+")
_SETTING_IN_LINE: Final = re.compile(r"(\S+) = (.*)", re.DOTALL)
_PRODUCER_DEFAULTS: Final[Mapping[str, object]] = {
    "client.id": "shardlog-producer",
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.timeout.ms": 60_000,
}


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

# Beside them, of what every client has, the names that people write.
_OF_EVERY_CLIENT: Final = (
    *(
        "bootstrap.servers",
        "broker.address.family",
        "client.dns.lookup",
        "client.id",
        "client.rack",
    ),
    *("debug", "message.max.bytes", "metadata.max.age.ms", "reconnect.backoff.max.ms"),
    *("sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.kerberos.service.name"),
    *("sasl.mechanism", "sasl.mechanisms", "sasl.oauthbearer.client.id", "sasl.password"),
    *("sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url", "sasl.username"),
    *("security.protocol", "socket.keepalive.enable", "socket.timeout.ms", "ssl.ca.location"),
    *("ssl.certificate.location", "ssl.endpoint.identification.algorithm", "ssl.key.location"),
    *(
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "statistics.interval.ms",
    ),
)
_NAMES: Final = CONSUMER_OWN | PRODUCER_OWN | {*_OF_EVERY_CLIENT}
# What other clients, and people, call some of them.
_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "bootstrap.servers": (
        *("bootstrap", "bootstrap.server", "broker", "broker.list", "brokers", "hosts"),
        *("kafka.bootstrap", "kafka.brokers", "server", "servers"),
    ),
    "group.id": ("consumer.group", "consumergroup", "group", "groupid", "kafka.group"),
    "sasl.username": ("sasl.plain.username", "sasl.user", "username"),
    "sasl.password": ("password", "sasl.plain.password"),
    "ssl.ca.location": ("cafile", "ssl.cafile", "ssl.truststore.location"),
    "ssl.certificate.location": ("certfile", "ssl.certfile"),
    "ssl.key.location": ("keyfile", "ssl.keyfile"),
}

# What a pattern of topics leaves out. To a client with it, these topics do not exist.
OF_PATTERNS: Final = frozenset(("topic.blacklist",))


def setting_called(name: str) -> str | None:
    """Return the setting of librdkafka's that a name stands for elsewhere; None if none is."""
    plain = name.lower().replace("_", ".").replace("-", ".")
    if plain in _NAMES:
        return plain
    return next((setting for setting, names in _CALLED.items() if plain in names), None)


def likely_setting(name: str) -> str | None:
    """Return the setting of librdkafka's that a name is likely meant for; None if none is."""
    return setting_called(name) or likely_name(name, sorted(_NAMES))


def consumer_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return a consumer's settings with our defaults below and what is fixed above them.

    Raises:
        InvalidRequestError: A setting is not the caller's to choose.
    """
    taken = sorted(set(settings) & set(_CONSUMER_FIXED))
    if taken:
        instead = f"; {_START_INSTEAD}" if _RESET in taken else ""
        message = f"kafka: {', '.join(taken)} cannot be set; shardlog needs its own values{instead}"
        raise InvalidRequestError(message)
    strategy = settings.get(_STRATEGY, _STRATEGY_TAKEN)
    if strategy != _STRATEGY_TAKEN:
        message = (
            f"kafka: {_STRATEGY} is {strategy!r}; shardlog takes {_STRATEGY_TAKEN} alone, by which "
            "partitions come and go one by one: leave it out"
        )
        raise InvalidRequestError(message)
    defaults = dict(_CONSUMER_DEFAULTS)
    if settings.get("group.protocol") == "consumer":
        for name in _CLASSIC_ONLY:
            del defaults[name]
    return {**defaults, **settings, **_CONSUMER_FIXED, "logger": quiet_logger()}


def printable_consumer_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what is in force in a consumer, but for librdkafka's own defaults, by name.

    Of what is secret it is only said that it is there.
    """
    merged = consumer_settings(settings)
    del merged["logger"]
    return {name: without_secrets(name, merged[name]) for name in sorted(merged)}


def without_secrets(name: str, value: object) -> object:
    """Return a setting's value as anybody may see it: that there is a secret, and no more."""
    lowered = name.lower()
    is_secret = any(part in lowered for part in _SECRET_PARTS) or lowered.endswith(_SECRET_ENDS)
    if is_secret or (isinstance(value, str) and _KEY_TEXT in value):
        return _MASK
    return _without_users(value) if isinstance(value, str) else value


def line_without_secrets(line: str) -> str:
    """Return what librdkafka says as anybody may see it; with `debug` it tells its settings."""
    match = _SETTING_IN_LINE.search(line)
    if match is not None:
        line = f"{line[: match.start(2)]}{without_secrets(match[1], match[2])}"
    return _without_users(line)


def _without_users(text: str) -> str:
    if "://" not in text:
        return text
    return _SECRETS_OF_ADDRESS.sub(
        lambda found: f"{_MASK}@" if found[0].endswith("@") else _MASK, text
    )


def producer_settings(bootstrap: str, settings: Mapping[str, object]) -> dict[str, object]:
    """Return a producer's settings with our defaults below them."""
    own = CONSUMER_OWN | OF_PATTERNS
    common = {name: value for name, value in settings.items() if name not in own}
    merged = {"bootstrap.servers": bootstrap, **_PRODUCER_DEFAULTS, **common}
    return {**merged, "logger": quiet_logger()}


def admin_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what of a client's settings concerns every client, this one too."""
    own = CONSUMER_OWN | PRODUCER_OWN | OF_PATTERNS
    common = {name: value for name, value in settings.items() if name not in own}
    return {"client.id": _ADMIN_NAME, **common, "logger": quiet_logger()}


def quiet_logger() -> logging.Logger:
    """Return where librdkafka's own lines go: nowhere, unless the process gives it a handler."""
    logger = logging.getLogger(LOGGER_NAME)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    return logger
