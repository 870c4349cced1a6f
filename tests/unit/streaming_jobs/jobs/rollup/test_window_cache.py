"""What is kept in memory: the newest windows, whole, and no more than there is room for."""

import pyarrow as pa

from streaming_jobs.jobs.rollup.window_cache import WindowCache


def table(rows: int) -> pa.Table:
    return pa.table({"start": list(range(rows))})


def test_newest_windows_are_kept():
    cache = WindowCache(windows_max=2)
    for start in (10, 30, 20):
        cache.put(start, table(1))
    assert [cache.get(start) is not None for start in (10, 20, 30)] == [False, True, True]
    assert cache.wanted([5, 25, 30]) == {25, 30}


def test_windows_go_where_there_is_no_room():
    cache = WindowCache(rollups_max=10)
    for start in (1, 2):
        cache.put(start, table(6))
    assert cache.get(1) is None
    cache.put(3, table(11))
    assert [cache.get(start) for start in (1, 2, 3)] == [None] * 3


def test_window_that_is_put_again_is_the_newer_one():
    cache = WindowCache()
    cache.put(1, table(1))
    cache.put(1, table(2))
    assert cache.get(1) == table(2)
    cache.clear()
    assert cache.get(1) is None
