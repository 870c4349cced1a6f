"""Retry shards beside the partitions of a topic: what they take of a stream's caps."""

import pyarrow as pa
import pytest

from connectors.group.retry_shards import partition_of, retry_shard_of
from storage_core import Stream, StreamOptions, StreamOrigin
from tests.unit.connectors.writers import TOPIC

ROWS = 12


def store(root, shards, **caps):
    """Store rows in each of some shards of a stream with these caps, and let them expire."""
    origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
    Stream.create(root, TOPIC, StreamOptions(unit="ms", **caps), origin=origin).close()
    Stream.add_shards(root, TOPIC, dict.fromkeys(shards, 0))
    rows = pa.table(
        {"primary": range(ROWS), "secondary": [1] * ROWS, "payload": [bytes(1000)] * ROWS}
    )
    with Stream.open(root, TOPIC) as stream:
        for shard in shards:
            for address in range(ROWS):
                stream.append_batch(rows.slice(address, 1), shard=shard, addresses=[address])
                stream.commit()
        stream.expire(ROWS)
        return {shard: sum(rows.num_rows for rows in stream.tail(shard)) for shard in shards}


@pytest.mark.parametrize("caps", [{"records_max": 15}, {"bytes_max": 15 * 1300}])
def test_retry_shards_take_nothing_of_what_a_partition_may_keep(tmp_path, caps):
    partitions = [0, 1, 2]
    alone = store(tmp_path / "alone", partitions, **caps)
    retried = [retry_shard_of(0), retry_shard_of(2)]
    beside = store(tmp_path / "beside", [*partitions, *retried], **caps)
    assert 0 < alone[0] < ROWS
    assert {shard: beside[shard] for shard in partitions} == alone
    # Each has the share of its partition, too.
    assert [beside[shard] for shard in retried] == [alone[0], alone[2]]


@pytest.mark.parametrize("partition", [0, 3, 999_999])
def test_retry_shard_is_told_from_partitions(partition):
    assert partition_of(retry_shard_of(partition)) == partition
    assert partition_of(partition) is None
