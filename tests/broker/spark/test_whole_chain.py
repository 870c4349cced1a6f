"""Goal: from the producer to what Spark wrote, no record is lost or doubled, whoever dies.

Method: the job of the demo tails a topic that two workers store; one worker and the Spark driver
are killed on the way, another driver goes on from its checkpoint, and in the end producer, broker,
shards and counts are compared.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.job import COUNTS, EXPECTED
from storage_core import InvalidRequestError, StreamReader
from tests.broker.support.lab import Lab, Topic
from tests.broker.support.spark_program import REPOSITORY, SparkProgram, spark_environment
from tests.waiting import await_that

RECORDS = 15_000
DRIVER_MAX_S = 600.0


@contextmanager
def driver(lab: Lab, topic: Topic, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the demo's job on a topic's stream."""
    command = (
        "import sys, demo.job as job; job.TELEMETRY = sys.argv.pop(1); job.main(*sys.argv[1:])"
    )
    arguments = [topic.name, os.fspath(lab.root), os.fspath(place), EXPECTED]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
        env=spark_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def counted(lab: Lab) -> Counter[int]:
    """Return the counts read back, by device."""
    counts: Counter[int] = Counter()
    try:
        with StreamReader.open(lab.root, COUNTS) as reader:
            for batch in reader.scan(columns=["secondary", "payload"]):
                for row in batch.to_pylist():
                    counts[row["secondary"]] += int(row["payload"])
    except InvalidRequestError:
        pass
    return counts


def test_chain_balances_though_a_worker_and_the_driver_are_killed(
    lab: Lab, tmp_path: Path, kafka_spark: SparkProgram
) -> None:
    topic = lab.topic()
    place = tmp_path / "spark"
    place.mkdir()
    with lab.producing(topic, RECORDS):
        workers = [lab.doomed(topic), lab.worker(topic, as_people_do=True)]
        lab.await_committed(topic, 500)
        with driver(lab, topic, place) as job:
            workers[0].kill()
            await_that(lambda: counted(lab).total() > 0, "the job writes counts", DRIVER_MAX_S)
            job.kill()
            job.wait()
    lab.expect_ledger(topic)
    root = os.fspath(lab.root)
    kafka_spark.ask("demo", telemetry=topic.name, root=root, place=os.fspath(place))
    keys = Counter(
        -1 if key is None else int.from_bytes(key, "big")
        for rows in lab.stored(topic).values()
        for _, key, _, _ in rows
    )
    assert counted(lab) == keys
    assert counted(lab).total() == RECORDS
