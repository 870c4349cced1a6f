"""Which metrics a worker has. docs/OPERATIONS.md has the table.

The lag bears the names of Kafka Lag Exporter, which dashboards know. What a stream counts is there
for each owned shard under the name of its `StreamStats`, so that a new counter is a new metric.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final, Literal

from connectors.dlq.record import REASON_WORDS
from connectors.ingest.assignment.unfetched import Unfetched
from connectors.ingest.status.worker_state import ShardStanding, WorkerStanding
from connectors.kafka import Partition
from connectors.monitoring.lag_seconds import LagSeconds
from connectors.monitoring.metrics_text import Family, Sample, histogram, single
from storage_core import StreamStats

_GAUGES: Final = ("spacing", "index_queue")
# What of a shard is no field of `StreamStats`, and follows from them.
_DEAD_LETTERS: Final[tuple[tuple[str, Literal["counter", "gauge"], str], ...]] = (
    ("dead_letters_waiting", "gauge", "Dead letters that a shard keeps."),
    ("dead_letters_forwarded", "counter", "Dead letters that were published, and are not kept."),
)
_TOTALS: Final = {
    "consumed": "Records from Kafka of which it is known what became.",
    "appended": "Records made durable.",
    "late": "Of those, records that came late.",
    "duplicates": "Records that were stored already.",
    "dead_letters": "Records kept raw.",
    "let_go": "Records dropped before they were known to be durable; they are fetched again.",
    "rounds": "Rounds made durable.",
    "expired": "Rows that expiry took.",
    "sealed": "Rows that maintenance made parts of.",
    "compacted": "Rows of parts that compaction merged.",
    "maintenance_skipped": "Turns of maintenance left out, for lag or another process.",
    "maintenance_failed": "How often a step of maintenance failed in a shard.",
    "builders_died": "How often the process that builds parts died.",
    "letters_forwarded": "Dead letters that were published, and let go.",
    "letters_dropped": "Dead letters that went since there were too many.",
    "dropped_rounds": "Rounds dropped before they were durable.",
}


def families_of(
    standing: WorkerStanding, group: str, cluster: str, lags: LagSeconds
) -> Iterator[Family]:
    """Yield what is told of a worker.

    Args:
        standing: How it stands.
        group: Its group.
        cluster: What the cluster is called.
        lags: Who knows how old an offset is.
    """
    for name, count in standing.totals.items():
        yield single(f"shardlog_worker_{name}_total", "counter", _TOTALS[name], count)
    yield _dead_letters(standing)
    gauges = {
        "owned_shards": ("Shards that are open.", len(standing.shards)),
        "waiting_shards": ("Partitions that wait for their shard.", standing.waiting),
        "set_aside_shards": ("Partitions that are set aside.", standing.set_aside),
        "broker_away": ("1 while the broker does not answer.", int(standing.is_broker_away)),
    }
    for name, (help_, value) in gauges.items():
        yield single(f"shardlog_{name}", "gauge", help_, value)
    yield histogram(
        "shardlog_commit_seconds", "How long rounds took to be durable.", standing.commit_s
    )
    yield histogram(
        "shardlog_lateness_seconds",
        "How long after their timestamps records were durable.",
        standing.lateness_s,
    )
    yield _faults(standing)
    yield from _of_shards(standing)
    yield from _lags(standing, group, cluster, lags)


def _dead_letters(standing: WorkerStanding) -> Family:
    # From 0 on: a series that begins with what is to be seen shows no increase.
    streams = {each.partition.topic for each in standing.shards}
    none = {(stream, word): 0 for stream in streams for word in REASON_WORDS}
    return Family(
        "shardlog_dead_letters_by_reason_total",
        "counter",
        "Records kept raw by this process, by why they were refused.",
        tuple(
            Sample({"stream": stream, "reason": word}, count)
            for (stream, word), count in sorted({**none, **standing.dead_letters}.items())
        ),
    )


def _of_shards(standing: WorkerStanding) -> Iterator[Family]:
    for field in fields(StreamStats):
        is_gauge = field.name in _GAUGES
        name = f"shardlog_shard_{field.name}" + ("" if is_gauge else "_total")
        yield Family(
            name,
            "gauge" if is_gauge else "counter",
            f"StreamStats.{field.name} of a shard, since its birth.",
            tuple(
                Sample(_where(each), getattr(each.stats, field.name)) for each in standing.shards
            ),
        )
    for name, kind, help_ in _DEAD_LETTERS:
        yield Family(
            f"shardlog_shard_{name}" + ("" if kind == "gauge" else "_total"),
            kind,
            help_,
            tuple(Sample(_where(each), getattr(each.stats, name)) for each in standing.shards),
        )
    yield Family(
        "shardlog_shard_unsealed",
        "gauge",
        "Offsets of a shard that are in no part yet.",
        tuple(
            Sample(_where(each), each.unsealed)
            for each in standing.shards
            if each.unsealed is not None
        ),
    )


def _where(shard: ShardStanding) -> dict[str, str]:
    return {"stream": shard.partition.topic, "shard": str(shard.partition.number)}


def _faults(standing: WorkerStanding) -> Family:
    return Family(
        "shardlog_set_aside",
        "gauge",
        "1 for each partition that is set aside, and why; shard `all` is a whole topic.",
        tuple(
            Sample({"stream": at.topic, "shard": _shard(at), "kind": kind}, 1)
            for at, kind in standing.faults.items()
        ),
    )


def _shard(at: Partition) -> str:
    return "all" if at.number < 0 else str(at.number)


def _lags(standing: WorkerStanding, group: str, cluster: str, lags: LagSeconds) -> Iterator[Family]:
    held: list[ShardStanding | Unfetched] = [*standing.shards, *standing.unfetched]
    lags.keep([each.partition for each in held])
    offsets, ends, behind, ages = [], [], [], []
    for each in held:
        topic, number = each.partition
        of_topic = {"cluster_name": cluster, "topic": topic, "partition": str(number)}
        of_group = {**of_topic, "group": group}
        if each.end is not None:
            ends.append(Sample(of_topic, each.end))
        if each.next is None:
            continue
        offsets.append(Sample(of_group, each.next))
        if each.end is None:
            continue
        behind.append(Sample(of_group, max(each.end - each.next, 0)))
        age_s = lags.look(each.partition, each.next, each.end, standing.taken_s)
        if age_s is not None:
            ages.append(Sample(of_group, age_s))
    told = {
        "kafka_consumergroup_group_offset": ("The offset that a shard goes on at.", offsets),
        "kafka_partition_latest_offset": ("The end of a partition.", ends),
        "kafka_consumergroup_group_lag": ("Offsets from there to the partition's end.", behind),
        "kafka_consumergroup_group_lag_seconds": ("How long ago the partition ended there.", ages),
    }
    for name, (help_, samples) in told.items():
        yield Family(name, "gauge", help_, tuple(samples))
