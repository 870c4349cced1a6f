"""Words of the scenarios of the sparse index: its entries, its worker, and time without one.

entries_of(stream)                  secondary, primary and address of each entry
write_entry(bench, 0, 1, 5, 5)      an entry that the index did not write
hand_over_what_breaks_a_turn(bench, 20)   so many rows that no entries can be chosen from
thread_runs(stream)                 whether the worker has its thread
"""

from collections.abc import Callable

import numpy as np

from storage_core import Environment, Stream
from storage_core.engine.key_value import Batch
from storage_core.format.keys import PREFIX_INDEX, decode_index_key, index_key, prefix_end
from storage_core.ids.index.entries import IndexedRows, WrittenRows
from storage_core.testing import ManualClock
from tests.log.workbench import Workbench

__all__ = [
    "alone",
    "ending",
    "entries_of",
    "hand_over_what_breaks_a_turn",
    "thread_runs",
    "window_of",
    "write_entry",
    "write_key_of_the_index",
]


def alone(now_s: int = 1000) -> Environment:
    """Return an environment without a worker, with a clock turned by hand."""
    return Environment(ManualClock(wall_ns=now_s * 10**9), has_index_worker=False)


def entries_of(stream: Stream, shard: int = 0) -> list[tuple[int, int, int]]:
    """Return secondary, primary and address of each entry."""
    view = stream._shards[shard].snapshots.whole()
    try:
        keys = [key for key, _ in view.meta_items(PREFIX_INDEX, prefix_end(PREFIX_INDEX))]
    finally:
        view.close()
    return [decode_index_key(key)[1:] for key in keys]


def window_of(bench: Workbench, primary: int) -> int:
    """Return the window of a primary."""
    return bench.stream._shards[0].context.meta.scheme.of(primary)


def write_entry(bench: Workbench, window: int, secondary: int, primary: int, address: int) -> None:
    """Write an entry past the index."""
    _write(bench, index_key(window, secondary, primary, address))


def write_key_of_the_index(bench: Workbench, rest: bytes) -> None:
    """Write a key among the index's."""
    _write(bench, PREFIX_INDEX + rest)


def hand_over_what_breaks_a_turn(bench: Workbench, rows: int) -> None:
    """Hand over rows of which the index can choose no entries: they have no primaries."""
    none, ids = np.empty(0, dtype=np.int64), np.zeros(rows, dtype=np.int32)
    bench.shard.index.hand_over(WrittenRows(IndexedRows(ids, none, np.arange(rows), None), 1))


def thread_runs(stream: Stream) -> bool:
    """Tell whether the stream's worker has a thread."""
    bell = stream.index._bell
    assert bell is not None, "the stream was opened without a worker"
    return bell._ended.locked()


def ending(stream: Stream) -> Callable[[float], bool]:
    """Return what waits for the end of a worker's thread, without holding the stream."""
    bell = stream.index._bell
    assert bell is not None, "the stream was opened without a worker"
    ended = bell._ended
    return lambda wait_s: ended.acquire(timeout=wait_s)


def _write(bench: Workbench, key: bytes) -> None:
    batch = Batch()
    batch.put(key, b"")
    bench.stream._shards[0]._store.write(batch)
