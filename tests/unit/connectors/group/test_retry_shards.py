"""Retry shards beside the partitions of a topic: what they take of a stream's caps."""

import pyarrow as pa
import pytest

from connectors.group.retry_shards import finish_retry, partition_of, retry_shard_of, source_of
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


def keep_dead_letter(stream, offset):
    none = pa.table({"primary": [1], "secondary": [1], "payload": [b"x"]}).slice(0, 0)
    stream.append_batch(none, shard=0, addresses=[], dead_letters={offset: b"raw"})
    stream.commit()


def test_dead_letter_of_a_log_that_began_since_is_not_one_that_was_retried(tmp_path):
    """It may have the offset of one that was: the log was archived, the retry shard was not."""
    retrying = retry_shard_of(0)
    origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
    Stream.create(tmp_path, TOPIC, StreamOptions(), origin=origin).close()
    Stream.add_shards(tmp_path, TOPIC, {0: 0, retrying: 0})
    row = pa.table({"primary": [1], "secondary": [1], "payload": [b"x"]})
    with Stream.open(tmp_path, TOPIC) as stream:
        keep_dead_letter(stream, 5)
        source = source_of(stream, 0, [5])
        stream.append_batch(row, shard=retrying, addresses=[0], source=source)
        stream.commit()
    Stream.archive_shards(tmp_path, TOPIC, {0: 0})
    with Stream.open(tmp_path, TOPIC) as stream:
        keep_dead_letter(stream, 5)
        assert finish_retry(stream, 0) == 0
        assert [offset for offset, _ in stream.dead_letters(0)] == [5]
