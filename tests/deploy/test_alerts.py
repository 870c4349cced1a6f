"""Goal: each alert fires once its cause is made, none before, and all name only metrics there are.

Method: a real Prometheus, from Debian, evaluates the rules each second with short waits, over real
workers and a broker of their own; that none fires before, by the rules as they are, since a machine
short of processor time is a cause of the hasty ones. Causes: a paused partition that goes on
growing, a log that nobody reads, a damaged shard, a topic that is deleted, a transaction that
nobody ends, records that cannot be parsed, a small disk, maintenance that is off, retention that
overtakes a worker, and a killed broker. Those that need minutes of a slow disk, of dying processes
or of a store that is away go through Prometheus' own tests of rules.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from connectors.devtools.broker import BROKER
from connectors.devtools.java import SHORT_LIVED
from connectors.devtools.ports import LOOPBACK, free_ports, is_open
from connectors.devtools.server import Server
from connectors.group.pauses import Pause, Pauses
from connectors.kafka import Partition
from tests.broker.support.cluster import LONGEST_TRANSACTION_MS, Transactions
from tests.broker.support.lab import CLOCK, Lab, Topic, WorkerProcess
from tests.broker.worker.test_monitoring import ANY_PORT, ask
from tests.deploy.support.deployed import RULES, hasty_rules, metrics_of, panels, rules
from tests.deploy.support.prometheus import Prometheus, promtool, scraping
from tests.waiting import WAIT_MAX_S, await_that

BY_RULES_ALONE = {
    *("ShardlogDiskSlow", "ShardlogPartBuilderDies"),
    *("ShardlogLakeBehind", "ShardlogLakePublishFails"),
}
ON_A_SMALL_DISK = "ShardlogDiskFull"
# These fire for as long as what they look back at is worse than it was.
OF_A_MOMENT = {"ShardlogLagGrowsAtNoRate", "ShardlogDeadLetters"}
SCRAPES_OF_PEACE = 4
# Many scrapes of a machine that is short of processor time come too late to count.
FIRE_MAX_S = 3 * WAIT_MAX_S
DISK_BYTES = 192 << 20
PIPE_BYTES = 4096
SMALL_DISK = f"""
mount -t tmpfs -o size={DISK_BYTES} none "$1"
head -c {DISK_BYTES * 93 // 100} /dev/zero > "$1/other"
shift
exec "$@"
"""


def address(worker: WorkerProcess) -> str:
    """Return where a worker answers."""
    worker.await_event("listening")
    listening: str = worker.events("listening")[0]["address"]
    return listening


def metric_names(worker: WorkerProcess) -> set[str]:
    """Return the names that a worker's metrics may have, those without a sample too."""
    families = text_string_to_metric_families(ask(worker, "/metrics")[1])
    ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
    return {f"{each.name}{end}" for each in families for end in ends[each.type]}


def test_rules_and_dashboard_name_only_metrics_that_a_worker_has(lab: Lab) -> None:
    worker = lab.worker(lab.topic(partitions=1), metrics__listen=ANY_PORT)
    worker.await_event("partition opened")
    names = metric_names(worker) | {"up"}
    expressions = [(name, rule["expr"]) for name, rule in rules().items()]
    for name, expression in [*expressions, *panels()]:
        assert metrics_of(expression), name
        assert metrics_of(expression) <= names, name


def test_prometheus_takes_the_rules_and_its_settings() -> None:
    assert promtool("check", "rules", "--lint-fatal", RULES).returncode == 0
    said = promtool("check", "config", RULES.with_name("prometheus.yml"))
    assert said.returncode == 0, said.stderr


@contextmanager
def talking_to_nobody(lab: Lab, topic: Topic) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a worker whose lines nobody reads; give its address."""
    (port,) = free_ports(1)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    settings = {
        "root": lab.root.with_name("silent"),
        "topics": topic.name,
        "kafka.bootstrap.servers": lab.bootstrap,
        "kafka.group.id": "silent",
        "metrics.listen": f"{LOOPBACK}:{port}",
    }
    sets = [f"--set={name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "connectors.cli.main", "worker", *sets]
    worker = subprocess.Popen(command, stdout=writing, stderr=subprocess.DEVNULL)
    try:
        yield f"{LOOPBACK}:{port}", worker
    finally:
        worker.kill()
        worker.wait()
        os.close(reading)
        os.close(writing)


class Causes:
    """What goes wrong with the topics of one worker, and the worker that meets it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._topics = [lab.topic(partitions=2 if number == 0 else 1) for number in range(6)]
        self.grows, self.damaged, self.gone, self.overtaken, self.letters, self.held = self._topics
        for topic in self._topics:
            lab.produce(topic, 200)
        before = lab.worker(*self._topics, maintain_every_s=0)
        for topic in self._topics:
            lab.await_no_lag(topic)
        assert before.stop() == 0, before.said()

    def begin(self) -> WorkerProcess:
        """Damage a shard, have retention overtake another, start a worker without maintenance."""
        for current in (self._lab.root / self.damaged.name / "shard-0000").rglob("CURRENT"):
            current.unlink()
        self._lab.produce(self.overtaken, 100)
        self._lab.cluster.delete_records(Partition(self.overtaken.name, 0), 250)
        return self._lab.worker(
            *self._topics, metrics__listen=ANY_PORT, maintain_every_s=0, on_out_of_range="skip"
        )

    def go_on(self, worker: WorkerProcess, prometheus: Prometheus) -> None:
        """Delete a topic, leave a transaction open, send poison, pause what goes on growing."""
        await_that(
            lambda: all(map(prometheus.value, self._scraped())), "two partitions and no letter told"
        )
        hanging = Transactions(self._lab.bootstrap, self.held.name, LONGEST_TRANSACTION_MS)
        hanging.leave_open(self.held.name, [(None, b"held back")] * 9)
        self._lab.cluster.delete_topic(self.gone.name)
        self._pause(0)
        worker.await_event("paused")
        self.repeat()
        # The end of what is not fetched is asked for when there is more of it.
        self._pause(1)

    def repeat(self) -> None:
        """Send what cannot be parsed, and have what is paused grow; a scrape may have failed."""
        with self._lab.producer() as producer:
            producer.send(self.letters.name, b"no integer", b"poison", 1000, None, 0)
        self._lab.produce(self.grows, 10, partition=0)

    def alerts(self) -> dict[str, tuple[str, Topic]]:
        """Return which topic an alert is to name, and by which label."""
        return {
            "ShardlogLagGrowsAtNoRate": ("topic", self.grows),
            "ShardlogBehind": ("topic", self.grows),
            "ShardlogPaused": ("stream", self.grows),
            "ShardlogQuarantined": ("stream", self.damaged),
            "ShardlogTopicDeleted": ("stream", self.gone),
            "ShardlogHeldBack": ("topic", self.held),
            "ShardlogLosesToRetention": ("stream", self.overtaken),
            "ShardlogDeadLetters": ("stream", self.letters),
            "ShardlogDeadLettersWait": ("stream", self.letters),
        }

    def _scraped(self) -> list[str]:
        return [
            f'shardlog_dead_letters_by_reason_total{{stream="{self.letters.name}"}}',
            *(
                f'kafka_consumergroup_group_lag{{topic="{self.grows.name}", partition="{number}"}}'
                for number in range(2)
            ),
        ]

    def _pause(self, partition: int) -> None:
        now_ms = CLOCK.now_ns() // 10**6
        Pauses(self._lab.root).write(Pause(self.grows.name, partition, now_ms, "for a test"))


def test_each_alert_fires_once_its_cause_is_made_and_none_before(tmp_path: Path) -> None:
    # The others may fire too: the disk of this machine may be slow, or full.
    expected = set(rules()) - BY_RULES_ALONE - {ON_A_SMALL_DISK}
    with (
        Server(BROKER, tmp_path / "broker", jvm_options=SHORT_LIVED) as broker,
        scraping(tmp_path / "prometheus", hasty_rules(expected)) as prometheus,
    ):
        lab = Lab(broker.address, tmp_path, 1)
        try:
            _make_each_cause(lab, broker, prometheus, expected)
        finally:
            lab.close()


def _make_each_cause(lab: Lab, broker: Server, prometheus: Prometheus, expected: set[str]) -> None:
    healthy = _healthy(lab, prometheus)
    causes, silent = Causes(lab), lab.topic(partitions=1)
    idle = lab.worker(Topic("nowhere", lab.bootstrap), metrics__listen=ANY_PORT)
    with talking_to_nobody(lab, silent) as (silent_address, silent_worker):
        scrapes = f'count_over_time(up{{instance="{address(healthy)}"}}[1h]) >= {SCRAPES_OF_PEACE}'
        await_that(lambda: bool(prometheus.value(scrapes)), "some scrapes")
        own_rules = {name: rules()[name] for name in expected}
        # One scrape that came late is no cause.
        await_that(
            lambda: not prometheus.holding(own_rules),
            lambda: f"a worker that is well: {prometheus.holding(own_rules)}",
        )
        worker = causes.begin()
        prometheus.watch(address(worker))
        prometheus.watch(address(idle), job="idle")
        await_that(lambda: _is_open(silent_address), "a worker that nobody reads")
        prometheus.watch(silent_address)
        causes.go_on(worker, prometheus)

        def has_fired() -> bool:
            # Each asks for a line, until the pipe is full.
            silent_worker.send_signal(signal.SIGUSR1)
            fired = prometheus.fired()
            if not fired >= OF_A_MOMENT:
                causes.repeat()
            return fired >= expected - {"ShardlogDown", "ShardlogBrokerAway"}

        await_that(has_fired, lambda: f"{expected - prometheus.fired()} fire", FIRE_MAX_S)
        for title, expression in panels():
            assert prometheus.value(expression), f"{title}: {expression}"
        assert prometheus.fired() <= expected
        for name, (label, topic) in causes.alerts().items():
            assert topic.name in prometheus.fired_for(name, label), name
    healthy.kill()
    broker.kill()
    await_that(
        lambda: prometheus.fired() == expected,
        lambda: f"{expected ^ prometheus.fired()} fire",
        FIRE_MAX_S,
    )


def _healthy(lab: Lab, prometheus: Prometheus) -> WorkerProcess:
    """Start a worker that has all it needs, and have it watched."""
    topic = lab.topic(partitions=1)
    lab.produce(topic, 300)
    worker = lab.worker(
        topic,
        root=os.fspath(lab.root.with_name("healthy")),
        metrics__listen=ANY_PORT,
        maintain_every_s=1,
        stream__seal_rows=1,
        stream__lake=lab.root.with_name("lake").as_uri(),
        stream__lake_lag_seconds=1,
        kafka__group__id="healthy",
    )
    prometheus.watch(address(worker))
    return worker


def _is_open(address_: str) -> bool:
    host, _, port = address_.rpartition(":")
    return is_open(host, int(port))


def test_disk_that_is_nearly_full_is_told(lab: Lab, tmp_path: Path) -> None:
    namespace = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "-rm")
    trial = [*namespace, "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run(trial, check=False).returncode:
        pytest.skip("no small disk: unshare may not mount here")
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    lab.root.mkdir()
    settings: dict[str, Any] = {
        "root": os.fspath(lab.root),
        "topics": [topic.name],
        "kafka.bootstrap.servers": lab.bootstrap,
        "kafka.group.id": topic.name,
        "metrics.listen": ANY_PORT,
    }
    inside = ("sh", "-ec", SMALL_DISK, "sh", os.fspath(lab.root))
    worker = WorkerProcess(settings, tmp_path / "small.log", (*namespace, *inside), is_forked=False)
    try:
        with scraping(tmp_path / "prometheus", hasty_rules({ON_A_SMALL_DISK})) as prometheus:
            prometheus.watch(address(worker))
            await_that(lambda: ON_A_SMALL_DISK in prometheus.fired(), "a full disk told")
            (free,) = prometheus.value("shardlog_disk_size_bytes")
            assert int(free["value"][1]) == DISK_BYTES
            assert worker.stop() == 0, worker.said()
    finally:
        worker.end()


def test_alerts_that_need_minutes_fire_by_the_rules(tmp_path: Path) -> None:
    instance = 'instance="w",job="shardlog"'
    shard = f'{instance},shard="0"'
    # Twenty minutes of peace, then of the cause.
    series = {
        f'shardlog_commit_seconds_bucket{{{instance},le="1"}}': "0+10x20 201+1x60",
        f'shardlog_commit_seconds_bucket{{{instance},le="5"}}': "0+10x80",
        f'shardlog_commit_seconds_bucket{{{instance},le="+Inf"}}': "0+10x80",
        f"shardlog_worker_part_builders_died_total{{{instance}}}": "0x20 0+1x60",
        # Half an hour behind at minute 51: a quarter of what Kafka keeps.
        f'shardlog_lake_unpublished_age_seconds{{{shard},stream="a"}}': "0x20 0+60x60",
        f'shardlog_topic_retention_seconds{{{instance},stream="a"}}': "7200x80",
        f'shardlog_lake_unpublished_age_seconds{{{shard},stream="b"}}': "0x20 0+60x60",
        f'shardlog_lake_publish_failures_total{{{instance},stream="a"}}': "0x20 0+1x60",
    }
    tests = {
        "rule_files": [os.fspath(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": of} for name, of in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})',
                        "eval_time": moment,
                        "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                    }
                    for name in sorted(BY_RULES_ALONE)
                    for moment, fires in (("20m", False), ("65m", True))
                ],
            }
        ],
    }
    file = tmp_path / "tests.yml"
    with file.open("w") as writing:
        YAML(typ="safe").dump(tests, writing)
    said = promtool("test", "rules", file)
    assert said.returncode == 0, said.stdout + said.stderr
