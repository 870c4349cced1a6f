"""Which rows a request wants, as one value that is asked of zones, blocks and late rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from storage_core.format.block import Block
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.late_rows import LateRows
from storage_core.format.row_columns import READ_COLUMNS, TAIL_COLUMNS
from storage_core.format.shard_state import ShardState
from storage_core.format.zone import Zone, ZoneChunk
from storage_core.read.columns import Positions
from storage_core.read.request import ReadRequest

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows a request wants, and which columns of them.

    A replay shows expired rows too, and begins below the floor. One `with_ahead` also shows rows
    ahead of the clock that outlived their blocks, and passes by what expired below the log's start.
    """

    start: int
    end: int
    address_start: int
    address_end: int
    ids: Int32s | None
    versions: npt.NDArray[np.uint16] | None
    columns: tuple[str, ...]
    is_replay: bool
    expired_until: int = 0
    with_ahead: bool = False
    # Of rows that belong to keys: those that `ids` has the numbers of, None for no key.
    keys: tuple[bytes | None, ...] | None = None

    @property
    def is_all_primaries(self) -> bool:
        """Tell whether every primary is wanted."""
        return self.start == INT64_MIN and self.end == INT64_MAX

    def wants_zones(self, chunk: ZoneChunk, *, out_of_order: bool) -> Mask:
        """Tell which blocks can hold a wanted primary, and a wanted id where they have one id."""
        fields = chunk.fields
        wanted: Mask = np.ones(len(fields), dtype=np.bool_)
        if not self.is_all_primaries:
            wanted = (fields["primary_min"] <= self.end) & (fields["primary_max"] >= self.start)
            if out_of_order:
                wanted |= (fields["out_of_order_min"] <= self.end) & (
                    fields["out_of_order_max"] >= self.start
                )
        if self.ids is not None:
            wanted &= chunk.may_hold_ids(self.ids)
        return wanted

    def wants_ids_of(self, zone: Zone) -> bool:
        """Tell whether a block can hold a wanted id."""
        return self.ids is None or zone.may_hold_ids(self.ids)

    def has_version(self, block: Block) -> Mask:
        """Tell of each row whether it has a wanted version."""
        versions = block.versions
        if versions is None:
            versions = np.zeros(len(block), dtype=np.uint16)
        if self.versions is None:
            return np.ones(len(block), dtype=np.bool_)
        return np.isin(versions, self.versions)

    def choose(self, zone: Zone, block: Block, *, states: Mask | None) -> Positions | None:
        """Return the positions of wanted rows among those `states` admits; None for all."""
        mask = states
        is_inside = self.is_all_primaries or (
            self.start <= zone.primary_min
            and zone.primary_max <= self.end
            and zone.out_of_order_min > zone.out_of_order_max
        )
        if not is_inside:
            primaries = block.primaries
            mask = _both(mask, (primaries >= self.start) & (primaries <= self.end))
        if self.ids is not None:
            mask = _both(mask, _is_among(block.secondaries, self.ids))
        if self.versions is not None:
            mask = _both(mask, self.has_version(block))
        if zone.first < self.address_start or zone.last >= self.address_end:
            addresses = block.addresses
            mask = _both(mask, (addresses >= self.address_start) & (addresses < self.address_end))
        if mask is None or mask.all():
            return None
        return np.flatnonzero(mask)

    def choose_late(self, late: LateRows) -> Positions:
        """Return the positions of wanted rows among copies of late and future-dated ones."""
        return np.flatnonzero(
            self.choose_rows(late.secondary, late.primary, late.address, late.fields["version"])
        )

    def choose_rows(
        self, secondaries: Int32s, primaries: Int64s, addresses: Int64s, versions: npt.NDArray[Any]
    ) -> Mask:
        """Tell which rows are wanted."""
        mask: Mask = (primaries >= self.start) & (primaries <= self.end)
        mask &= (addresses >= self.address_start) & (addresses < self.address_end)
        if self.ids is not None:
            mask &= _is_among(secondaries, self.ids)
        if self.versions is not None:
            mask &= np.isin(versions, self.versions)
        return mask


def filter_for(state: ShardState, committed: int, request: ReadRequest) -> RowFilter:
    """Return a request clipped to the rows that reads return."""
    first, last = request.start_address, request.end_address
    is_replay = request.order == "replay"
    columns = TAIL_COLUMNS if is_replay else READ_COLUMNS
    return RowFilter(
        request.start if is_replay else max(request.start, state.floor),
        request.end,
        # Below its birth a shard never had anything, so there is nothing to miss there. Rows that
        # are future-dated outlive their blocks, so what is no replay begins below the log.
        _begin(state, first, is_replay=is_replay),
        committed if last is None else min(last, committed),
        None if request.ids is None else np.unique(np.array(request.ids, dtype=np.int32)),
        None if request.versions is None else np.array(request.versions, dtype=np.uint16),
        columns if request.columns is None else request.columns,
        is_replay=is_replay,
        expired_until=request.expired_until,
        keys=request.keys,
    )


def _begin(state: ShardState, first: int | None, *, is_replay: bool) -> int:
    if is_replay:
        return state.start if first is None else max(first, state.born)
    return state.cut if first is None else max(first, state.cut)


def _is_among(values: Int32s, ids: Int32s) -> Mask:
    if len(ids) == 1:
        single: Mask = values == ids[0]
        return single
    return np.isin(values, ids)


def _both(left: Mask | None, right: Mask) -> Mask:
    return right if left is None else left & right
