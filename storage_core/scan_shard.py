"""The one door from a request to its rows, shared by writers and followers."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from storage_core.heads import Heads, HeadTable, decode_head
from storage_core.keys import PREFIX_HEAD, decode_head_key, prefix_end
from storage_core.newest import scan_newest
from storage_core.read_request import ReadRequest
from storage_core.scan import scan_arrival, scan_primary, scan_time
from storage_core.shard_view import ShardView


def scan_view(view: ShardView, request: ReadRequest) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """Return batches, each with how far the scan has come (see `resumed`), None if it is all."""
    asked = routed_here(request, view.route_mask, view.bounds.strays)
    if asked is None:
        return iter(())
    match asked.order:
        case "arrival" | "replay":
            return scan_arrival(view, asked)
        case "time":
            return scan_time(view, asked)
        case "primary":
            return ((batch, None) for batch in scan_primary(view, asked))
        case "newest":
            return ((batch, None) for batch in scan_newest(view, asked))


def routed_here(request: ReadRequest, route_mask: int | None, strays: int) -> ReadRequest | None:
    """Return a request without the ids that route to other shards; None if no id is left.

    Where ids are not routed, or a shard has strays, rows that do not route to it, all ids stay.
    """
    if request.ids is None or route_mask is None or strays:
        return request
    ids = tuple(value for value in request.ids if value & route_mask == request.shard)
    return replace(request, ids=ids) if ids else None


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


def all_heads(view: ShardView, in_memory: Heads) -> Heads:
    """Return the heads on disk with those in memory laid over them."""
    rows = [
        (decode_head_key(key), *decode_head(value))
        for key, value in view.meta_items(PREFIX_HEAD, prefix_end(PREFIX_HEAD))
    ]
    table = HeadTable(capacity=2**62)
    if rows:
        ids, primary, address, last = (np.array(column) for column in zip(*rows, strict=True))
        table.put(Heads(ids.astype(np.int32), primary, address, last))
    if len(in_memory.ids):
        table.put(in_memory)
    return table.heads
