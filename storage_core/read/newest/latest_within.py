"""The newest row of each id inside a request's bounds, searched from the newest block back.

For what heads do not answer: rows below an end, of a version, as of an earlier address, or of an
id whose head's row was accepted as lost. It reads the blocks that can hold such a row, newest
first, one at a time, and is done with an id as soon as its rows say that no older one can win:

    A normal row has a primary of at least (all before it) - jitter. So before a normal row of
    primary p nothing lies above p + jitter, future-dated records aside, which are asked for by id.

Of an id that had its last normal row before the addresses asked for, as where a cap took it, no
block is read: what is left of it are late rows, which have copies.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from storage_core.format.block import Block
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State
from storage_core.format.row_columns import SORT_COLUMNS
from storage_core.format.zone import Zone
from storage_core.read.ahead_places import RowPlaces, ahead_between
from storage_core.read.future_rows import copies_at, without_blocks
from storage_core.read.row_filter import RowFilter
from storage_core.read.scan.id_ranges import SEEK_IDS_MAX, begin_of_ids
from storage_core.read.scan.scan import out_of_order_rows
from storage_core.read.snapshot import ShardSnapshot

Int32s = npt.NDArray[np.int32]


def newest_within(snapshot: ShardSnapshot, wanted: RowFilter, ids: Int32s) -> RowPlaces:
    """Return the newest wanted row's place of each of sorted ids that has one."""
    search = _Search(snapshot, wanted, ids)
    search.take_future_dated()
    search.close_ids_of_late_rows()
    search.search_back()
    return search.places()


class _Search:
    """Of each id the best place so far, and the least normal primary seen."""

    def __init__(self, snapshot: ShardSnapshot, wanted: RowFilter, ids: Int32s) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        self._ids = ids
        self._primary = np.full(len(ids), INT64_MIN)
        self._address = np.full(len(ids), -1)
        self._lowest = np.full(len(ids), INT64_MAX)
        self._open_ids = ids

    def places(self) -> RowPlaces:
        """Return the best places."""
        return RowPlaces(self._ids, self._primary, self._address).where(self._address >= 0)

    def take_future_dated(self) -> None:
        """Take the future-dated records, each by its key."""
        wanted = self._wanted
        places = ahead_between(self._snapshot, self._ids, wanted.start, wanted.end)
        gone = without_blocks(self._snapshot, places)
        self._take_copies(places.where(gone))
        for address in np.unique(places.address[~gone]).tolist():
            if wanted.address_start <= address < wanted.address_end:
                zone = self._snapshot.zone_at(address)
                self._take(*self._snapshot.block_at(zone, address), self._ids)

    def close_ids_of_late_rows(self) -> None:
        """Be done with the ids of which a few have at most late rows where it is asked for."""
        begin, ids = self._wanted.address_start, self._ids
        if begin <= self._snapshot.state.born or len(ids) > SEEK_IDS_MAX:
            return
        heads = self._snapshot.heads(ids)
        is_gone = np.maximum(heads.last, heads.address) < begin
        if is_gone.any():
            wanted = replace(self._wanted, ids=ids[is_gone], columns=SORT_COLUMNS)
            for rows in out_of_order_rows(self._snapshot, wanted):
                columns = (rows.column(name).to_numpy() for name in SORT_COLUMNS)
                self._take_rows(RowPlaces(*columns), np.arange(len(rows)))
            self._open_ids = ids[~is_gone]

    def search_back(self) -> None:
        """Take blocks from the newest back until none can hold anything better."""
        wanted = self._wanted
        begin = max(wanted.address_start, _least_address(self._snapshot, wanted.start))
        begin = max(begin, begin_of_ids(self._snapshot, replace(wanted, ids=self._ids)))
        for zone in self._snapshot.zones_back(begin, wanted.address_end):
            if not len(self._open_ids):
                return
            may_hold = zone.may_hold_normal(wanted.start, wanted.end)
            may_hold = may_hold or zone.may_hold_out_of_order(wanted.start, wanted.end)
            if may_hold and zone.may_hold_ids(self._open_ids):
                pieces = self._snapshot.pieces(zone, begin, wanted.address_end, back=True)
                for piece, block in pieces:
                    self._take(piece, block, self._open_ids)
                    self._close_ids(block)
                    if not len(self._open_ids):
                        return

    def _take(self, zone: Zone, block: Block, ids: Int32s) -> None:
        """Take a block's wanted rows of sorted ids where they are better."""
        states = block.states
        unexpired = None if states is None else states != State.EXPIRED
        chosen = replace(self._wanted, ids=ids).choose(zone, block, states=unexpired)
        if chosen is None:
            chosen = np.arange(len(block))
        self._take_rows(RowPlaces(block.secondaries, block.primaries, block.addresses), chosen)

    def _take_copies(self, places: RowPlaces) -> None:
        """Take the wanted ones of future-dated rows whose blocks are gone."""
        late = copies_at(self._snapshot, places)
        if late is not None:
            rows = RowPlaces(late.secondary, late.primary, late.address)
            self._take_rows(rows, self._wanted.choose_late(late))

    def _take_rows(self, rows: RowPlaces, chosen: npt.NDArray[np.int64]) -> None:
        rows = rows.where(chosen).newest()
        places = self._ids.searchsorted(rows.ids)
        primary, address = self._primary[places], self._address[places]
        is_better = rows.primary > primary
        is_better |= (rows.primary == primary) & (rows.address > address)
        places = places[is_better]
        self._primary[places] = rows.primary[is_better]
        self._address[places] = rows.address[is_better]

    def _close_ids(self, block: Block) -> None:
        """Be done with the ids of which no row before this block can be better."""
        secondaries, primaries, states = block.secondaries, block.primaries, block.states
        places = np.minimum(self._ids.searchsorted(secondaries), len(self._ids) - 1)
        mine = self._ids[places] == secondaries
        if states is not None:
            mine &= states == 0
        np.minimum.at(self._lowest, places[mine], primaries[mine])
        jitter = self._snapshot.jitter
        most_before = np.minimum(self._lowest, INT64_MAX - jitter) + jitter
        # IMPORTANT: an equal one before this block may still stand behind one from an ahead
        # record's block.
        is_done = most_before < self._primary
        is_done |= (most_before == self._primary) & (self._address >= block.first)
        is_done |= most_before < self._wanted.start
        self._open_ids = self._ids[~is_done]


def _least_address(snapshot: ShardSnapshot, start: int) -> int:
    """Return the least address that a row from a primary on can have, future-dated records aside.

    A late one lies behind a normal one with a larger primary, which only a cap takes before it.
    """
    if start == INT64_MIN or snapshot.state.cut > snapshot.state.born:
        return 0
    scheme = snapshot.scheme
    windows = snapshot.windows(scheme.of(start), scheme.of(INT64_MAX))
    return min((window.address_min for _, window in windows), default=INT64_MAX)
