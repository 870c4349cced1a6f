"""The rules for alerts in docs/OPERATIONS.md ask for what a worker's metrics have.

Names, labels and bounds are compared with what `/metrics` answers: a rule over a name that nobody
has, or over a label that it lacks, never fires and says nothing of it.
"""

import re
import shutil
from pathlib import Path
from subprocess import run
from typing import NamedTuple

import pytest

from connectors.ingest.status.worker_state import PartitionState
from storage_core import StreamStats
from tests.unit.connectors.monitoring.test_answers import AT, Bench, samples
from tests.unit.connectors.workers import open_worker

DOC = Path(__file__).parents[4] / "docs" / "OPERATIONS.md"
# What Prometheus itself adds to a sample, and its own metric.
OF_PROMETHEUS = {"job", "instance"}
NAME = re.compile(r"\b(?:up|(?:shardlog|kafka)_[a-z_]+)\b(?!\()")
BY = re.compile(r"by \(([^)]*)\)")
FUNCTIONS_OF_COUNTERS = re.compile(r"\b(?:increase|rate)\((\w+)")
FUNCTIONS_OF_GAUGES = re.compile(r"\bdelta\((\w+)")


class Rule(NamedTuple):
    alert: str
    expr: str

    @property
    def names(self):
        return set(NAME.findall(self.expr)) - {"up"}


def block():
    (block_text,) = re.findall(r"```yaml\ngroups:\n(.*?)```", DOC.read_text(), re.DOTALL)
    return block_text


def rules():
    """Return the rules as they stand in the document."""
    text = re.sub(r"\s+#.*", "", block())
    matches = re.findall(
        r"- alert: (\w+)\s+expr: >?(.*?)(?=\n\s+for:|\n\s+- alert:|\Z)", text, re.DOTALL
    )
    return [Rule(alert, " ".join(expr.split())) for alert, expr in matches]


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """What a worker that has everything answers."""
    with open_worker(tmp_path_factory.mktemp("worker")) as worker:
        totals = worker._state(0.0).totals
    shards = (PartitionState(AT, 7, 10, StreamStats(), unsealed=5),)
    bench = Bench(shards=shards, faults={AT: "damage"}, totals=totals)
    return samples(bench.ask("/metrics"))


@pytest.fixture(scope="module")
def labels_of(series):
    labels = {sample.name: set(sample.labels) for sample in series}
    # It appears once the end of a partition has moved, beside the lag in offsets.
    lag = "kafka_consumergroup_group_lag"
    return {**labels, f"{lag}_seconds": labels[lag]}


def test_each_rule_of_the_document_is_looked_at():
    assert len(rules()) == DOC.read_text().count("- alert: ") >= 10


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.alert)
def test_rule_asks_for_metrics_and_labels_that_there_are(rule, labels_of):
    assert rule.names
    assert rule.names <= set(labels_of)
    labels = {label.strip() for some in BY.findall(rule.expr) for label in some.split(",")}
    for name in rule.names:
        assert labels - OF_PROMETHEUS <= labels_of[name]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.alert)
def test_rule_asks_counters_how_much_they_rose_and_gauges_how_they_stand(rule):
    for name in FUNCTIONS_OF_COUNTERS.findall(rule.expr):
        assert name.endswith(("_total", "_bucket"))
    for name in FUNCTIONS_OF_GAUGES.findall(rule.expr):
        assert not name.endswith(("_total", "_bucket"))


def test_quantile_of_commits_can_be_told_from_its_bound(series):
    (rule,) = (one for one in rules() if one.alert == "ShardlogDiskSlow")
    bound_s = float(rule.expr.rpartition("> ")[2])
    bounds_s = [
        float(sample.labels["le"])
        for sample in series
        if sample.name == "shardlog_commit_seconds_bucket"
    ]
    # Of a quantile behind the last bound but infinity Prometheus says that bound.
    assert bound_s in bounds_s
    assert bound_s < bounds_s[-2]


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_rules_fire_over_the_series_that_they_are_for_and_over_no_others(tmp_path):
    (tmp_path / "rules.yml").write_text(f"groups:\n{block()}")
    shutil.copy(Path(__file__).with_name("alerts.yml"), tmp_path)
    ran = run([str(PROMTOOL), "test", "rules", "alerts.yml"], cwd=tmp_path, capture_output=True)  # noqa: PLW1510 - the code is compared
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_rule_is_tried_on_series():
    tried = Path(__file__).with_name("alerts.yml").read_text()
    assert {rule.alert for rule in rules()} == set(re.findall(r"alertname: (\w+)", tried))
