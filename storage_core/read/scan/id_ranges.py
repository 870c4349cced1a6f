"""Where in a shard the normal rows of a few ids can lie, by what is kept of each id.

The index bounds them by primary (index/lower_bounds.py). The head on disk names the last normal
row of its id and the largest primary, as of the address up to which heads are on disk: below it
nothing lies behind the one or above the other, and from it on anything may. That holds where
no head can be missing: a reader in another process goes without, and proves the chain of zones.
"""

from contextlib import suppress
from typing import Final

from storage_core.errors import CorruptionError
from storage_core.format.head import decode_head_values
from storage_core.format.keys import head_key
from storage_core.ids.index.lower_bounds import IndexBounds
from storage_core.read.row_filter import RowFilter
from storage_core.read.snapshot import ShardSnapshot

# Of more ids most blocks are wanted anyway.
SEEK_IDS_MAX: Final = 64

Range = tuple[int, int]


def ranges_of_ids(snapshot: ShardSnapshot, wanted: RowFilter, begin: int, end: int) -> list[Range]:
    """Return ascending ranges of addresses with all wanted normal rows of [begin, end)."""
    if wanted.ids is None or len(wanted.ids) > SEEK_IDS_MAX:
        return [(begin, end)]
    # What bounds is kept to save time; where it cannot be read the blocks answer without it.
    with suppress(CorruptionError):
        ranges: list[Range] = []
        for secondary in wanted.ids.tolist():
            ranges.extend(_ranges_of(snapshot, wanted, secondary, begin, end))
        return _joined(ranges)
    return [(begin, end)]


def begin_of_ids(snapshot: ShardSnapshot, wanted: RowFilter) -> int:
    """Return an address before which no wanted normal or late row lies."""
    if wanted.ids is None or not len(wanted.ids) or len(wanted.ids) > SEEK_IDS_MAX:
        return 0
    bounds = _bounds(snapshot)
    if bounds is None:
        return 0
    with suppress(CorruptionError):
        return min(bounds.begin(secondary, wanted.start) for secondary in wanted.ids.tolist())
    return 0


def _ranges_of(
    snapshot: ShardSnapshot, wanted: RowFilter, secondary: int, begin: int, end: int
) -> list[Range]:
    bounds = _bounds(snapshot)
    if bounds is not None:
        begin = max(begin, bounds.begin(secondary, wanted.start))
        last = bounds.end(secondary, wanted.end)
        end = end if last is None else min(end, last)
    through = snapshot.state.heads_through if snapshot.has_whole_heads else 0
    if end <= begin or through <= begin:
        return [(begin, end)]
    value = snapshot.value_at(head_key(secondary))
    if value is None:
        return [(begin, end)]
    primary, _, last_address = decode_head_values([value])[0].tolist()
    known_end = begin if primary < wanted.start else min(last_address + 1, end)
    return [(begin, known_end), (max(begin, through), end)]


def _bounds(snapshot: ShardSnapshot) -> IndexBounds | None:
    if not snapshot.has_index:
        return None

    def stands(address: int) -> bool:
        # IMPORTANT: what is lost counts too; rows behind it are read before a loss is accepted.
        lost = snapshot.state.lost
        return snapshot.shows(address) and not any(one.start <= address < one.end for one in lost)

    return IndexBounds(
        snapshot.item_at_or_before,
        snapshot.item_at_or_after,
        snapshot.scheme,
        snapshot.jitter,
        stands,
    )


def _joined(ranges: list[Range]) -> list[Range]:
    joined: list[Range] = []
    for begin, end in sorted(one for one in ranges if one[0] < one[1]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
