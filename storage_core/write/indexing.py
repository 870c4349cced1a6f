"""What a shard open for writing has to do with its sparse index: it makes it, and hands rows over.

Both are cheap: the rows' numbers are copied, since callers may change what they gave, and the
rest is done elsewhere (index/adaptive_writer.py).
"""

from collections.abc import Callable

from storage_core.catalog.options import StreamOptions
from storage_core.ids.index.adaptive_writer import ShardIndex
from storage_core.ids.index.entries import IndexedRows, WrittenRows
from storage_core.write.guard import ShardGuard
from storage_core.write.opened_shard import OpenedShard, ShardContext
from storage_core.write.plan import Plan


def index_of(
    context: ShardContext,
    options: StreamOptions,
    opened: OpenedShard,
    guard: ShardGuard,
    floor: Callable[[], int],
) -> ShardIndex:
    """Return the index of a shard that is opened; `floor` says the floor at a moment."""
    marker = opened.marker
    return ShardIndex(
        f"{context.meta.name}, shard {context.number}",
        context.meta.scheme,
        options.index,
        opened.state.index,
        write=opened.store.write,
        committed=lambda: marker.state.committed,
        floor=floor,
        fail=guard.fail,
    )


def hand_over(index: ShardIndex, plan: Plan) -> None:
    """Hand the rows of a batch that was written over, if there is an index."""
    judged = plan.judged
    if not (index.is_on and plan.blocks):
        return
    rows = judged.rows
    # IMPORTANT: copies; who gave the rows may change them, and an entry that says what no row
    # is would hide rows. Addresses that were brought along are copies already.
    ids, primaries = rows.secondary.copy(), rows.primary.copy()
    copied = IndexedRows(ids, primaries, judged.addresses, judged.states)
    index.hand_over(WrittenRows(copied, plan.blocks))
