"""The rules for alerts in deploy/ ask for what a worker's metrics have.

Kinds and bounds are compared with what `/metrics` answers; tests/deploy/ has each rule fire.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from ruamel.yaml import YAML

from connectors.ingest.status.worker_state import PartitionState
from storage_core import StreamStats
from tests.unit.connectors.monitoring.test_answers import AT, Bench, samples
from tests.unit.connectors.workers import open_worker

RULES = Path(__file__).parents[4] / "deploy" / "prometheus" / "shardlog-rules.yml"
FUNCTIONS_OF_COUNTERS = re.compile(r"\b(?:increase|rate)\((\w+)")
FUNCTIONS_OF_GAUGES = re.compile(r"\bdelta\((\w+)")


class Rule(NamedTuple):
    alert: str
    expr: str


def rules():
    """Return the rules of all groups."""
    groups = YAML(typ="safe").load(RULES.read_text())["groups"]
    return [
        Rule(rule["alert"], " ".join(rule["expr"].split()))
        for group in groups
        for rule in group["rules"]
    ]


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """What a worker that has everything answers."""
    with open_worker(tmp_path_factory.mktemp("worker")) as worker:
        totals = worker._state(0.0).totals
    shards = (PartitionState(AT, 7, 10, StreamStats(), unsealed=5),)
    bench = Bench(shards=shards, faults={AT: "damage"}, totals=totals)
    return samples(bench.ask("/metrics"))


def test_each_rule_is_looked_at():
    assert len(rules()) == RULES.read_text().count("- alert: ") >= 10


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
