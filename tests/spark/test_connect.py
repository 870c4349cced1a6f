"""Spark Connect: a client without Spark of its own reads, writes and runs jobs through a server."""

import json
import random
from typing import Any

from storage_core import StreamReader
from tests.log.served import served
from tests.spark.support.connect_server import connect_server
from tests.spark.support.lab import NAME
from tests.spark.support.rollup_lab import RollupLab, readings
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, SourceLab

LATE = 99
NUMBERS = [*range(10), LATE]


def stored(root, stream):
    with StreamReader.open(root, stream) as reader:
        payloads: Any = reader.read().column("payload").to_pylist()
    return sorted(map(int, payloads))


def test_client_reads_writes_and_runs_jobs(tmp_path):
    log, lab = SourceLab(tmp_path / "root"), RollupLab(tmp_path)
    log.create(shards=2)
    log.append(10)
    log.writer.append(FIRST_MS, 3, b"%d" % LATE)
    log.writer.commit()
    log.writer.seal()
    lab.create()
    lab.measure(readings(random.Random(7), 50))
    with served(log.root, is_writable=True) as address, connect_server(tmp_path) as server:
        client = "tests.spark.support.connect_client"
        seen = json.loads(server.run(client, str(tmp_path), str(log.root), address))
    assert seen["kind"].startswith("pyspark.sql.connect")
    assert seen["batches"] == [NUMBERS, NUMBERS]
    assert "InvalidRequestError: unknown" in seen["mistake"]
    assert stored(log.root, "written") == stored(log.root, "sunk") == NUMBERS
    assert stored(log.root, f"{NAME}-late") == [LATE]
    assert seen["landed"] == NUMBERS
    lab.check(["hour"])
    log.close()
    lab.close()
