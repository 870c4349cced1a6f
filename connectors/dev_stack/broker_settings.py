"""What the dev broker is told: one node, all its own, and quick where tests would wait.

Times that a cluster keeps long to spare itself work are short: a dead member of a group is missed
after six seconds, retention is looked after every second.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connectors.dev_stack.ports import LOOPBACK

_NODE: Final = 1
_FIXED: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": str(_NODE),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    # There is no second node to hold a copy.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Each partition costs a directory and open files; nobody spreads load here.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # A restarted controller refuses a broker until the session of its last life is over; a killed
    # broker would take the default of nine seconds to come back.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def server_properties(ports: tuple[int, int], log_directory: Path, extra: Mapping[str, str]) -> str:
    """Return the broker's file of properties; those in `extra` win.

    Args:
        ports: The broker's and the controller's.
        log_directory: Where topics are kept.
        extra: Kafka's names and values.
    """
    broker, controller = (f"{LOOPBACK}:{port}" for port in ports)
    properties = {
        **_FIXED,
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker}",
        "controller.quorum.voters": f"{_NODE}@{controller}",
        "log.dirs": str(log_directory),
        **extra,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
