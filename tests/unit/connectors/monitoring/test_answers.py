"""What is answered: metrics that Prometheus parses, and health that follows the loop."""

import json
import threading
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from connectors.dlq.record import (
    REASON_WORDS,
    DeadLetter,
    encode_dead_letter,
    reason_word,
)
from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.histograms import Histogram
from connectors.ingest.status.worker_state import (
    LakeState,
    LatestState,
    PartitionState,
    WorkerState,
)
from connectors.kafka import Partition
from connectors.monitoring import answers
from connectors.monitoring.answers import Answers, WorkerInfo
from connectors.monitoring.lag_seconds import LagSeconds
from connectors.monitoring.served_state import ServedState
from storage_core import ShardLockedError, StreamStats
from storage_core.testing import ManualClock
from tests.unit.connectors.workers import open_worker
from tests.unit.connectors.writers import TOPIC
from tests.waiting import WAIT_MAX_S

AT = Partition('a "quoted\\ topic', 3)
SHARDS = (PartitionState(AT, 7, 10, StreamStats()),)
TOLD = WorkerInfo(
    version="1.2",
    fetches_by="native",
    group="g",
    cluster="c",
    stalled_after_s=60.0,
    settings={"linger_ms": 20},
)


def state(now_s=0.0, **more):
    counts = WorkerCounts()
    counts.commit_s.note(0.003)
    values = {
        "taken_s": now_s,
        "shards": (PartitionState(AT, 7, 10, StreamStats(records=2**53 + 1, spacing=64)),),
        "waiting": 0,
        "quarantined": 0,
        "has_joined": True,
        "is_broker_away": False,
        "totals": {**counts.totals, "commit_rounds_dropped": 1},
        "dead_letters": {("t", "key"): 5},
        "commit_s": counts.commit_s,
        "lateness_s": counts.lateness_s,
    }
    return WorkerState(**{**values, **more})


class Bench:
    """Answers about a worker whose thread is looked at by hand."""

    def __init__(self, **more):
        self.clock = ManualClock()
        self.latest_state = LatestState(lambda now_s: state(now_s, **more), self.clock)
        self.answers = Answers(TOLD, self.latest_state)

    def ask(self, path):
        """Ask, while the worker's thread goes on."""
        is_over = threading.Event()

        def go_on():
            while not is_over.wait(0.001):
                self.latest_state.answer(self.clock.monotonic_s())

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(answers, "_ANSWER_WITHIN_S", WAIT_MAX_S)
                return self.answers.of(path)
        finally:
            is_over.set()
            thread.join()


def samples(answer):
    families = text_string_to_metric_families(answer.body.decode())
    return [sample for family in families for sample in family.samples]


def test_every_counter_of_a_shard_is_a_metric():
    series = {each.name: each for each in samples(Bench().ask("/metrics"))}
    for field in fields(StreamStats):
        name = f"shardlog_shard_{field.name}"
        sample = series.get(name) or series[f"{name}_total"]
        assert sample.labels == {"stream": AT.topic, "shard": "3"}
    assert series["kafka_consumergroup_group_lag"].value == 3


def test_what_is_in_no_part_yet_is_a_gauge_of_shards_that_are_sealed():
    stats = StreamStats()
    shards = (
        PartitionState(AT, 7, 10, stats, unsealed=5),
        PartitionState(Partition(AT.topic, 4), 7, 10, stats, unsealed=None),
    )
    series = samples(Bench(shards=shards).ask("/metrics"))
    unsealed = [sample for sample in series if sample.name == "shardlog_shard_unsealed"]
    assert [(sample.labels["shard"], sample.value) for sample in unsealed] == [("3", 5)]


def test_lake_has_no_address_until_somebody_has_said_it():
    lakes = (LakeState(AT, None, 3, 1.5), LakeState(Partition(AT.topic, 4), 7, 0, 0.0, True))
    series = samples(Bench(lakes=lakes).ask("/metrics"))
    figures = {
        (sample.name.removeprefix("shardlog_lake_"), sample.labels["shard"]): sample.value
        for sample in series
        if sample.name.startswith("shardlog_lake_")
    }
    assert figures == {
        ("published_address", "4"): 7,
        ("unpublished_rows", "3"): 3,
        ("unpublished_rows", "4"): 0,
        ("unpublished_age_seconds", "3"): 1.5,
        ("unpublished_age_seconds", "4"): 0,
        ("other_owner", "3"): 0,
        ("other_owner", "4"): 1,
    }


def test_last_stable_offset_stands_beside_the_end_where_it_is_known():
    series = {each.name: each for each in samples(Bench(stable_offsets={AT: 8}).ask("/metrics"))}
    end, stable = (series[f"kafka_partition_{name}_offset"] for name in ("latest", "last_stable"))
    assert (end.value, stable.value, stable.labels) == (10, 8, end.labels)
    unknown = {each.name for each in samples(Bench().ask("/metrics"))}
    assert "kafka_partition_last_stable_offset" not in unknown


