"""Goal: a job written for Spark's Kafka source gives the same result with our format and a path.

Method: the same driver runs twice over one topic, once through each source; rows and windows are
compared to the byte, and so is what one query sees as topics join and leave it. Spark's connector
is fetched by the Ivy inside PySpark.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from connectors.kafka_client import Producer
from tests.broker.lab import Lab, Topic
from tests.broker.spark_kafka import connector_jars

DRIVER = Path(__file__).with_name("kafka_format_driver.py")
DRIVER_MAX_S = 600.0


def produce_with_headers(lab: Lab, topic: Topic, records: int) -> None:
    with Producer(lab.bootstrap) as producer:
        for number in range(records):
            key = None if number % 9 == 0 else (number % 50).to_bytes(4, "big")
            value = None if number % 11 == 0 else b"v%d" % number
            headers = [("h", b"%d" % number), ("h", None)] if number % 5 == 0 else None
            producer.send(topic.name, key, value, 1_790_000_000_000 + 7 * number, headers)


def result(format_: str, lab: Lab, topics: tuple[Topic, Topic], jars: str) -> dict[str, Any]:
    names = [topic.name for topic in topics]
    checkpoint = os.fspath(lab.root.parent / f"checkpoint-{format_}")
    arguments = [format_, lab.bootstrap, *names, os.fspath(lab.root), jars, checkpoint]
    done = subprocess.run(
        [sys.executable, os.fspath(DRIVER), *arguments],
        capture_output=True,
        text=True,
        timeout=DRIVER_MAX_S,
        check=False,
        cwd=DRIVER.parents[2],
        env={**os.environ, "PYTHONPATH": os.fspath(DRIVER.parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_job_for_the_kafka_source_gives_the_same_with_our_format(lab: Lab) -> None:
    topics = lab.topic(retention_ms="-1"), lab.topic(retention_ms="-1")
    for topic, records in zip(topics, (2000, 300), strict=True):
        produce_with_headers(lab, topic, records)
    lab.worker(*topics)
    for topic in topics:
        lab.await_no_lag(topic)
    ours = result("shardlog", lab, topics, "")
    kafkas = result("kafka", lab, topics, ",".join(connector_jars()))
    assert ours == kafkas
    assert len(ours["rows"]) == 2000
    assert ours["counted"]["names"] == ours["counted"]["pattern"]
    assert [len(ours[run]) for run in ("one", "joined", "left, passed by", "back")] == [
        *(2000, 300, 0, 300)
    ]
    assert ours["left"] == "failed"
