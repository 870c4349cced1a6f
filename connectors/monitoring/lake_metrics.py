"""Which metrics the lake has: of each shard of a stream that is published, and of each stream."""

from collections.abc import Iterator, Mapping

from connectors.ingest.status.worker_state import LakeState, WorkerState
from connectors.monitoring.metrics_text import Family, Sample


def lake_families(state: WorkerState) -> Iterator[Family]:
    """Yield the metrics of what is published."""
    yield Family(
        "shardlog_lake_published_address",
        "gauge",
        "Address below which the lake has a shard's rows.",
        tuple(
            Sample(_labels(lake), lake.published)
            for lake in state.lakes
            if lake.published is not None
        ),
    )
    yield Family(
        "shardlog_lake_unpublished_rows",
        "gauge",
        "Committed addresses of a shard that the lake does not have yet.",
        tuple(Sample(_labels(lake), lake.unpublished) for lake in state.lakes),
    )
    yield Family(
        "shardlog_lake_unpublished_age_seconds",
        "gauge",
        "Time since the oldest row of a shard that the lake does not have was committed.",
        tuple(Sample(_labels(lake), lake.age_s) for lake in state.lakes),
    )
    yield Family(
        "shardlog_lake_other_owner",
        "gauge",
        "Whether another log publishes a shard, so that this one may not.",
        tuple(Sample(_labels(lake), int(lake.has_other_owner)) for lake in state.lakes),
    )
    counts = state.lake_counts
    yield _counter(
        "published_rows", "Rows published.", {name: of.rows for name, of in counts.items()}
    )
    yield _counter(
        "published_bytes",
        "Bytes of the files that were published.",
        {name: of.bytes for name, of in counts.items()},
    )
    yield _counter(
        "publish_failures",
        "Failures to publish.",
        {name: of.failures for name, of in counts.items()},
    )
    yield _counter(
        "begun_shards",
        "Shards that began from the lake.",
        {name: of.begun_shards for name, of in counts.items()},
    )
    yield Family(
        "shardlog_topic_retention_seconds",
        "gauge",
        "Time for which Kafka keeps the records of a stream that has a lake.",
        tuple(Sample({"stream": name}, span) for name, span in state.retention_s.items()),
    )


def _counter(name: str, help_: str, of_streams: Mapping[str, int]) -> Family:
    samples = tuple(Sample({"stream": stream}, count) for stream, count in of_streams.items())
    return Family(f"shardlog_lake_{name}_total", "counter", help_, samples)


def _labels(lake: LakeState) -> dict[str, str]:
    return {"stream": lake.shard.topic, "shard": str(lake.shard.number)}