@pytest.mark.parametrize("outcome", ["retried", "discarded", "dropped", "forwarded"])
def test_dead_letters_are_counted_by_partition_and_by_what_became_of_them(outcome):
    outcomes = {"retried": 3, "discarded": 4, "dropped": 2}
    counts = {f"dead_letters_{name}": count for name, count in outcomes.items()}
    stats = StreamStats(dead_letters=20, dead_letters_cleared=14, **counts)
    shards = (PartitionState(AT, 7, 10, stats),)
    series = {each.name: each for each in samples(Bench(shards=shards).ask("/metrics"))}
    sample = series[f"shardlog_shard_dead_letters_{outcome}_total"]
    assert sample.labels == {"stream": AT.topic, "shard": "3"}
    assert sample.value == {**outcomes, "forwarded": 5}[outcome]
    assert series["shardlog_shard_dead_letters_waiting"].value == 6


def test_numbers_keep_all_their_digits():
    assert str(2**53 + 1).encode() in Bench().ask("/metrics").body


def test_worker_that_was_never_heard_of_still_has_metrics():
    bench = Bench()
    bench.clock.advance(5)
    series = {each.name: each.value for each in samples(bench.answers.of("/metrics"))}
    assert series["shardlog_loop_silent_seconds"] == 5
    assert "shardlog_commit_seconds_count" not in series


@pytest.mark.parametrize("is_running", [True, False])
def test_server_beside_the_worker_is_told_of_and_keeps_no_worker_from_being_ready(is_running):
    bench = Bench()
    served = ServedState("127.0.0.1:8085", is_running, 3, 7)
    bench.answers = Answers(replace(TOLD, served=lambda: served), bench.latest_state)
    answer = bench.ask("/health/ready")
    document = json.loads(answer.body)["server"]
    assert answer.status == 200
    assert document == {"address": "127.0.0.1:8085", "running": is_running, "restarts": 3}
    text = bench.ask("/metrics").body.decode()
    values = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
    assert values["shardlog_worker_server_up"] == is_running
    assert values["shardlog_worker_server_restarts_total"] == 3


def test_silent_loop_is_not_alive():
    bench = Bench()
    bench.clock.advance(60)
    assert bench.answers.of("/health/live").status == 200
    bench.clock.advance(1)
    assert bench.answers.of("/health/live").status == 503
    bench.latest_state.alive()
    assert bench.answers.of("/health/live").status == 200


@pytest.mark.parametrize(
    ("more", "status"),
    [({}, 200), ({"waiting": 1}, 503), ({"quarantined": 1}, 503), ({"has_joined": False}, 503)],
)
def test_ready_is_who_has_all_shards_open(more, status):
    assert Bench(**more).ask("/health/ready").status == status


def test_worker_that_stops_is_not_ready_but_alive():
    bench = Bench()
    bench.latest_state.is_over = True
    assert bench.answers.of("/health/ready").status == 503
    assert bench.answers.of("/health/live").status == 200


def test_worker_that_opens_shards_is_not_ready_whatever_was_known_before():
    bench = Bench()
    assert bench.ask("/health/ready").status == 200
    with bench.latest_state.opening():
        answer = bench.answers.of("/health/ready")
    assert (answer.status, json.loads(answer.body)["reason"]) == (503, "shards are being opened")
    assert bench.ask("/health/ready").status == 200


class SlowOpening:
    """Takes 50 s for a shard, then does not have it; remembers how silent the worker was."""

    def __init__(self, worker):
        self.worker, self.silent_s = worker, []

    def ask(self, partitions, *, is_anew=False):
        """Ask nobody."""

    def open(self, partition):
        self.worker._clock.advance(50)
        self.silent_s.append(self.worker.latest_state.silent_s)
        assert self.worker.latest_state.is_opening
        raise ShardLockedError(partition.topic)


def test_worker_that_opens_many_shards_is_alive_meanwhile(tmp_path, monkeypatch):
    with open_worker(tmp_path) as worker:
        opening = SlowOpening(worker)
        monkeypatch.setattr(worker._assignment, "_opening", opening)
        worker._rebalance.assigned([Partition(TOPIC, number) for number in range(2, 12)])
        assert not worker.latest_state.is_opening
    assert opening.silent_s == [50.0] * 10


def test_settings_and_version_are_told():
    assert json.loads(Bench().answers.of("/config").body) == {"linger_ms": 20}
    assert json.loads(Bench().answers.of("/version").body)["version"] == "1.2"
    assert Bench().answers.of("/").status == 404


def test_picture_is_of_the_worker_as_it_stands(tmp_path):
    with open_worker(tmp_path) as worker:
        taken = worker._state(3.0)
    assert [each.partition.number for each in taken.shards] == [0, 1]
    assert (taken.taken_s, taken.has_joined, taken.shards[0].end) == (3.0, False, None)


def test_histogram_counts_many_as_it_counts_each():
    chance = np.random.default_rng(5)
    one_by_one, at_once = (Histogram((-1.0, 0.0, 0.5, 2.0)) for _ in range(2))
    for size in [0, 1, 3, 50] * 50:
        values = chance.choice([-2.0, -1.0, 0.0, 0.25, 0.5, 3.0], size) * float(
            chance.integers(0, 2)
        )
        at_once.note_many(values)
        for value in values.tolist():
            one_by_one.note(value)
    assert one_by_one.counts == at_once.counts
    assert one_by_one.sum == at_once.sum


