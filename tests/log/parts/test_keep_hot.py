"""Which blocks are old enough to be trimmed, also where the clock was not always right."""

from datetime import timedelta

import numpy as np
import pytest

from storage_core import Environment, StreamReader
from storage_core.testing import ManualClock
from tests.log.parts.parts_lab import NAME, PartsLab

HOUR_S = 3600


def test_young_blocks_and_all_behind_them_stay(tmp_path):
    clock = ManualClock()
    lab = PartsLab(tmp_path, Environment(clock=clock))
    rng = np.random.default_rng(12)
    lab.append(rng, 300)
    ends = lab.stream.committed()
    clock.advance(HOUR_S)
    lab.append(rng, 300)
    lab.stream.seal()
    assert lab.stream.trim(timedelta(hours=2)).blocks == 0
    again = lab.stream.trim(timedelta(minutes=30))
    assert again.rows == 300
    assert [one.trimmed for one in again.shards.values()] == [*ends.values()]
    assert lab.stream.trim(timedelta(0)).rows == 300
    lab.stream.close()


@pytest.mark.parametrize("seed", range(3))
def test_read_shows_each_row_once_where_a_part_reaches_over_the_seam(tmp_path, seed):
    clock = ManualClock()
    lab = PartsLab(tmp_path, Environment(clock=clock))
    rng = np.random.default_rng(seed)
    for _ in range(2):
        lab.append(rng, 300)
        clock.advance(HOUR_S)
    lab.stream.seal()
    before = lab.stream.read(columns=("shard", "address"))
    assert lab.stream.trim(timedelta(minutes=90)).rows == 300
    with StreamReader.open(tmp_path, NAME) as reader:
        for reads in (lab.stream, reader):
            assert reads.read(columns=("shard", "address")) == before
    lab.stream.close()


def test_blocks_of_the_future_go_with_those_behind_them(tmp_path):
    clock = ManualClock()
    lab = PartsLab(tmp_path, Environment(clock=clock))
    rng = np.random.default_rng(13)
    for ahead_h in (0, 10**4, 10**4 + 1, 0, 10**4):
        clock.advance(ahead_h * HOUR_S)
        lab.append(rng, 100)
        clock.advance(-ahead_h * HOUR_S)
        clock.advance(HOUR_S)
    lab.stream.seal()
    rows = lab.rows()
    # The fourth is two hours old: nobody knows of the two before it, but that they are older.
    assert lab.stream.trim(timedelta(hours=3)).rows == 100
    assert lab.stream.trim(timedelta(hours=3)).rows == 0
    assert lab.stream.trim(timedelta(hours=2)).rows == 300
    # Of the last one nothing can be said, until another comes that is old enough.
    assert lab.stream.trim(timedelta(milliseconds=1)).rows == 0
    assert lab.stream.trim(timedelta(0)).rows == 100
    assert lab.rows() == rows
    lab.stream.close()
