"""The lag of streams, as a worker knows it."""

from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.worker_state import PartitionState
from connectors.kafka import Partition
from connectors.monitoring.stream_lags import stream_lags
from storage_core import StreamStats
from tests.unit.connectors.monitoring.test_answers import state


def fetched(topic: str, number: int, next_: int, end: int | None) -> PartitionState:
    return PartitionState(Partition(topic, number), next_, end, StreamStats())


def test_lag_of_a_stream_is_that_of_its_partitions_fetched_and_held() -> None:
    of_worker = state(
        shards=(fetched("a", 0, 7, 10), fetched("a", 1, 9, 8), fetched("b", 0, 5, 5)),
        unfetched=(UnfetchedPartition(Partition("a", 2), 1, 5),),
    )
    assert stream_lags(of_worker) == {"a": 7, "b": 0}


def test_stream_with_a_partition_of_unknown_end_has_no_lag() -> None:
    of_worker = state(
        shards=(fetched("a", 0, 7, 10), fetched("a", 1, 0, None), fetched("b", 0, 5, 6)),
        unfetched=(UnfetchedPartition(Partition("c", 0), None, 5),),
    )
    assert stream_lags(of_worker) == {"b": 1}
