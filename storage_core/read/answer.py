"""The one door from a request to its rows, shared by writers and followers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from storage_core.catalog.stream_meta import StreamMeta
from storage_core.format.block import Block
from storage_core.format.head import decode_heads
from storage_core.format.keys import PREFIX_HEAD, head_key, prefix_end
from storage_core.format.shard_state import AddressRange
from storage_core.format.zone import Zone
from storage_core.ids.dictionaries.routing import shard_of_key
from storage_core.ids.heads.grouping import Int32s
from storage_core.ids.heads.table import Heads, HeadTable
from storage_core.parts.part_home import OpenerOf, opener_of
from storage_core.parts.snapshot import parts_directory
from storage_core.platform.loading import loading
from storage_core.read.keyed import Scanned, by_key, by_number
from storage_core.read.newest.latest import scan_newest
from storage_core.read.newest.latest_by import scan_latest_by
from storage_core.read.request import ReadRequest, own_columns, refuse_unfit
from storage_core.read.row_filter import RowFilter, filter_for
from storage_core.read.scan.scan import scan_arrival, scan_nothing, scan_primary, scan_time
from storage_core.read.schema_columns import SCHEMA_COLUMNS, by_schema_number, with_schemas
from storage_core.read.snapshot import ShardSnapshot, TrimmedRowsOf

if TYPE_CHECKING:
    from storage_core.read.cold.blocks import ColdBlocks
    from storage_core.read.cold.rows import ColdRows


def scan_snapshot(
    snapshot: ShardSnapshot, request: ReadRequest, *, with_ahead: bool = False
) -> Scanned:
    """Return batches, each with how far the scan has come (see `resumed`), None if it is all.

    Args:
        snapshot: The snapshot.
        request: What of it.
        with_ahead: Whether a replay has rows ahead of the clock in the place of their blocks, where
            these have expired.
    """
    refuse_unfit(snapshot.meta, request)
    routed = routed_here(request, snapshot.meta, snapshot.state.tail.counters.strays)
    if routed is None:
        return iter(())
    if not snapshot.meta.has_keys:
        return _scan(snapshot, routed, with_ahead=with_ahead)
    numbered = by_number(snapshot, routed)
    if numbered.ids == ():
        # IMPORTANT: what is gone may have had the first rows of these keys, and their entries.
        return scan_nothing(snapshot, filter_for(snapshot.state, snapshot.committed, numbered))
    scanned = _scan(snapshot, numbered, with_ahead=with_ahead)
    return by_key(scanned, own_columns(snapshot.meta, routed), routed.order)


def _scan(snapshot: ShardSnapshot, request: ReadRequest, *, with_ahead: bool) -> Scanned:
    wanted = filter_for(snapshot.state, snapshot.committed, request)
    wanted = replace(wanted, with_ahead=with_ahead) if with_ahead else wanted
    if not snapshot.state.schemas or SCHEMA_COLUMNS.isdisjoint(wanted.columns):
        return _scan_in_order(snapshot, wanted, request)
    numbered = replace(wanted, columns=by_schema_number(wanted.columns))
    batches = _scan_in_order(snapshot, numbered, request)
    return with_schemas(snapshot, batches, wanted.columns)


def _scan_in_order(snapshot: ShardSnapshot, wanted: RowFilter, request: ReadRequest) -> Scanned:
    match request.order:
        case "arrival" | "replay":
            return scan_arrival(snapshot, wanted)
        case "time":
            return scan_time(snapshot, wanted)
        case "newest":
            return _whole(scan_newest(snapshot, wanted, request.bytes_max))
        case "primary" if request.latest_by is not None:
            return _whole(scan_latest_by(snapshot, wanted, request.latest_by, request))
        case "primary":
            return _whole(scan_primary(snapshot, wanted, request))


def _whole(batches: Iterator[pa.RecordBatch]) -> Scanned:
    """Yield what cannot be gone on with: a scan of it begins anew."""
    return ((batch, None) for batch in batches)


def trimmed_rows_of(shard_directory: Path, opener_of: OpenerOf = opener_of) -> TrimmedRowsOf:
    """Return what gives the rows of blocks that were trimmed, for any snapshot of a shard."""
    return partial(_RowsOfParts, parts_directory(shard_directory), opener_of)


class _RowsOfParts:
    """The rows of a snapshot's parts; what makes them is loaded once a read comes to one."""

    def __init__(self, directory: Path, opener_of: OpenerOf, snapshot: ShardSnapshot) -> None:
        self._directory = directory
        self._opener_of = opener_of
        self._snapshot = snapshot

    def block(self, zone: Zone) -> Block:
        return self._blocks.block(zone)

    def pieces(self, zone: Zone, some: AddressRange, *, back: bool) -> Iterator[tuple[Zone, Block]]:
        return self._blocks.pieces(zone, some, back=back)

    def normal(self, wanted: RowFilter, runs: Sequence[AddressRange]) -> Iterator[pa.RecordBatch]:
        return self._rows.normal(wanted, runs)

    # Only who reads what was trimmed needs them, and they take 100 ms.

    @cached_property
    def _rows(self) -> "ColdRows":
        return _cold_readers(self._snapshot.stream)[0](
            self._snapshot, self._directory, self._opener_of
        )

    @cached_property
    def _blocks(self) -> "ColdBlocks":
        return _cold_readers(self._snapshot.stream)[1](
            self._snapshot, self._directory, self._opener_of
        )


