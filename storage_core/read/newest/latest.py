"""The row with the largest primary of each id: by heads, and by future-dated records above them.

Of equal primaries the highest address wins. A head and the key of a future-dated record name the
address of a row; the block there answers, one block read for all ids that it holds. What lies
between head and answer is never scanned.

A request with bounds wants the newest row inside them. Mostly that is the newest of all; where
it is not, or where the head's row was accepted as lost, the row is searched for
(latest_within.py). So it is where a head names a row that its block does not hold: blocks decide,
and verify reports it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.block import Block
from storage_core.format.shard_state import AddressRange
from storage_core.format.zone import Zone
from storage_core.read.ahead_places import RowPlaces, newest_ahead
from storage_core.read.columns import block_columns
from storage_core.read.future_rows import rows_at, without_blocks
from storage_core.read.newest.latest_within import newest_within
from storage_core.read.row_filter import RowFilter
from storage_core.read.rows import Collected, in_order
from storage_core.read.snapshot import ShardSnapshot

Mask = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def scan_newest(
    snapshot: ShardSnapshot, wanted: RowFilter, bytes_max: int
) -> Iterator[pa.RecordBatch]:
    """Yield one batch, sorted by id: each id's row with the largest primary, where it has one.

    Raises:
        InvalidRequestError: They come to more than `bytes_max` (0: any number).
    """
    columns = wanted.columns
    wanted = replace(wanted, columns=tuple(dict.fromkeys((*columns, "secondary"))))
    snapshot.refuse_lost(wanted.address_start, wanted.address_end)
    newest = _newest_of_all(snapshot, wanted)
    collected = Collected(bytes_max)
    for rows in _rows_at(snapshot, wanted, newest.where(_is_inside(snapshot, wanted, newest))):
        collected.add(rows)
    open_ids = _without(newest.ids, collected.batches)
    if len(open_ids):
        for rows in _rows_at(snapshot, wanted, newest_within(snapshot, wanted, open_ids)):
            collected.add(rows)
    if collected.batches:
        yield in_order(collected.batches, ("secondary",), columns)


def _newest_of_all(snapshot: ShardSnapshot, wanted: RowFilter) -> RowPlaces:
    """Return the newest place of each wanted id, of those whose newest row is not too old."""
    heads = snapshot.heads(wanted.ids)
    places = RowPlaces(heads.ids, heads.primary, heads.address).where(heads.address >= 0)
    ahead = newest_ahead(snapshot, wanted.ids)
    if len(ahead):
        places = places.and_those(ahead).newest()
    return places.where(places.primary >= wanted.start)


def _is_inside(snapshot: ShardSnapshot, wanted: RowFilter, places: RowPlaces) -> Mask:
    """Tell which places lie inside a request's bounds and were not accepted as lost."""
    address = places.address
    inside: Mask = (places.primary <= wanted.end) & (address >= wanted.address_start)
    inside &= address < wanted.address_end
    for gap in snapshot.state.gaps:
        inside &= (address < gap.start) | (address >= gap.end)
    return inside


def _rows_at(
    snapshot: ShardSnapshot, wanted: RowFilter, places: RowPlaces
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at these places that have a wanted version, each block read once."""
    places = places.where(np.argsort(places.address))
    gone = without_blocks(snapshot, places)
    if gone.any():
        yield from rows_at(snapshot, wanted, places.where(gone))
        places = places.where(~gone)
    if snapshot.state.trimmed and not snapshot.meta.has_keys:
        answered = [np.empty(0, dtype=np.int64)]
        for rows, addresses in _trimmed_rows(snapshot, wanted, places):
            yield rows
            answered.append(addresses)
        places = places.where(~np.isin(places.address, np.concatenate(answered)))
    for zone, block in _blocks_at(snapshot, places.address):
        first, end = places.address.searchsorted([zone.first, zone.end]).tolist()
        chosen = _positions(block, places.where(slice(first, end)))
        if wanted.versions is not None:
            chosen = chosen[wanted.has_version(block)[chosen]]
        if len(chosen):
            yield block_columns(block, snapshot.shard, wanted.columns, chosen)


def _blocks_at(snapshot: ShardSnapshot, addresses: Int64s) -> Iterator[tuple[Zone, Block]]:
    """Yield zones with the blocks, or pieces of wide zones, that span ascending addresses."""
    position = 0
    while position < len(addresses) and addresses[position] < snapshot.state.trimmed:
        zone = snapshot.zone_at(int(addresses[position]))
        if not zone.is_wide:
            break
        piece, block = snapshot.block_at(zone, int(addresses[position]))
        yield piece, block
        position = int(addresses.searchsorted(piece.end))
    yield from snapshot.blocks_or_joined(_zones_of(snapshot, addresses[position:]))


def _zones_of(snapshot: ShardSnapshot, addresses: Int64s) -> Iterator[Zone]:
    """Yield the zones of the blocks that span ascending addresses."""
    position = 0
    while position < len(addresses):
        zone = snapshot.zone_at(int(addresses[position]))
        yield zone
        position = int(addresses.searchsorted(zone.end))


def _without(ids: Int32s, batches: Sequence[pa.RecordBatch]) -> Int32s:
    """Return the ids that no row of some batches has."""
    answered = [rows.column("secondary").to_numpy() for rows in batches]
    left: Int32s = ids[~np.isin(ids, np.concatenate(answered))] if answered else ids
    return left


def _trimmed_rows(
    snapshot: ShardSnapshot, wanted: RowFilter, places: RowPlaces
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
    """Yield normal rows of ascending places whose blocks were trimmed, and their addresses.

    Of few ids parts read some groups of rows, and no block whole.
    """
    places = places.where(places.address < snapshot.state.trimmed)
    columns = tuple(dict.fromkeys((*wanted.columns, "primary", "address")))
    narrow = replace(wanted, columns=columns, ids=np.unique(places.ids))
    runs = [AddressRange(address, address + 1) for address in places.address.tolist()]
    for rows in snapshot.trimmed.normal(narrow, runs):
        addresses = rows.column("address").to_numpy()
        of_rows = places.where(places.address.searchsorted(addresses))
        is_right = of_rows.ids == rows.column("secondary").to_numpy()
        is_right &= of_rows.primary == rows.column("primary").to_numpy()
        right = rows.filter(pa.array(is_right)).select([*wanted.columns])
        yield right, addresses[is_right]


def _positions(block: Block, places: RowPlaces) -> npt.NDArray[np.int64]:
    """Return where in its block each place is, those left out that the block contradicts."""
    addresses = block.addresses
    near = np.minimum(addresses.searchsorted(places.address), len(addresses) - 1)
    is_right = (addresses[near] == places.address) & (block.secondaries[near] == places.ids)
    is_right &= block.primaries[near] == places.primary
    positions: npt.NDArray[np.int64] = near[is_right]
    return positions
