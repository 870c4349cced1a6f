"""docs/METRICS.md has each metric of a worker with kind and labels, and no other."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connectors.group.pauses import Pause
from connectors.ingest.status.worker_state import LakeCounts, LakeState, PartitionState
from connectors.monitoring.answers import Answers
from connectors.monitoring.served_state import ServedState
from storage_core import StreamStats
from tests.tidy.documents.tables import bare_name, page, rows_below
from tests.unit.connectors.monitoring.test_answers import AT, TOLD, Bench
from tests.unit.connectors.workers import open_worker

Metrics = dict[str, tuple[str, set[str]]]
# A label of each histogram.
BOUND = "le"


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """What a worker that has everything answers: kind and labels by name."""
    root: Path = tmp_path_factory.mktemp("worker")
    with open_worker(root) as worker:
        totals = worker._state(0.0).totals
    bench = Bench(
        # The second reading of the end says how old the first is.
        shards=(PartitionState(AT, 10, 10, StreamStats(), unsealed=5),),
        stable_offsets={AT: 9},
        faults={AT: "damage"},
        paused={AT: Pause(AT.topic, AT.number, 0, "")},
        lakes=(LakeState(AT, 7, 3, 1.5),),
        lake_counts={AT.topic: LakeCounts(7, 700, 1)},
        retention_s={AT.topic: 60.0},
        totals=totals,
    )
    server = ServedState("127.0.0.1:8085", is_running=True, restarts=0, pid=1)
    info = replace(TOLD, root=root, served=lambda: server)
    bench.answers = Answers(info, bench.latest_state)
    families = text_string_to_metric_families(bench.ask("/metrics").body.decode())
    metrics: Metrics = {}
    for family in families:
        labels = {label for sample in family.samples for label in sample.labels} - {BOUND}
        assert family.samples, family.name
        name = f"{family.name}_total" if family.type == "counter" else family.name
        metrics[name] = (family.type, labels)
    return metrics


def documented() -> Metrics:
    return {
        bare_name(name): (kind, {bare_name(each.strip()) for each in labels.split(",") if each})
        for name, kind, labels, _ in rows_below("metric", page("METRICS.md"))
    }


def test_metrics_of_a_worker_are_those_of_the_document(answered: Metrics) -> None:
    assert len(answered) > 50
    assert set(answered) - set(documented()) == set()
    assert set(documented()) - set(answered) == set()


def test_kinds_and_labels_are_those_of_the_document(answered: Metrics) -> None:
    assert documented() == answered