@cache
def _cold_readers(stream: str) -> "tuple[type[ColdRows], type[ColdBlocks]]":
    with loading(stream):
        from storage_core.read.cold.blocks import ColdBlocks  # noqa: PLC0415
        from storage_core.read.cold.rows import ColdRows  # noqa: PLC0415

    return ColdRows, ColdBlocks


def routed_here(request: ReadRequest, meta: StreamMeta, strays: int) -> ReadRequest | None:
    """Return a request without the ids or keys that route to other shards; None if none is left.

    Where ids are not routed, or a shard has strays, rows that do not route to it, all ids stay.
    """
    mask = meta.shard_mask if request.keys is not None else meta.route_mask
    if mask is None or (request.keys is None and (request.ids is None or strays)):
        return request
    keys, ids = request.keys, request.ids
    if keys is not None:
        keys = tuple(key for key in keys if shard_of_key(key, mask) == request.shard)
    elif ids is not None:
        ids = tuple(value for value in ids if value & mask == request.shard)
    if () in (keys, ids):
        return None
    # A request is checked whenever it is made, so one that stays as it is is handed on.
    if (keys, ids) == (request.keys, request.ids):
        return request
    return replace(request, keys=keys, ids=ids)


def resumed(request: ReadRequest, reached: int) -> ReadRequest | None:
    """Return the request for what a scan has not yielded yet, None if that is nothing.

    Args:
        request: What was asked.
        reached: What came with the last batch: an exclusive end of addresses, or a last primary.
    """
    if request.order == "time":
        return None if reached >= request.end else replace(request, start=reached + 1)
    if request.end_address is not None and reached >= request.end_address:
        return None
    return replace(request, start_address=reached)


def heads_of(in_memory: HeadTable, snapshot: ShardSnapshot, ids: Int32s | None) -> Heads:
    """Return the heads of sorted ids (None: of all): those in memory, else those on disk."""
    if ids is None:
        items = list(snapshot.meta_items(PREFIX_HEAD, prefix_end(PREFIX_HEAD)))
        table = HeadTable(capacity=2**62, heads=Heads(*decode_heads(items)))
        if len(in_memory):
            table.put(in_memory.heads)
        return table.heads
    heads, present = in_memory.find(ids)
    absent = np.flatnonzero(~present)
    heads.fill(absent, [snapshot.value_at(head_key(int(one))) for one in ids[absent]])
    return heads
