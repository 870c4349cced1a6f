"""Which addresses runs are to be written of, so that all that is published is covered; pure."""

from collections.abc import Collection, Iterator
from typing import Final

from storage_core.errors import ShardlogError
from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_names import RunName, uncovered

# What one run is written of, where several are missing: a call that ends has written some.
PIECE_ROWS_MAX: Final = 4_000_000


def missing_pieces(
    runs: Collection[RunName], log: int, parts: ShardParts, addresses: AddressRange
) -> list[AddressRange]:
    """Return the addresses that a log has to write runs of, one for each, ascending.

    Once it has written the first of them, runs of others count no more that end behind its
    beginning (`runs_of_owner`).

    Args:
        runs: The runs that count.
        log: The number of the log.
        parts: Its part list.
        addresses: What is to be covered.
    """
    missing = uncovered(runs, addresses.start, addresses.end)
    if not missing:
        return []
    staying = [run for run in runs if run.log == log or run.end <= missing[0].start]
    missing = uncovered(staying, addresses.start, addresses.end)
    return [piece for hole in missing for piece in pieces_of(parts, hole)]


def pieces_of(parts: ShardParts, addresses: AddressRange) -> Iterator[AddressRange]:
    """Yield a range in pieces of a bounded number of rows, unless one part has more."""
    begin, rows = addresses.start, 0
    for entry in sorted(parts.entries, key=lambda entry: entry.first):
        if not addresses.overlaps(entry.first, entry.last + 1):
            continue
        if rows and rows + entry.rows > PIECE_ROWS_MAX and begin < entry.first:
            yield AddressRange(begin, entry.first)
            begin, rows = entry.first, 0
        rows += entry.rows
    yield AddressRange(begin, addresses.end)


def pieces_beside(piece: AddressRange, error: ShardlogError) -> list[AddressRange]:
    """Return what is left of a piece beside the part that an error names; nothing if it names none.

    Args:
        piece: What no run could be written of.
        error: Why.
    """
    start, end = error.start, error.end
    if start is None or end is None or not piece.overlaps(start, end):
        return []
    beside = [(piece.start, start), (end, piece.end)]
    return [AddressRange(first, behind) for first, behind in beside if first < behind]
