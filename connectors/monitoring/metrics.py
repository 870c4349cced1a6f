"""Which metrics a worker has. docs/METRICS.md has the tables.

The lag has the names of Kafka Lag Exporter, which dashboards know. What a stream counts is there
for each open shard under the name of its counter, so that a new counter is a new metric.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from connectors.dlq.record import REASON_WORDS
from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.worker_state import PartitionState, WorkerState
from connectors.kafka import Partition
from connectors.monitoring.lag_seconds import LagSeconds
from connectors.monitoring.lake_metrics import lake_families
from connectors.monitoring.metrics_text import Family, Sample, histogram, single
from storage_core import StreamStats

_GAUGES: Final = ("spacing", "index_queue", "dead_letters_waiting")
# What of a shard is no field of `StreamStats`, and follows from them.
_DERIVED: Final = ("dead_letters_waiting", "dead_letters_forwarded")
_OF_SHARDS: Final = {
    "records": "Rows stored in a shard.",
    "late_arrivals": "Rows of a shard that came late.",
    "jitter_absorbed": "Rows of a shard out of order, but within the jitter.",
    "expired": "Rows of a shard that had expired when they came.",
    "ahead": "Rows of a shard dated too far in the future.",
    "duplicates": "Rows that a shard had stored already.",
    "dead_letters": "Dead letters ever stored in a shard.",
    "skipped": "Offsets that Kafka no longer had when a shard came to them.",
    "index_entries": "Entries written to the index of a shard.",
    "index_dropped": "Entries not written to the index of a shard because its queue was full.",
    "scale_up": "Times the index of a shard became sparser.",
    "scale_down": "Times the index of a shard became denser.",
    "spacing": "Rows per entry of the index of a shard.",
    "index_queue": "Rows waiting for the index of a shard.",
    "dead_letters_cleared": "Dead letters that are no longer stored in a shard.",
    "dead_letters_dropped": "Of these, dead letters that were deleted for want of room.",
    "dead_letters_retried": "Of these, dead letters that were retried and are rows now.",
    "dead_letters_discarded": "Of these, dead letters that an operator discarded.",
    "dead_letters_waiting": "Dead letters stored in a shard now.",
    "dead_letters_forwarded": "Dead letters published to the dead-letter topic and cleared.",
}
_TOTALS: Final = {
    "fetched": "Records fetched from Kafka whose outcome is known.",
    "appended": "Records made durable as rows.",
    "late": "Rows that came late; part of appended.",
    "duplicates": "Records fetched again that were stored already.",
    "dead_letters": "Records stored as dead letters.",
    "discarded": "Records discarded before they were durable, to be fetched again.",
    "commit_rounds": "Commit rounds made durable.",
    "commit_rounds_dropped": "Commit rounds dropped before they were durable, to be fetched again.",
    "expired": "Rows deleted by expiry.",
    "sealed": "Rows written to Parquet parts by maintenance.",
    "compacted": "Rows of parts rewritten to merge small parts.",
    "maintenance_skipped": "Maintenance passes skipped because of lag or another process.",
    "maintenance_failed": "Failures of maintenance in a shard.",
    "part_builders_died": "Deaths of the process that builds parts.",
    "publishers_died": "Deaths of the process that publishes to the lake.",
    "dead_letters_forwarded": "Dead letters published to the dead-letter topic and cleared.",
    "dead_letters_dropped": "Oldest dead letters deleted at the limit of a shard.",
}


def families_of(state: WorkerState, group: str, cluster: str, lags: LagSeconds) -> Iterator[Family]:
    """Yield the metrics of a worker.

    Args:
        state: The worker's state.
        group: Its group.
        cluster: What the cluster is called.
        lags: Who knows how old an offset is.
    """
    for name, count in state.totals.items():
        yield single(f"shardlog_worker_{name}_total", "counter", _TOTALS[name], count)
    yield _dead_letters(state)
    gauges = {
        "open_partitions": ("Partitions whose shard is open.", len(state.shards)),
        "waiting_partitions": ("Partitions that wait for their shard.", state.waiting),
        "quarantined_partitions": ("Partitions that are quarantined.", state.quarantined),
        "paused_partitions": ("Partitions that are paused by an operator.", len(state.paused)),
        "broker_away": ("1 while the broker does not answer.", int(state.is_broker_away)),
    }
    for name, (help_, value) in gauges.items():
        yield single(f"shardlog_{name}", "gauge", help_, value)
    yield histogram(
        "shardlog_commit_seconds", "Time a commit round took to be durable.", state.commit_s
    )
    yield histogram(
        "shardlog_lateness_seconds",
        "Age of records by their timestamps when they became durable.",
        state.lateness_s,
    )
    yield _faults(state)
    yield Family(
        "shardlog_paused",
        "gauge",
        "1 for each partition that is paused by an operator.",
        tuple(
            Sample({"stream": partition.topic, "shard": str(partition.number)}, 1)
            for partition in sorted(state.paused)
        ),
    )
    yield from _of_shards(state)
    yield from lake_families(state)
    yield from _lags(state, group, cluster, lags)


def _dead_letters(state: WorkerState) -> Family:
    # From 0 on: a series that begins with what is to be seen shows no increase.
    streams = {shard.partition.topic for shard in state.shards}
    zeros = {(stream, word): 0 for stream in streams for word in REASON_WORDS}
    return Family(
        "shardlog_dead_letters_by_reason_total",
        "counter",
        "Records stored as dead letters by this process, by reason.",
        tuple(
            Sample({"stream": stream, "reason": word}, count)
            for (stream, word), count in sorted({**zeros, **state.dead_letters}.items())
        ),
    )


def _of_shards(state: WorkerState) -> Iterator[Family]:
    for name in (*(field.name for field in fields(StreamStats)), *_DERIVED):
        is_gauge = name in _GAUGES
        yield Family(
            f"shardlog_shard_{name}" + ("" if is_gauge else "_total"),
            "gauge" if is_gauge else "counter",
            _OF_SHARDS[name],
            tuple(Sample(_labels(shard), getattr(shard.stats, name)) for shard in state.shards),
        )
    yield Family(
        "shardlog_shard_unsealed",
        "gauge",
        "Offsets of a shard that are in no Parquet part yet.",
        tuple(
            Sample(_labels(shard), shard.unsealed)
            for shard in state.shards
            if shard.unsealed is not None  # No part is to be made of it.
        ),
    )


def _labels(shard: PartitionState) -> dict[str, str]:
    return {"stream": shard.partition.topic, "shard": str(shard.partition.number)}


def _faults(state: WorkerState) -> Family:
    return Family(
        "shardlog_quarantined",
        "gauge",
        "1 for each quarantined partition, by kind of fault; shard `all` is a whole topic.",
        tuple(
            Sample({"stream": partition.topic, "shard": _shard(partition), "kind": kind}, 1)
            for partition, kind in state.faults.items()
        ),
    )


def _shard(partition: Partition) -> str:
    return "all" if partition.number < 0 else str(partition.number)


def _lags(state: WorkerState, group: str, cluster: str, lags: LagSeconds) -> Iterator[Family]:
    held: list[PartitionState | UnfetchedPartition] = [*state.shards, *state.unfetched]
    lags.keep([partition.partition for partition in held])
    offsets, ends, stable, behind, ages = [], [], [], [], []
    for partition in held:
        topic, number = partition.partition
        of_topic = {"cluster_name": cluster, "topic": topic, "partition": str(number)}
        of_group = {**of_topic, "group": group}
        if partition.end is not None:
            ends.append(Sample(of_topic, partition.end))
        if partition.partition in state.stable_offsets:
            stable.append(Sample(of_topic, state.stable_offsets[partition.partition]))
        if partition.next is None:
            continue
        offsets.append(Sample(of_group, partition.next))
        if partition.end is None:
            continue
        behind.append(Sample(of_group, max(partition.end - partition.next, 0)))
        age_s = lags.age_s(partition.partition, partition.next, partition.end, state.taken_s)
        if age_s is not None:
            ages.append(Sample(of_group, age_s))
    families = {
        "kafka_consumergroup_group_offset": ("Next offset of the shard.", offsets),
        "kafka_partition_latest_offset": ("Log end offset of the partition.", ends),
        "kafka_partition_last_stable_offset": (
            "Where the first open transaction of the partition begins, or its log end offset.",
            stable,
        ),
        "kafka_consumergroup_group_lag": ("Log end offset minus next offset.", behind),
        "kafka_consumergroup_group_lag_seconds": (
            "Time since the log end offset was the next offset.",
            ages,
        ),
    }
    for name, (help_, samples) in families.items():
        yield Family(name, "gauge", help_, tuple(samples))
