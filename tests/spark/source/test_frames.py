"""Loaded frames and views, used again and again while the stream grows."""

import pytest
from pyspark.errors import PythonException

from pyspark_shardlog import snapshot
from tests.snapshots import snapshot as snapshot_of
from tests.spark.support.lab import NAME, numbers_of


def view(lab, **options):
    """Make a view over the stream in SQL; return its name."""
    named = ", ".join(f"{name} '{value}'" for name, value in lab.log.options(**options).items())
    lab.spark.sql(f"create or replace temporary view seen using shardlog options ({named})")
    return lab.spark.table("seen")


@pytest.mark.parametrize("use", [lambda lab: lab.read(), view], ids=["frame", "view"])
def test_each_action_on_a_frame_is_fresh(full, use):
    frame = use(full)
    assert frame.count() == 10
    full.log.append(5, first=10)
    assert frame.count() == 15
    assert numbers_of(frame) == list(range(15))


def test_static_side_of_a_stream_sees_rows_that_come_later(full):
    static = full.read(columns="value,secondary").withColumnRenamed("value", "there")
    stream = full.spark.readStream.format("shardlog")
    stream = stream.options(**full.log.options(startingOffsets="earliest")).load()
    joined = stream.join(static, "secondary")
    counts: list[int] = []
    query = joined.writeStream.foreachBatch(lambda rows, _: counts.extend(numbers_of(rows)))
    query = query.option("checkpointLocation", str(full.checkpoint)).start()
    query.processAllAvailable()
    full.log.append(5, first=10)
    query.processAllAvailable()
    query.stop()
    assert sorted(counts) == list(range(15))


@pytest.mark.parametrize("use", [lambda lab, **options: lab.read(**options), view])
@pytest.mark.parametrize("takes", [lambda lab: snapshot(lab.log.root, NAME), lambda _: "now"])
def test_snapshot_is_one_moment_in_every_action(full, use, takes):
    frame = use(full, snapshot=takes(full))
    full.log.append(5, first=10)
    assert (frame.count(), frame.join(frame, "offset").count()) == (10, 20)
    full.log.append(5, first=15)
    assert numbers_of(frame) == list(range(10))


@pytest.mark.parametrize("use", [lambda lab: lab.read(), view], ids=["frame", "view"])
def test_copy_of_the_root_is_refused_in_every_action(full, use):
    frame = use(full)
    copy, root = full.log.root.with_name("copy"), full.log.root.with_name("the root")
    snapshot_of(full.log.root, copy)
    assert frame.count() == 10
    full.log.append(5, first=10)
    full.log.root.rename(root)
    copy.rename(full.log.root)
    with pytest.raises(PythonException, match="has a copy of stream"):
        frame.count()
    full.log.root.rename(copy)
    root.rename(full.log.root)
    assert frame.count() == 15
