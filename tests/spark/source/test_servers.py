"""Spark over a server: no task reads a file, and rows are those of the path."""

from contextlib import ExitStack

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from tests.log.served import served
from tests.spark.support.lab import first_line, sources
from tests.unit.streaming_jobs.source.source_lab import SourceLab

EARLY = {"startingOffsets": "earliest"}


@pytest.fixture
def by_server(full):
    """Ten rows in two shards, named by a server."""
    with served(full.log.root) as address:
        full.log.servers = address.removeprefix("shardlog://")
        yield full


def test_batch_reads_what_a_path_has(by_server):
    columns = ["value", "partition", "offset", "primary", "late"]
    rows = by_server.read(columns=",".join(columns)).sort("partition", "offset").collect()
    by_server.log.servers = None
    assert rows == by_server.read(columns=",".join(columns)).sort("partition", "offset").collect()
    assert len(rows) == 10


def test_query_takes_each_row_once_over_a_restart_and_another_door(by_server):
    query = by_server.run(maxOffsetsPerTrigger=4, **EARLY)
    assert [report["numInputRows"] for report in sources(query)][:2] == [4, 4]
    by_server.log.append(5, first=10)
    by_server.run(**EARLY)
    by_server.log.append(5, first=15)
    # The offsets of a checkpoint name the stream, not the way to it.
    by_server.log.servers = None
    by_server.run(**EARLY)
    assert by_server.all_seen == list(range(20))


@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_server_that_asks_for_a_token_is_told_where_to_name_it(full, tmp_path, is_stream):
    tokens = tmp_path / "tokens"
    tokens.write_text("sixteen-letters-and-more\n")
    with served(full.log.root, read_tokens=tokens) as address:
        full.log.servers = address.removeprefix("shardlog://")
        with pytest.raises(AnalysisException) as raised:
            full.run() if is_stream else full.read()
    assert "this server asks for a token" in first_line(raised.value)
    assert "set SHARDLOG_SERVER_TOKEN_FILE to a file with a token" in first_line(raised.value)


def test_two_roots_in_one_source_are_refused(by_server):
    with pytest.raises(AnalysisException) as raised:
        by_server.read(path=str(by_server.log.root))
    assert "options path and server name two roots" in first_line(raised.value)


def test_checkpoint_of_another_stream_is_refused(by_server):
    by_server.run(**EARLY)
    other = SourceLab(by_server.log.root, "other")
    other.create(shards=2)
    other.close()
    said = by_server.fails(stream="other", **EARLY).splitlines()[0]
    assert "the checkpoint is of ['events'], not of stream 'other'" in said


def test_server_that_is_gone_is_told_in_one_line_with_its_address(by_server):
    by_server.log.servers = "127.0.0.1:9"
    with pytest.raises(AnalysisException) as raised:
        by_server.read()
    assert "cannot connect to 127.0.0.1:9: connection refused" in first_line(raised.value)


def test_query_follows_a_partition_to_another_root(lab, tmp_path):
    # Each worker has a root of its own; the second begins below where the first one ended.
    a, b = SourceLab(tmp_path / "a"), SourceLab(tmp_path / "b")
    with ExitStack() as stack:
        addresses = []
        for root, born in ((a, 0), (b, 3)):
            root.create_topic({0: born})
            stack.callback(root.close)
            addresses.append(stack.enter_context(served(root.root)).removeprefix("shardlog://"))
        lab.log.servers = ",".join(addresses)
        a.put(0, range(5), payload=pa.array([b"%d" % at for at in range(5)]))
        lab.run(**EARLY)
        a.close()
        b.put(0, range(3, 12), payload=pa.array([b"%d" % at for at in range(3, 12)]))
        lab.run(**EARLY)
        assert lab.all_seen == list(range(12))
        assert lab.numbers(**EARLY) == list(range(12))
