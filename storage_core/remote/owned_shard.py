"""A shard whose log lies in several roots: what a `RemoteShard` is to one.

A read of addresses goes on at another root where one falls silent, from the row behind the last
that was yielded; what is sorted is asked for anew as a whole. All reads end where the shard was
committed when they began, so a partition that moves meanwhile changes nothing in them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVar
from zlib import crc32

import pyarrow as pa

from storage_core.catalog.stream_meta import StreamMeta
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all
from storage_core.format.shard_state import AddressRange
from storage_core.protocol import request_values
from storage_core.read.request import ReadRequest, own_columns
from storage_core.read.shard_reader import ShardFacts
from storage_core.remote.coverage import Segment
from storage_core.remote.merged_answers import merged_by_time, put_together, question_to_each
from storage_core.remote.owners import MOVED, Owners, Root
from storage_core.remote.shard_view import ShardView

T = TypeVar("T")

_GENERATION_BITS: Final = 32
_LOG_BITS: Final = 30


class OwnedShard:
    """Answers reads of one shard by calls of several servers. Any thread."""

    def __init__(self, owners: Owners, view: ShardView, meta: StreamMeta) -> None:
        """Answer by what is known of the shard; what is not to be had is asked for anew."""
        self._owners = owners
        self._view = view
        self._meta = meta

    # --- what it reports -----------------------------------------------------------------------

    def committed(self) -> int:
        """Return the exclusive end of the rows that reads return: its owner's, or more."""
        return self._trying(ShardView.committed)

    def refresh(self) -> int:
        """Return committed; each server follows its writer."""
        return self.committed()

    def start(self) -> int:
        """Return the first address that any root still has, or will have."""
        return self._trying(lambda view: view.whole.start)

    def born(self) -> int:
        """Return the first address that the shard can ever have had in any root."""
        return self._trying(lambda view: view.whole.born)

    def horizon(self) -> tuple[int, int]:
        """Return where the shard starts, and its generation with whose it is."""

        def report(view: ShardView) -> tuple[int, int]:
            root = self._first(view)
            _, generation = root.probes.result("horizon", shard=view.number)
            return view.whole.start, _tagged(root, view.number, int(generation))

        return self._trying(report)

    def state(self) -> ShardFacts:
        """Return what the shard's owner reports of itself, with where the whole log stands.

        Counters are the owner's, and so is what was sealed and trimmed.
        """

        def report(view: ShardView) -> ShardFacts:
            first = self._first(view)
            facts: ShardFacts = first.probes.result("state", shard=view.number)
            if self._is_all_of(first, view):
                return replace(facts, committed=view.end)
            roots = self._owners.roots
            by_root = {
                n: facts
                if roots[n] is first
                else roots[n].probes.result("state", shard=view.number)
                for n in {segment.root for segment in view.whole.segments}
            }
            states = [(by_root[segment.root], segment) for segment in view.whole.segments]
            return replace(
                facts,
                start=view.whole.start,
                committed=view.end,
                lost=tuple(one for state, at in states for one in _clipped(state.lost, at)),
                gaps=tuple(one for state, at in states for one in _clipped(state.gaps, at)),
                passed=tuple(one for state, at in states for one in _clipped(state.passed, at)),
            )

        return self._trying(report)

    def lies_in_one_root(self) -> bool:
        """Tell whether the root that has its newest rows has all of them."""
        return self._trying(lambda view: self._is_all_of(self._first(view), view))

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had in any root, each once."""

        def report(view: ShardView) -> tuple[SchemaEntry, ...]:
            roots = self._roots_of(view) or [self._first(view)]
            return tuple(
                in_order_of_all(
                    root.asks.result("shard_schemas", shard=view.number, registry_id=registry_id)
                    for root in roots
                )
            )

        return self._trying(report)

    def parts(self) -> ShardParts:
        """Refuse: parts are files of one root."""
        message = "parts are files of one root: read each server by itself, or its directory"
        raise InvalidRequestError(message, stream=self._meta.name, shard=self._view.number)

    def expired(self, start: int, end: int, since: int) -> list[tuple[int, int]]:
        """Return what of a range has expired after a generation, or is gone otherwise."""

        def report(view: ShardView) -> list[tuple[int, int]]:
            ranges = view.gone(start, end)
            for segment in view.whole.segments:
                part = segment.within(start, end)
                if part is not None:
                    root = self._owners.roots[part.root]
                    values = {"start": part.start, "end": part.end}
                    values["expired_until"] = _untagged(root, view.number, since)
                    ranges += root.asks.result("missing", shard=view.number, **values)
            return sorted(ranges)

        return self._trying(report)

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        view = self._trying(lambda view: _ended(view, end))
        position, most, backoff = start, view.end_of(end), self._owners.backoff()
        while position < most:
            try:
                segment = _of_dead_letters(view, position, most)
                values = {"shard": view.number, "start": position, "end": segment.end}
                for batch in self._owners.roots[segment.root].asks.batches("dead_letters", values):
                    for dead_letter in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                        yield dead_letter
                        position = dead_letter[0] + 1
                position = segment.end
                backoff.reset()
            except MOVED as error:
                view = self._owners.next_view(view, error, backoff)

    def wait(self, address: int, timeout_s: float, slice_s: float) -> bool | None:
        """Sleep for a while until committed is above an address; None where nobody can be asked."""
        view = self._view
        if view.end > address:
            return True
        if view.owner is None:
            return None
        root = self._owners.roots[view.owner.root]
        wait_s = min(timeout_s, slice_s)
        values = {"shard": view.number, "address": address, "timeout": wait_s}
        try:
            return bool(root.probes.result("wait", wait_s, **values))
        except MOVED:
            return None

    # --- rows ----------------------------------------------------------------------------------

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; never fewer in silence, never one not committed, none twice."""
        columns = own_columns(self._meta, request)
        if request.order in ("arrival", "replay"):
            yield from self._by_address(request, columns)
            return
        if request.order == "time":
            yield from self._by_time(request, columns)
            return
        yield from self._trying(lambda view: self._collected(view, request, columns))

    def close(self) -> None:
        """Nothing is open for a shard alone."""

    def _by_address(
        self, request: ReadRequest, columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        is_replay = request.order == "replay"
        view = self._trying(lambda view: _ended(view, request.end_address))
        end = view.end_of(request.end_address)
        position, backoff = self._begin(view, request), self._owners.backoff()
        # What nobody has is refused before the first row; what falls silent later, once it is next.
        self._trying(lambda view: view.require(position, end, is_replay=is_replay))
        question = replace(request, columns=tuple(dict.fromkeys((*columns, "address"))))
        while position < end:
            try:
                segment = _next_segment(view, position, end)
                begin = end if segment is None else max(segment.start, position + 1)
                view.require(position, begin, is_replay=is_replay)
                if segment is None:
                    return
                part = self._of_segment(view, segment, question)
                for batch in self._batches(part, segment):
                    if batch.num_rows:
                        yield batch.select([*columns])
                        position = int(batch.column("address")[-1].as_py()) + 1
                position = segment.end
                backoff.reset()
            except MOVED as error:
                view = self._owners.next_view(view, error, backoff)

    def _by_time(self, request: ReadRequest, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        def begun(view: ShardView) -> tuple[ShardView, list[Segment]]:
            return view, self._segments(view, request)

        view, segments = self._trying(begun)
        if len(segments) == 1:
            yield from self._batches(self._of_segment(view, segments[0], request), segments[0])
            return
        has_keys = self._meta.has_keys
        question = question_to_each(request, columns, has_keys=has_keys)
        answers = [
            self._batches(self._of_segment(view, segment, question), segment)
            for segment in segments
        ]
        yield from merged_by_time(answers, columns, has_keys=has_keys)

    def _collected(
        self, view: ShardView, request: ReadRequest, columns: tuple[str, ...]
    ) -> list[pa.RecordBatch]:
        """Return the rows of an order that answers at once."""
        segments = self._segments(view, request)
        if len(segments) == 1:
            return self._table(self._of_segment(view, segments[0], request), segments[0])
        has_keys = self._meta.has_keys
        question = question_to_each(request, columns, has_keys=has_keys)
        batches = [
            batch
            for segment in segments
            for batch in self._table(self._of_segment(view, segment, question), segment)
        ]
        if not batches:
            return []
        return [put_together(batches, request, columns, has_keys=has_keys)]

    def _segments(self, view: ShardView, request: ReadRequest) -> list[Segment]:
        """Return who is asked for what, where not all of it is to be had in turn."""
        start, end = self._begin(view, request), view.end_of(request.end_address)
        view.require(start, end, is_replay=False)
        parts = (segment.within(start, end) for segment in view.whole.segments)
        return [part for part in parts if part is not None]

    @staticmethod
    def _begin(view: ShardView, request: ReadRequest) -> int:
        """Return the first address that a request asks for."""
        start, whole = request.start_address, view.whole
        if start is None:
            return whole.start
        return max(start, whole.born) if request.order == "replay" else max(start, whole.start)

    def _of_segment(self, view: ShardView, segment: Segment, request: ReadRequest) -> ReadRequest:
        """Return a request for what one root has of it."""
        start = request.start
        if request.order != "replay" and view.floor > INT64_MIN:
            # Where nobody writes any more nobody lets rows expire either.
            start = max(start, min(view.floor, request.end))
        root = self._owners.roots[segment.root]
        until = request.expired_until
        return replace(
            request,
            start_address=segment.start,
            end_address=segment.end,
            start=start,
            expired_until=_untagged(root, view.number, until) if until else 0,
        )

    def _batches(self, request: ReadRequest, segment: Segment) -> Iterator[pa.RecordBatch]:
        root = self._owners.roots[segment.root]
        return root.asks.batches("scan_shard", request_values(request))

    def _table(self, request: ReadRequest, segment: Segment) -> list[pa.RecordBatch]:
        root = self._owners.roots[segment.root]
        table, _ = root.asks.table("scan_shard", request_values(request))
        return [batch for batch in table.to_batches() if batch.num_rows]

    # --- who is asked --------------------------------------------------------------------------

    def _trying(self, do: Callable[[ShardView], T]) -> T:
        return self._owners.trying(self._view, do)

    def _first(self, view: ShardView) -> Root:
        """Return the root that writes the shard, or else has its newest rows."""
        if view.owner is not None:
            return self._owners.roots[view.owner.root]
        view.committed()
        if view.whole.segments:
            return self._owners.roots[view.whole.segments[-1].root]
        return self._owners.roots[view.pieces[0].root]

    def _is_all_of(self, root: Root, view: ShardView) -> bool:
        return all(one is root for one in self._roots_of(view))

    def _roots_of(self, view: ShardView) -> list[Root]:
        return [self._owners.roots[n] for n in {one.root: None for one in view.whole.segments}]


def _ended(view: ShardView, end_address: int | None) -> ShardView:
    """Return a view that says where a request ends."""
    view.end_of(end_address)
    return view


def _next_segment(view: ShardView, position: int, end: int) -> Segment | None:
    parts = (segment.within(position, end) for segment in view.whole.segments)
    return next((part for part in parts if part is not None), None)


def _of_dead_letters(view: ShardView, position: int, end: int) -> Segment:
    """Return who has the dead letters from an address on; a root keeps them beyond its rows."""
    segment = _next_segment(view, position, end)
    if segment is None:
        root = view.whole.segments[-1].root if view.whole.segments else view.pieces[0].root
        return Segment(root, position, end)
    if segment.start > position:
        return Segment(segment.root, position, segment.end)
    return segment


def _clipped(ranges: tuple[AddressRange, ...], segment: Segment) -> list[AddressRange]:
    parts = (segment.within(one.start, one.end) for one in ranges)
    return [AddressRange(part.start, part.end) for part in parts if part is not None]


def _tagged(root: Root, shard: int, generation: int) -> int:
    """Return a generation with whose it is: that of another log says nothing of this one's."""
    return _tag(root, shard) << _GENERATION_BITS | generation


def _untagged(root: Root, shard: int, generation: int) -> int:
    """Return a generation of this root's log; 0, which is none, of another's."""
    if generation >> _GENERATION_BITS != _tag(root, shard):
        return 0
    return generation & (1 << _GENERATION_BITS) - 1


def _tag(root: Root, shard: int) -> int:
    log = root.facts.lineages.get(shard, "")
    return crc32(f"{root.id}{log}".encode()) % (1 << _LOG_BITS)
