"""How many rows reads show no more once a floor has moved: exactly, as a dry run tells it.

From the disk go whole windows and blocks, and of those expiry counts the rows. Reads hide more: the
rows below the floor in the window that it cuts through, and those that came ahead of the clock.
Whole windows are counted by their summaries, the two at the ends are read; so it costs what these
hold. Where a summary may count rows that no read shows (some were cut or given up, or are not
committed yet) all of the range is read.
"""

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.read.ahead_places import ahead_between
from storage_core.read.request import ReadRequest
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.shard import Shard


def count_hidden(shard: Shard, view: ShardSnapshot, floor: int, cut: int) -> int:
    """Return how many rows of a view a floor would hide, or a cut.

    Args:
        shard: The shard, for its rows.
        view: The moment.
        floor: The primary below which all is hidden.
        cut: The address below which all is.
    """
    state, scheme = view.state, view.scheme
    count = 0
    if cut > state.cut:
        count += _rows(shard, view, floor, INT64_MAX, min(cut, view.committed))
    if floor <= state.floor:
        return count
    begin, end = state.floor, scheme.first_of(scheme.of(floor))
    if begin > INT64_MIN and begin != scheme.first_of(scheme.of(begin)):
        begin = scheme.last_of(scheme.of(begin)) + 1
    is_summed = state.cut == state.born and not (state.gaps or state.lost or state.has_removed)
    if not is_summed or state.tail.next > view.committed or begin >= end:
        return count + _rows(shard, view, state.floor, floor - 1, view.committed)
    count += _rows(shard, view, state.floor, begin - 1, view.committed)
    for _, window in view.windows(scheme.of(begin), scheme.of(end - 1)):
        count += window.records
    count += len(ahead_between(view, None, begin, end - 1))
    return count + _rows(shard, view, end, floor - 1, view.committed)


def _rows(shard: Shard, view: ShardSnapshot, first: int, last: int, until: int) -> int:
    """Return how many rows with primaries of a closed range reads show below an address."""
    if first > last:
        return 0
    request = ReadRequest(
        view.shard, start=first, end=last, end_address=until, columns=("primary",)
    )
    return sum(len(batch) for batch in shard.scan(request))
