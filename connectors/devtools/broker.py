"""A real Kafka broker: one KRaft node, all its own, and quick where tests would wait.

    <directory>/server.properties  broker.log  data/

Times that a cluster keeps long to spare itself work are short: a dead member of a group is missed
after six seconds, retention is looked after every second.
"""

import secrets
from pathlib import Path
from typing import Final

from connectors.devtools.fetch import Bundle, fetched
from connectors.devtools.java import SHORT_LIVED, find_java
from connectors.devtools.ports import LOOPBACK, is_open
from connectors.devtools.process import await_end, last_telling_line
from connectors.devtools.server import Server, ServerKind
from connectors.kafka import Admin
from storage_core import UnavailableError

KAFKA_VERSION: Final = "4.1.1"
KAFKA: Final = Bundle(
    name=f"kafka-{KAFKA_VERSION}",
    # The broker's own dependencies name no logger: without one it dies in silence.
    dependencies=f"""\
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}"
                conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.24.3"
                conf="default->default"/>""",
    files=46,
    megabytes=45,
    sha256="3a34e90b2c305fced2b81eb1d737a8f6b0e1fc5831f4ef1a0f8a89c07bd1badd",
)

_FORMAT_MAX_S: Final = 180.0
_CLUSTER_ID_BYTES: Final = 16
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
num.partitions=1
auto.create.topics.enable=false
# There is no second node to hold a copy.
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
# Each partition costs a directory and open files; nobody spreads load here.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
log.segment.delete.delay.ms=100
log.cleaner.backoff.ms=1000
log.cleaner.dedupe.buffer.size=4194304
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
# A restarted controller refuses a broker until the session of its last life is over; a killed
# broker would take the default of nine seconds to come back.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
listeners=PLAINTEXT://{broker},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{broker}
controller.quorum.voters=1@{controller}
log.dirs={data}
"""


def is_broker_answering(address: str) -> bool:
    """Tell whether a plaintext broker at `host:port` serves."""
    host, _, port = address.rpartition(":")
    # Where nothing listens, a client would go on knocking until its time is over.
    is_listening = port.isdecimal() and is_open(host, int(port))
    return is_listening and Admin({"bootstrap.servers": address}).is_serving()


def _command(server: Server, ports: tuple[int, ...]) -> list[str]:
    properties = server.directory / "server.properties"
    properties.write_text(properties_of(server, ports), encoding="utf-8")
    # A killed JVM would leave its performance counters in the system's temporary directory.
    options = ["-Xmx512m", "-XX:-UsePerfData", "-Dorg.apache.logging.log4j.level=WARN"]
    java = [str(find_java()), "-cp", f"{fetched(KAFKA)}/*", *options]
    _format(server, java, properties)
    return [*java, *server.jvm_options, "kafka.Kafka", str(properties)]


def properties_of(server: Server, ports: tuple[int, ...]) -> str:
    """Return the text of the broker's file of properties, for its own and its controller's port."""
    broker, controller = (f"{LOOPBACK}:{port}" for port in ports)
    ours = _PROPERTIES.format(broker=broker, controller=controller, data=server.data)
    # Of a name that stands twice the last wins.
    return ours + "".join(f"{name}={value}\n" for name, value in server.settings.items())


def _format(server: Server, java: list[str], properties: Path) -> None:
    """Have Kafka's own tool prepare an empty data directory."""
    made = server.data / "meta.properties"
    if made.exists():
        return
    tool = [*SHORT_LIVED, "kafka.tools.StorageTool", "format"]
    # An id must not begin with a dash: it would be taken for an option.
    cluster_id = f"k{secrets.token_urlsafe(_CLUSTER_ID_BYTES)[1:]}"
    arguments = ["-t", cluster_id, "-c", str(properties)]
    await_end(server.run([*java, *tool, *arguments]).program, server.log, _FORMAT_MAX_S)
    if not made.exists():
        message = f"the broker's data cannot be prepared: {last_telling_line(server.log)}"
        raise UnavailableError(message, path=server.log)


BROKER: Final = ServerKind(
    name="broker",
    variable="KAFKA_BOOTSTRAP",
    address="{}",
    command=_command,
    is_answering=is_broker_answering,
    ports=2,
)
