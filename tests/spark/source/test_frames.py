"""Loaded frames and views, used again and again while the stream grows."""

import pytest
from pyspark.errors import PySparkException

from tests.snapshots import snapshot as snapshot_of
from tests.spark.support.lab import numbers_of


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


@pytest.mark.parametrize("use", [lambda lab: lab.read(), view], ids=["frame", "view"])
def test_copy_of_the_root_is_refused_in_every_action(full, use):
    frame = use(full)
    copy, root = full.log.root.with_name("copy"), full.log.root.with_name("the root")
    snapshot_of(full.log.root, copy)
    assert frame.count() == 10
    full.log.append(5, first=10)
    full.log.root.rename(root)
    copy.rename(full.log.root)
    with pytest.raises(PySparkException, match=r"has a copy of (the root|stream)"):
        frame.count()
    full.log.root.rename(copy)
    root.rename(full.log.root)
    assert frame.count() == 15
