"""Jobs over a server: what they read by a path they read over it, and go on from one to the other.

A checkpoint names the stream and not the way to it.
"""

import pytest

from streaming_jobs.jobs.land_topic import land_topic
from tests.log.served import served
from tests.spark.jobs.test_land_topic import landed
from tests.spark.support.lab import NAME, SECONDS_MAX


@pytest.fixture
def doors(lab):
    """A stream with ten rows of two shards, and both ways to its root by turns."""
    lab.log.create(shards=2)
    lab.log.append(10)
    with served(lab.log.root) as address:
        yield [str(lab.log.root), address]


def ended(query):
    assert query.awaitTermination(SECONDS_MAX), "the query goes on"


def test_rows_land_once_by_either_door(lab, doors, tmp_path):
    for number, root in enumerate((*reversed(doors), doors[1])):
        ended(land_topic(lab.spark, root, NAME, tmp_path / "lake", once=True, max_rows=7))
        assert landed(tmp_path / "lake") == list(range(10 * (number + 1)))
        lab.log.append(10, first=10 * (number + 1))
