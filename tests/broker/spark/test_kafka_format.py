"""Goal: a job written for Spark's Kafka source gives the same result with our format and a path.

Method: the same job runs twice over one topic, once through each source; rows and windows are
compared to the byte, and so is what one query sees as topics join and leave it. Spark's connector
is fetched by the Ivy inside PySpark.
"""

import os

from tests.broker.support.lab import Lab, Topic
from tests.broker.support.spark_program import SparkProgram


def produce_with_headers(lab: Lab, topic: Topic, records: int) -> None:
    with lab.producer() as producer:
        for number in range(records):
            key = None if number % 9 == 0 else (number % 50).to_bytes(4, "big")
            value = None if number % 11 == 0 else b"v%d" % number
            headers = [("h", b"%d" % number), ("h", None)] if number % 5 == 0 else None
            producer.send(topic.name, key, value, 1_790_000_000_000 + 7 * number, headers)


def test_job_for_the_kafka_source_gives_the_same_with_our_format(
    lab: Lab, kafka_spark: SparkProgram
) -> None:
    topics = lab.topic(retention_ms="-1"), lab.topic(retention_ms="-1")
    for topic, records in zip(topics, (2000, 300), strict=True):
        produce_with_headers(lab, topic, records)
    lab.worker(*topics)
    for topic in topics:
        lab.await_no_lag(topic)
    options = {"kafka.bootstrap.servers": lab.bootstrap}
    ours, kafkas = (
        kafka_spark.ask(
            "kafka_format",
            name=name,
            options={**options, **more},
            topics=[topic.name for topic in topics],
            checkpoint=os.fspath(lab.root.parent / f"checkpoint-{name}"),
        )
        for name, more in (("shardlog", {"path": os.fspath(lab.root)}), ("kafka", {}))
    )
    assert ours == kafkas
    assert len(ours["rows"]) == 2000
    assert ours["counted"]["names"] == ours["counted"]["pattern"]
    assert [len(ours[run]) for run in ("one", "joined", "left, passed by", "back")] == [
        *(2000, 300, 0, 300)
    ]
    assert ours["left"] == "failed"
