"""Kafka's own tools of measurement, each in a JVM of its own.

They come from a jar that the dev stack does not need, fetched once into the same cache. The
producer is the one that holds a pace beside a worker on two processors, which one in Python
does not; its records have no keys, and their timestamps tell when they were sent.
"""

import re
import subprocess
from typing import Final

from connectors.dev_stack.broker import KAFKA, KAFKA_VERSION
from connectors.dev_stack.fetch import Bundle, fetched
from connectors.dev_stack.java import find_java

TOOLS: Final = Bundle(
    name=f"kafka-tools-{KAFKA_VERSION}",
    # What it needs itself lies beside the broker.
    dependencies=f"""\
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}"
                transitive="false" conf="default->default"/>""",
    files=1,
    megabytes=1,
    sha256="074f92301d7a679305b0f8038c11868fae768b358f8232b5afb3e1a373ce32af",
)
_PACKAGE: Final = "org.apache.kafka.tools"
# A tool is not what is measured: on two processors its JVM must not take them from the others
# with threads that collect.
_JVM: Final = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData")
# Nor with threads that optimise, where a pace and not the most is wanted.
_QUICK_TO_COMPILE: Final = "-XX:TieredStopAtLevel=1"
_RUN_MAX_S: Final = 120.0
_PRODUCED: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)
_FETCH_RATE_COLUMN: Final = 9


def produce_at_pace(bootstrap: str, topic: str, records: int, value_bytes: int, pace: int) -> float:
    """Produce so many records with Kafka's own producer and its defaults; return the rate."""
    text = _run(
        (_QUICK_TO_COMPILE,),
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(value_bytes)),
        *("--throughput", str(pace), "--producer-props", f"bootstrap.servers={bootstrap}"),
    )
    count, rate = _PRODUCED.findall(text)[-1]
    assert int(count) == records, text
    return float(rate)


def consume_rate(bootstrap: str, topic: str, records: int) -> float:
    """Consume so many records with Kafka's own consumer; return the rate once it is assigned."""
    text = _run(
        (),
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(records)),
        "--hide-header",
    )
    (line,) = (line for line in text.splitlines() if line.count(",") >= _FETCH_RATE_COLUMN)
    return float(line.split(",")[_FETCH_RATE_COLUMN])


def _run(options: tuple[str, ...], tool: str, *arguments: str) -> str:
    path = f"{fetched(TOOLS)}/*:{fetched(KAFKA)}/*"
    command = [str(find_java()), *_JVM, *options, "-cp", path, f"{_PACKAGE}.{tool}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_MAX_S, check=True)
    return done.stdout
