"""`shardlog read --null-key`: records that came without a key, and no others."""

import pytest

from connectors.kafka import Partition
from storage_core import Stream
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.writers import TOPIC, open_writers


@pytest.fixture
def root(tmp_path):
    """A topic with two records without a key, and one whose key is the number of their id."""
    came = [
        record(0, key=None, value=b"a"),
        record(1, key=b"\xff" * 4, value=b"b"),
        record(2, value=b"c"),
        record(3, key=None, value=b"d"),
    ]
    ((_, records),) = shard_records(came)
    with open_writers(tmp_path, 1) as feeds:
        feeds[Partition(TOPIC, 0)].append(records, records.end)
    Stream.create(tmp_path, "plain").close()
    return tmp_path


@pytest.mark.parametrize(
    ("options", "payloads"),
    [([], ["a", "d"]), (["--limit=1"], ["a"]), (["--start=1001"], ["d"])],
)
def test_records_without_a_key_are_read_and_no_others(shardlog, root, options, payloads):
    ran = shardlog(
        "read", root, TOPIC, "--null-key", "--columns=payload", "--format=json", *options
    )
    assert [row["payload"] for row in ran.json_lines] == payloads
    assert [list(row) for row in ran.json_lines] == [["payload"]] * len(payloads)


@pytest.mark.parametrize("other", ["--id=7", "--latest", "--latest-by=key"])
def test_it_goes_with_no_other_choice_of_ids(shardlog, root, other):
    ran = shardlog("read", root, TOPIC, "--null-key", other)
    assert (ran.code, ran.out) == (2, "")
    assert "--null-key" in ran.err
