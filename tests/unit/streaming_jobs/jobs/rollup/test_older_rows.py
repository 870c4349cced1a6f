"""Which ranges of time are read for windows."""

import random
from itertools import pairwise

import numpy as np
import pytest

from streaming_jobs.jobs.rollup.older_rows import ranges_of


def ranges(*starts: int, most: int = 16) -> list[tuple[int, int]]:
    windows = np.array(starts)
    return ranges_of(windows, windows + 10, most)


def test_windows_that_follow_on_each_other_are_one_range():
    assert ranges(0, 10, 20, 50, 60) == [(0, 30), (50, 70)]


def test_nearest_are_joined_where_there_would_be_too_many():
    assert ranges(0, 20, 100, 115, 300, most=3) == [(0, 30), (100, 125), (300, 310)]
    assert ranges(0, 20, 100, most=1) == [(0, 110)]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_cover_all_windows_and_are_few(seed):
    draw = random.Random(seed)
    starts = sorted(draw.sample(range(0, 3000, 10), draw.randint(1, 120)))
    most = draw.randint(1, 20)
    joined = ranges(*starts, most=most)
    assert len(joined) <= most
    assert all(a[1] < b[0] for a, b in pairwise(joined))
    assert all(sum(a <= start < b for a, b in joined) == 1 for start in starts)
