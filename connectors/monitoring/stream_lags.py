"""How many records each stream lacks of its topic, as a worker knows it."""

from collections.abc import Mapping

from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.worker_state import PartitionState, WorkerState


def stream_lags(state: WorkerState) -> Mapping[str, int]:
    """Return the lag of each stream, summed over the partitions that the worker has.

    A stream of which the end of a partition is not known is left out.
    """
    lags: dict[str, int] = {}
    unknown: set[str] = set()
    partitions: list[PartitionState | UnfetchedPartition] = [*state.shards, *state.unfetched]
    for held in partitions:
        topic = held.partition.topic
        if held.end is None or held.next is None:
            unknown.add(topic)
        else:
            lags[topic] = lags.get(topic, 0) + max(held.end - held.next, 0)
    return {topic: lag for topic, lag in lags.items() if topic not in unknown}
