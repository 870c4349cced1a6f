"""What operators see of a real worker: metrics that Prometheus parses, health, settings."""

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from connectors.cli.version import installed_version
from tests.broker.support.cluster import Transactions
from tests.broker.support.lab import Lab, WorkerProcess
from tests.waiting import WAIT_MAX_S, await_that

CANARY = "canary-7f3a"
ANY_PORT = "127.0.0.1:0"


def ask(worker: WorkerProcess, path: str) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    worker.await_event("listening")
    host, _, port = worker.events("listening")[0]["address"].rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_MAX_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def metrics(worker: WorkerProcess) -> dict[tuple[str, str], float]:
    """Return each number by its name and the shard or reason it is about."""
    _, text = ask(worker, "/metrics")
    return {
        (
            sample.name,
            sample.labels.get(
                "partition", sample.labels.get("shard", sample.labels.get("reason", ""))
            ),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_tell_what_was_stored_and_what_is_left(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 1000)
    with lab.producer() as producer:
        producer.send(topic.name, b"no integer", b"poison", 1000, None, 0)
    worker = lab.worker(topic, metrics__listen=ANY_PORT)

    def has_caught_up() -> bool:
        samples = metrics(worker)
        matching = [
            samples.get((f"shardlog_worker_{name}_total", ""))
            for name in ("appended", "dead_letters")
        ]
        return matching == [1000, 1] and samples["kafka_consumergroup_group_lag", "1"] == 0

    await_that(has_caught_up, "metrics that say so")
    samples, ends = metrics(worker), topic.ends()
    stored = sum(samples["shardlog_shard_records_total", str(shard)] for shard in ends)
    assert stored == samples["shardlog_worker_appended_total", ""] == 1000
    assert samples["shardlog_dead_letters_by_reason_total", "key"] == 1
    assert (
        samples["shardlog_commit_seconds_count", ""]
        == samples["shardlog_worker_commit_rounds_total", ""]
        > 0
    )
    assert samples["shardlog_lateness_seconds_count", ""] == 1000
    for shard, end in ends.items():
        assert samples["kafka_consumergroup_group_offset", str(shard)] == end
        assert samples["kafka_consumergroup_group_lag_seconds", str(shard)] == 0


def test_metrics_tell_where_an_open_transaction_begins(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    Transactions(lab.bootstrap, topic.name).leave_open(topic.name, [(None, b"held back")] * 7)
    worker = lab.worker(topic, metrics__listen=ANY_PORT)
    names = "kafka_partition_last_stable_offset", "kafka_partition_latest_offset"

    def are_known() -> bool:
        samples = metrics(worker)
        return [samples.get((name, "0")) for name in names] == [100, 107]

    await_that(are_known, "last stable offset and end")


def test_health_follows_the_worker(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    worker = lab.worker(topic, metrics__listen=ANY_PORT)
    await_that(lambda: ask(worker, "/health/ready")[0] == 200, "readiness")
    ready = json.loads(ask(worker, "/health/ready")[1])
    counts = {"shards": 2, "waiting": 0, "quarantined": 0, "paused": 0}
    assert ready == {"healthy": True, **counts}
    assert ask(worker, "/health/live")[0] == 200
    silent = ("shardlog_loop_silent_seconds", "")
    await_that(lambda: metrics(worker)[silent] < 0.5, "a loop that is heard of")
    assert json.loads(ask(worker, "/version")[1])["version"] == installed_version()
    assert worker.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        ask(worker, "/health/live")


def test_second_member_without_partitions_is_ready(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    first = lab.worker(topic)
    first.await_event("partition opened")
    second = lab.worker(topic, metrics__listen=ANY_PORT)
    await_that(lambda: ask(second, "/health/ready")[0] == 200, "readiness")


def test_quarantined_partition_is_not_ready(lab: Lab) -> None:
    topic, other = lab.topic(partitions=1), lab.topic(partitions=1)
    lab.produce(topic, 10)
    worker = lab.worker(topic, other)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    (current,) = (lab.root / topic.name / "shard-0000").rglob("CURRENT")
    current.unlink()
    again = lab.worker(topic, other, metrics__listen=ANY_PORT)
    again.await_event("quarantined")

    def readiness() -> tuple[int, int | None]:
        status, body = ask(again, "/health/ready")
        return status, json.loads(body).get("quarantined")

    # The other one's shard may be being opened still.
    await_that(lambda: readiness() == (503, 1), "a partition that is set aside")


def test_port_that_is_taken_ends_it_with_one_line(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        worker = lab.worker(lab.topic(), metrics__listen=address)
        assert worker.exit_code() == EXIT_UNAVAILABLE
    assert worker.said().count("\n") == 1
    assert f"metrics.listen: {address} cannot be had" in worker.said()


def test_secret_is_told_nowhere(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    secrets: dict[str, Any] = {
        "kafka__sasl__password": f"{CANARY}-1",
        "kafka__ssl__key__password": f"{CANARY}-2",
        "kafka__sasl__oauthbearer__client__secret": f"{CANARY}-3",
        "kafka__ssl__keystore__password": f"{CANARY}-4",
        "kafka__sasl__oauthbearer__config": f"{CANARY}-5",
    }
    worker = lab.worker(topic, metrics__listen=ANY_PORT, **secrets)
    worker.await_event("partition opened")
    status, settings = ask(worker, "/config")
    assert status == 200
    assert json.loads(settings)["kafka"]["sasl.password"] == "***"
    answers = [
        ask(worker, path)[1] for path in ("/metrics", "/version", "/health/ready", "/nowhere")
    ]
    worker.ask_progress()
    worker.await_event("progress")
    assert worker.stop() == 0
    for said in (settings, worker.said(), *answers):
        assert CANARY not in said


def test_lines_go_to_a_file_too_but_those_that_are_not_wanted(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "worker.log"
    levels = {"all": "info", "assignment": "warning"}
    worker = lab.worker(lab.topic(partitions=1), log__file=os.fspath(file), log__levels=levels)
    worker.await_event("started")
    assert worker.stop() == 0
    # Behind midnight those of the day before lie beside it.
    files = [*sorted(tmp_path.glob("worker.log.*")), file]
    lines = [json.loads(line) for each in files for line in each.read_text().splitlines()]
    assert lines == [json.loads(line) for line in worker.said().splitlines()]
    assert lines[-1]["event"] == "stopped"
    assert "assignment" not in {line["logger"] for line in lines}
