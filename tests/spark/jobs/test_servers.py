"""Jobs over a server: what they do by a path they do over it, and go on from one to the other.

A checkpoint names the stream and not the way to it.
"""

import random
import signal
from contextlib import ExitStack
from typing import Any

import pytest

from storage_core import InvalidRequestError, StreamReader
from streaming_jobs.jobs import roll_up as job
from streaming_jobs.jobs.drain_late import LATE_BY, drain_late
from tests.log.serve.owners import NAME as TOPIC
from tests.log.serve.owners import Root, Topic, served_at, together
from tests.log.serve.serving_process import server_process
from tests.log.served import served
from tests.spark.support.lab import NAME, SECONDS_MAX
from tests.spark.support.rollup_driver import reporting_steps
from tests.spark.support.rollup_lab import RollupLab, readings
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS


@pytest.fixture
def doors(lab):
    """A stream with ten rows of two shards, and both ways to its root."""
    lab.log.create(shards=2)
    lab.log.append(10)
    with served(lab.log.root, is_writable=True) as address:
        yield {"path": str(lab.log.root), "server": address}


def ended(query):
    assert query.awaitTermination(SECONDS_MAX), "the query goes on"


def test_servers_over_several_roots_take_no_corrections(spark, tmp_path):
    topic = Topic(partitions=2)
    with ExitStack() as opened:
        owners = [opened.enter_context(Root(tmp_path / name, topic)) for name in ("a", "b")]
        root = together(*(opened.enter_context(served_at(owner)) for owner in owners))
        for shard, owner in enumerate(owners):
            owner.take(shard)
        with pytest.raises(InvalidRequestError, match="over several roots, and the job writes"):
            drain_late(spark, root, TOPIC, checkpoint=tmp_path / "late", once=True)


def test_late_rows_come_out_once_by_either_door(lab, doors, tmp_path):
    for number, door in enumerate(("server", "path", "server")):
        lab.log.writer.append(FIRST_MS - number, 3, b"late")
        lab.log.writer.commit()
        ended(drain_late(lab.spark, doors[door], NAME, checkpoint=tmp_path / "late", once=True))
        with StreamReader.open(doors["server"], f"{NAME}-late") as reader:
            headers: Any = reader.read(columns=["headers"]).column("headers").to_pylist()
        late_by = [one["value"] for row in headers for one in row if one["key"] == LATE_BY]
        assert sorted(late_by) == [b"%d" % (3 + at) for at in range(number + 1)]


def test_rollups_are_those_of_all_rows_by_either_door(spark, tmp_path):
    lab, measurements = RollupLab(tmp_path), readings(random.Random(5), 200)
    lab.create()
    with served(lab.root, is_writable=True) as address:
        for number, root in enumerate((address, str(lab.root), address)):
            lab.measure(measurements[60 * number : 60 * (number + 1)])
            lab.roll_up(spark, root=root, levels=["hour", "day"], max_rows=40)
            lab.check(["hour", "day"])
    lab.close()


def test_job_goes_on_by_the_next_server_where_one_is_killed_in_a_batch(
    spark, tmp_path, monkeypatch
):
    lab = RollupLab(tmp_path)
    lab.create()
    lab.measure(readings(random.Random(6), 60))
    with (
        server_process(lab.root, is_writable=True) as doomed,
        served(lab.root, is_writable=True) as other,
    ):

        def reach(phase: str, batch: int) -> None:
            if (phase, batch) == ("half kept", 0):
                doomed.signal(signal.SIGKILL)

        for name, reporting in reporting_steps(reach).items():
            monkeypatch.setattr(job, name, reporting)
        root = f"shardlog://{doomed.address},{other.removeprefix('shardlog://')}"
        lab.roll_up(spark, root=root, levels=["hour", "day"], max_rows=40)
    assert not doomed.process.is_alive()
    lab.check(["hour", "day"])
    lab.close()


def test_server_that_only_reads_refuses_rollups_before_a_batch(spark, tmp_path):
    lab = RollupLab(tmp_path)
    lab.create()
    lab.measure(readings(random.Random(6), 1))
    with served(lab.root) as address, pytest.raises(InvalidRequestError, match="only reads"):
        lab.roll_up(spark, root=address)
    lab.close()