def test_sum_of_lateness_never_falls():
    counts = WorkerCounts()
    counts.note_lateness([pa.array([1000, 4000, 2**63 - 1, -1])], 3000)
    assert counts.lateness_s.sum == 2.0
    assert (sum(counts.lateness_s.counts), counts.lateness_s.counts[0]) == (3, 2)


def test_lag_in_seconds_is_the_age_of_the_end():
    look = partial(LagSeconds().age_s, AT)
    assert look(50, 100, 10.0) is None
    # The end moves by 10 a second: at 50 it stood five seconds before it was first seen.
    assert look(50, 200, 20.0) == 15.0
    assert look(150, 200, 30.0) == 15.0
    assert look(200, 200, 40.0) == 0.0


def test_lag_of_a_topic_that_stands_still_grows():
    look = partial(LagSeconds().age_s, AT)
    look(100, 100, 0.0)
    ages = [look(100, 101, float(now_s)) for now_s in range(10, 400, 10)]
    assert ages[0] == 10.0
    assert ages[-1] == 390.0


def test_log_that_was_cut_is_looked_at_anew():
    look = partial(LagSeconds().age_s, AT)
    look(100, 100, 0.0)
    assert look(5, 10, 10.0) is None


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("value of 9 bytes; payload_bytes_max is 4", "size"),
        ("a header's name is not UTF-8", "headers"),
        ("no timestamp, and the primary comes from it", "mapping"),
        ("no key, and null_key is dead-letter", "key"),
        ("key of 6 bytes; an integer key has 4", "key"),
        ("something else", "other"),
    ],
)
def test_reason_of_a_dead_letter_has_a_word(reason, word):
    letter = DeadLetter(reason, "t", 0, 1, 2, 0, b"key of ", b"x" * 100_000, None)
    assert reason_word(encode_dead_letter(letter)) == word


def test_partition_that_is_set_aside_has_a_series_with_its_fault_and_its_lag():
    other, whole = Partition(AT.topic, 4), Partition("gone", -1)
    more = {
        "unfetched": (
            UnfetchedPartition(other, 500, 2000),
            UnfetchedPartition(Partition("x", 0), 1, None),
        ),
        "faults": {other: "damage", whole: "foreign"},
        "quarantined": 2,
    }
    series = samples(Bench(**more).ask("/metrics"))
    faults = [sample.labels for sample in series if sample.name == "shardlog_quarantined"]
    assert faults == [
        {"stream": AT.topic, "shard": "4", "kind": "damage"},
        {"stream": "gone", "shard": "all", "kind": "foreign"},
    ]
    lags = {
        (sample.labels["topic"], sample.labels["partition"]): sample.value
        for sample in series
        if sample.name == "kafka_consumergroup_group_lag"
    }
    assert lags == {(AT.topic, "3"): 3, (AT.topic, "4"): 1500}


def test_dead_letters_that_wait_were_forwarded_or_dropped_are_three_figures():
    stats = StreamStats(dead_letters=10, dead_letters_cleared=7, dead_letters_dropped=2)
    series = samples(Bench(shards=(PartitionState(AT, 7, 10, stats),)).ask("/metrics"))
    body = {
        sample.name.removeprefix("shardlog_shard_dead_letters_"): sample.value for sample in series
    }
    assert (body["waiting"], body["forwarded_total"], body["dropped_total"]) == (3, 5, 2)


@pytest.mark.parametrize(("shards", "status"), [((), 503), (SHARDS, 200)])
def test_worker_of_topics_that_are_gone_is_not_ready_once_it_holds_nothing(shards, status):
    bench = Bench(shards=shards, has_no_topic=True)
    assert bench.ask("/health/ready").status == status


def test_worker_that_lost_its_partitions_is_ready_again_once_it_is_given_some(tmp_path):
    with open_worker(tmp_path) as worker:
        worker._rebalance.has_joined = True
        worker._rebalance.lost(list(worker._assignment.writers))
        assert not worker._state(0.0).has_joined
        worker._rebalance.assigned([])
        assert worker._state(0.0).has_joined


def test_worker_that_lost_the_partitions_of_topics_that_are_gone_says_what_is_wrong():
    lost = {"shards": (), "has_joined": False, "quarantined": 1, "has_no_topic": True}
    answer = Bench(**lost).ask("/health/ready")
    body = json.loads(answer.body)
    assert answer.status == 503
    assert (body["reason"], body["quarantined"]) == ("none of the topics exists", 1)


def test_dead_letters_of_a_stream_are_counted_from_0_on_for_every_reason():
    series = samples(Bench().ask("/metrics"))
    counts = {
        (sample.labels["stream"], sample.labels["reason"]): sample.value
        for sample in series
        if sample.name == "shardlog_dead_letters_by_reason_total"
    }
    assert counts.pop(("t", "key")) == 5
    assert counts == {(AT.topic, word): 0 for word in REASON_WORDS}
