"""Which rows and dead letters of a batch with addresses of its own are new.

Addresses only go up. A row below the tail is a duplicate if its address is stored, if it is a
dead letter, passed over or given up, or if the log starts above it; anything else would be a
silent drop, so it is refused. That a block spans an address says nothing: addresses may have
gaps, so a block that has some is read. A dead letter below the tail is a duplicate, since it may
have been forwarded and cleared. Neither may lie below the shard's birth.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import ADDRESS_MAX
from storage_core.format.zone import Zone
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.entry import Entry


def checked_addresses(addresses: object, count: int) -> npt.NDArray[np.int64]:
    """Return a caller's addresses, or refuse them.

    Raises:
        InvalidRequestError: They are not strictly increasing, not negative, one a row.
    """
    try:
        array = np.asarray(addresses)
    except ValueError as error:
        message = f"addresses are not one column: {error}"
        raise InvalidRequestError(message) from error
    if array.ndim != 1 or len(array) != count:
        message = f"addresses of shape {array.shape} given for {count} rows"
        raise InvalidRequestError(message)
    if array.dtype.kind not in "iu" and len(array):
        message = f"addresses must be integers, not {array.dtype}"
        raise InvalidRequestError(message)
    if not (array[1:] > array[:-1]).all():
        message = "addresses must strictly increase"
        raise InvalidRequestError(message)
    if len(array) and (int(array[-1]) >= ADDRESS_MAX or int(array[0]) < 0):
        message = f"addresses must lie from 0 to {ADDRESS_MAX - 1}"
        raise InvalidRequestError(message)
    # A copy, since heads may keep it and the caller may go on using its own.
    return array.astype(np.int64)


def new_part(entry: Entry, view: ShardSnapshot, tail: int) -> Entry:
    """Return an entry without the rows and dead letters that are stored, counted as duplicates.

    Raises:
        LostRangeError: Some lie in a lost range, which only a repair fills.
        InvalidRequestError: Some lie below the tail where nothing was ever stored.
        CorruptionError: A block that may hold them cannot be read.
    """
    rows, addresses, states, stored = entry.rows, entry.addresses, entry.states, 0
    if rows is not None and addresses is not None:
        stored = _count_stored(view, addresses, tail)
        rows, addresses = rows.slice(stored, len(rows)), addresses[stored:]
        states = None if states is None else states[stored:]
    dead = _count_dead_stored(view, [address for address, _ in entry.dead_letters], tail)
    return replace(
        entry,
        rows=rows,
        addresses=addresses,
        states=states,
        dead_letters=entry.dead_letters[dead:],
        duplicates=stored + dead,
    )


def _count_stored(view: ShardSnapshot, addresses: npt.NDArray[np.int64], tail: int) -> int:
    """Return how many rows at the front are stored already; the rest lie at or above the tail."""
    count = int(np.searchsorted(addresses, tail))
    if count == 0:
        return 0
    old = addresses[:count]
    start, end = int(old[0]), int(old[-1]) + 1
    _refuse_unborn(view, start)
    for lost in view.state.lost:
        if _inside(old, lost.start, lost.end).any():
            view.refuse_lost(lost.start, lost.end)
    is_known = old < view.state.start
    for gap in (*view.state.gaps, *view.state.passed):
        is_known |= _inside(old, gap.start, gap.end)
    for zone in view.zones(start, end, with_expired=True):
        is_spanned = _inside(old, zone.first, zone.end) & ~is_known
        # Of what has expired nobody knows which addresses had rows.
        if zone.is_dense or zone.is_expired:
            is_known |= is_spanned
        elif is_spanned.any():
            is_known |= _are_rows_of(view, zone, old)
    if not is_known.all():
        dead = [address for address, _ in view.dead_letters(start, end)]
        is_known |= np.isin(old, dead)
    if not is_known.all():
        unstored = int(old[~is_known][0])
        message = f"address {unstored} lies below the tail {tail}, but nothing was stored there"
        raise InvalidRequestError(message, stream=view.stream, shard=view.shard)
    return count


def _are_rows_of(
    view: ShardSnapshot, zone: Zone, addresses: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Tell which of ascending addresses are of rows that a zone counts."""
    are_rows = np.zeros(len(addresses), np.bool_)
    for _, block in view.pieces(zone, int(addresses[0]), int(addresses[-1]) + 1):
        are_rows |= np.isin(addresses, block.addresses)
    return are_rows


def _count_dead_stored(view: ShardSnapshot, addresses: Sequence[int], tail: int) -> int:
    """Return how many of ascending dead letters' addresses lie below the tail."""
    old = [address for address in addresses if address < tail]
    if old:
        _refuse_unborn(view, old[0])
    for address in old:
        view.refuse_lost(address, address + 1)
    return len(old)


def _inside(addresses: npt.NDArray[np.int64], start: int, end: int) -> npt.NDArray[np.bool_]:
    return (addresses >= start) & (addresses < end)


def _refuse_unborn(view: ShardSnapshot, address: int) -> None:
    born = view.state.born
    if address < born:
        message = f"address {address} lies below {born}, the first the shard can have"
        raise InvalidRequestError(message, stream=view.stream, shard=view.shard)
