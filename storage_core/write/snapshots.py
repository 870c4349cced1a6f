"""Views of a shard that is open for writing: what it shows at the moment of a call.

Any thread may ask, and needs no lock of the shard.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from storage_core.engine.key_value import StoreSnapshot
from storage_core.errors import CorruptionError, ShardlogError
from storage_core.format.shard_state import AddressRange, ShardState
from storage_core.ids.heads.grouping import Int32s
from storage_core.ids.heads.table import HeadTable
from storage_core.read.answer import heads_of, trimmed_rows_of
from storage_core.read.keyed import numbers_in
from storage_core.read.request import ReadRequest
from storage_core.read.snapshot import ShardSnapshot, whole_snapshot
from storage_core.write.guard import ShardGuard
from storage_core.write.opened_shard import OpenedShard, ShardContext
from storage_core.write.writer_state import WriterState


class ShardSnapshots:
    """The ways to look at a shard; each raises once it is closed."""

    def __init__(
        self,
        context: ShardContext,
        opened: OpenedShard,
        guard: ShardGuard,
        progress: Callable[[], WriterState],
        has_index: Callable[[], bool],
    ) -> None:
        """Look at what is open.

        `progress` says how far writing is at this moment, `has_index` whether its index has
        entries.
        """
        self._context = context
        self._trimmed_rows_of = trimmed_rows_of(context.directory)
        self._opened = opened
        self._guard = guard
        self._progress = progress
        self._has_index = has_index

    def committed(self) -> ShardSnapshot:
        """Return what is committed; it is not to be asked for heads."""
        self._guard.refuse_if_closed()
        return self._view_of(self._opened.marker.state.committed, None)

    def with_heads(self, ids: Int32s | None) -> ShardSnapshot:
        """Return what is committed, with the heads of sorted ids (None: of all)."""
        self._guard.refuse_if_closed()
        return self._opened.heads.as_of_committed(ids, self._view_of)

    def asked_for(self, request: ReadRequest) -> ShardSnapshot:
        """Return what is committed, as a request needs it."""
        if request.order != "newest":
            return self.committed()
        if request.keys is not None:
            return self._with_heads_of(request.keys)
        ids = request.ids
        return self.with_heads(None if ids is None else np.unique(np.array(ids, np.int32)))

    def _with_heads_of(self, keys: tuple[bytes | None, ...]) -> ShardSnapshot:
        """Return what is committed, with the heads of keys.

        A key may get its number and its first rows before the heads' moment. A number stays, so
        there is one look more at most for each key.
        """
        numbers: tuple[int, ...] = ()
        while True:
            view = self.with_heads(np.unique(np.array(numbers, np.int32)))
            try:
                previous, numbers = numbers, numbers_in(view, keys)
            except BaseException:
                view.close()
                raise
            if numbers == previous:
                return view
            view.close()

    def whole(self) -> ShardSnapshot:
        """Return all that is written, committed or not."""
        self._guard.refuse_if_closed()
        context = self._context
        store = self._moment()[1]
        return whole_snapshot(
            context.place, context.meta, context.born, store, self._trimmed_rows_of
        )

    def _moment(self) -> tuple[ShardState, StoreSnapshot]:
        """Return where the shard stands, and a view that holds all that this covers.

        IMPORTANT: the state before the view. What expires, the progress says before it is
        deleted: if it says the same behind the view, then no part of the view lacks what another
        part, or the state, speaks of.
        """
        while True:
            state = self._progress().state
            store = self._opened.store.snapshot()
            if _expired_in(state) == _expired_in(self._progress().state):
                return state, store
            store.close()

    def _view_of(self, committed: int, in_memory: HeadTable | None) -> ShardSnapshot:
        state, store = self._moment()
        heads_for = None if in_memory is None else partial(heads_of, in_memory)
        context = self._context
        view = ShardSnapshot(
            context.place, context.meta, state, committed, store, self._trimmed_rows_of, heads_for
        )
        view.has_index = self._has_index()
        view.has_whole_heads = True
        return view


def _expired_in(state: ShardState) -> tuple[int, int, int, int]:
    return state.floor, state.start, state.expired_end, state.generation


@contextmanager
def closing(
    view: ShardSnapshot, note_lost: Callable[[Iterable[AddressRange]], None]
) -> Iterator[ShardSnapshot]:
    """Close a view behind its reader, and record what of it cannot be read."""
    try:
        yield view
    except CorruptionError:
        # Its error is told, whatever becomes of writing it down.
        with suppress(ShardlogError):
            note_lost(view.unreadable)
        raise
    finally:
        view.close()
