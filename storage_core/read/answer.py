"""The one door from a request to its rows, shared by writers and followers."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from storage_core.catalog.stream_meta import StreamMeta
from storage_core.format.head import decode_heads
from storage_core.format.keys import PREFIX_HEAD, head_key, prefix_end
from storage_core.ids.heads.grouping import Int32s
from storage_core.ids.heads.table import Heads, HeadTable
from storage_core.parts.snapshot import parts_directory
from storage_core.platform.loading import loading
from storage_core.read.keyed import (
    Scanned,
    by_key,
    by_number,
    keys_routed_here,
    own_columns,
    refuse_unfit,
)
from storage_core.read.newest.latest import scan_newest
from storage_core.read.newest.latest_by import scan_latest_by
from storage_core.read.request import ReadRequest
from storage_core.read.row_filter import RowFilter, filter_for
from storage_core.read.scan.scan import scan_arrival, scan_nothing, scan_primary, scan_time
from storage_core.read.schema_columns import by_schema_number, with_schemas
from storage_core.read.snapshot import ShardSnapshot, TrimmedRows, TrimmedRowsOf


def scan_snapshot(snapshot: ShardSnapshot, request: ReadRequest) -> Scanned:
    """Return batches, each with how far the scan has come (see `resumed`), None if it is all."""
    refuse_unfit(snapshot.meta, request)
    asked = routed_here(request, snapshot.meta, snapshot.state.tail.counters.strays)
    if asked is None:
        return iter(())
    if not snapshot.meta.has_keys:
        return _scan(snapshot, asked)
    numbered = by_number(snapshot, asked)
    if numbered.ids == ():
        # IMPORTANT: what is gone may have had the first rows of these keys, and their entries.
        return scan_nothing(snapshot, filter_for(snapshot.state, snapshot.committed, numbered))
    return by_key(_scan(snapshot, numbered), own_columns(snapshot.meta, asked), asked.order)


def _scan(snapshot: ShardSnapshot, asked: ReadRequest) -> Scanned:
    wanted = filter_for(snapshot.state, snapshot.committed, asked)
    columns = by_schema_number(snapshot, wanted.columns)
    if columns is wanted.columns:
        return _scanned(snapshot, wanted, asked)
    found = _scanned(snapshot, replace(wanted, columns=columns), asked)
    return with_schemas(snapshot, found, wanted.columns)


def _scanned(snapshot: ShardSnapshot, wanted: RowFilter, asked: ReadRequest) -> Scanned:
    match asked.order:
        case "arrival" | "replay":
            return scan_arrival(snapshot, wanted)
        case "time":
            return scan_time(snapshot, wanted)
        case "primary":
            if asked.latest_by is not None:
                found = scan_latest_by(snapshot, wanted, asked.latest_by, asked)
            else:
                found = scan_primary(snapshot, wanted, asked)
            return ((batch, None) for batch in found)
        case "newest":
            return ((batch, None) for batch in scan_newest(snapshot, wanted, asked.bytes_max))


def trimmed_rows_of(shard_directory: Path) -> TrimmedRowsOf:
    """Return what gives the rows of blocks that were trimmed, for any snapshot of a shard."""
    directory = parts_directory(shard_directory)

    def of_parts(snapshot: ShardSnapshot) -> TrimmedRows:
        # Only who reads what was trimmed needs it, and it takes 100 ms.
        with loading(snapshot.stream):
            from storage_core.read.cold.blocks import ColdBlocks  # noqa: PLC0415

        return ColdBlocks(snapshot, directory)

    return of_parts


def routed_here(request: ReadRequest, meta: StreamMeta, strays: int) -> ReadRequest | None:
    """Return a request without the ids or keys that route to other shards; None if none is left.

    Where ids are not routed, or a shard has strays, rows that do not route to it, all ids stay.
    """
    if request.keys is not None:
        return keys_routed_here(request, meta)
    route_mask = meta.route_mask
    if request.ids is None or route_mask is None or strays:
        return request
    ids = tuple(value for value in request.ids if value & route_mask == request.shard)
    if not ids:
        return None
    # A request is checked whenever it is made, so one that stays as it is is handed on.
    return request if len(ids) == len(request.ids) else replace(request, ids=ids)


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
    at = np.flatnonzero(~present)
    heads.fill(at, [snapshot.value_at(head_key(int(one))) for one in ids[at]])
    return heads
