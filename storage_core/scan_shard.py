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


def scan_view(
    view: ShardView, request: ReadRequest
) -> Iterator[tuple[pa.RecordBatch, ReadRequest]]:
    """Yield batches, each with the request that goes on behind it."""
    if request.ids is not None and view.bounds.strays == 0:
        # Every row lies where its id routes to, so other ids are not here.
        ids = tuple(value for value in request.ids if value & view.id_mask == view.shard)
        if not ids:
            return
        request = replace(request, ids=ids)
    match request.order:
        case "arrival" | "replay":
            for batch, end in scan_arrival(view, request):
                yield batch, replace(request, start_address=end)
        case "time":
            for batch, last in scan_time(view, request):
                yield batch, replace(request, start=min(last + 1, request.end))
        case "primary":
            for batch in scan_primary(view, request):
                yield batch, request
        case "newest":
            for batch in scan_newest(view, request):
                yield batch, request


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
