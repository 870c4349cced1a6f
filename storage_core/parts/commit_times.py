"""Whether parts have the time at which each row was committed, so that zones may become one.

A joined zone has the time of its last row (format/joined_zone.py); parts have that of each. Those
of the first versions have none: their rows take the time of their zone, and each keeps its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry
from storage_core.format.zone import Zone
from storage_core.parts.part_rows import COMMITTED
from storage_core.read.parts import index_of, part_path
from storage_core.read.view import ShardView
from storage_core.sealed.part_bytes import read_foot


def with_times_kept(
    groups: Iterable[list[Zone]], view: ShardView, directory: Path
) -> Iterator[list[Zone]]:
    """Yield groups of zones, divided where a joined zone would be all that says of a row's time.

    Args:
        groups: Of neighbouring zones, which parts stand for.
        view: The shard's.
        directory: Of its parts.
    """
    index = index_of(view)
    known: dict[str, bool] = {}

    def has_times(part: PartEntry) -> bool:
        if part.file_name not in known:
            known[part.file_name] = _has_times(part_path(directory, part), part)
        return known[part.file_name]

    def all_have_times(start: int, end: int) -> bool:
        return all(map(has_times, index.overlapping(start, end)))

    for group in groups:
        is_one = len({zone.committed_at_ms for zone in group}) == 1
        if is_one or all_have_times(group[0].first, group[-1].end):
            yield group
        else:
            yield from _divided(group, lambda one: all_have_times(one.first, one.end))


def _divided(group: Sequence[Zone], has_times: Callable[[Zone], bool]) -> Iterator[list[Zone]]:
    """Yield neighbours whose parts have times, and of others those of one time."""
    for _, some in groupby(group, lambda one: None if has_times(one) else one.committed_at_ms):
        yield list(some)


def _has_times(path: Path, part: PartEntry) -> bool:
    """Tell whether each row of a part has its time; no where the file does not say."""
    try:
        _, metadata = read_foot(path, part.proof)
    except (CorruptionError, OSError):
        return False
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = (group.column(at) for group in groups for at in range(group.num_columns))
    times = [one.statistics for one in columns if one.path_in_schema == COMMITTED]
    return len(times) == len(groups) and all(
        one is not None and one.has_null_count and one.null_count == 0 for one in times
    )
