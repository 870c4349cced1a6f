"""SHOW: the rows of a remembered query, of which only those are evaluated that no frame covers.

1. Read the list of frames, and prove each frame. One that is damaged, and those behind it, are made
   again from the log.
2. Evaluate the query above what is covered, over one snapshot of the stream.
3. Keep what is new in a frame, together with small frames before it, and publish the next list.
   Whoever was faster has published theirs; what cannot be kept is answered all the same.
4. Answer with the rows of the frames of 1, then those of 2: each row is in one of them. What has
   expired since, or was given up, is left out.
"""

import logging
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from storage_core import CorruptionError, ShardlogError, UnavailableError
from storage_core.platform.arrow import concat
from storage_core.platform.durable_file import file_errors
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from typed_events.answer import Answer
from typed_events.language.commands import Query
from typed_events.query.located import ADDRESS, PRIMARY, SHARD
from typed_events.query.operands import Side
from typed_events.query.queries import NO_EVENTS, Queries
from typed_events.remembered.frame_list import TRIES_MAX, FrameDirectory, FrameList, LastRow
from typed_events.remembered.frames import Frame, FrameFile, OpenFrame, by_shard
from typed_events.remembered.options import KeepOptions
from typed_events.remembered.shown_rows import (
    Rows,
    Visible,
    answer_schema,
    answered,
    with_columns,
)

_log = logging.getLogger(__name__)
# So many rows are held in memory, and merged into one frame.
MERGED_ROWS_MAX: Final = 131_072
_untyped: Any = pa


class Table:
    """Rows in memory, in the order of places."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        """Take the rows."""
        self._batches = batches
        self.rows = sum(batch.num_rows for batch in batches)

    def batches(
        self, shard: int | None = None, *, are_places_alone: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield them, or those of one shard."""
        del are_places_alone
        for batch in self._batches:
            for of_rows, rows in by_shard(batch):
                if shard is None or of_rows == shard:
                    yield rows


class Showing:
    """One SHOW."""

    def __init__(
        self, directory: FrameDirectory, queries: Queries, keep: KeepOptions, now_ns: int
    ) -> None:
        """Take what it reads."""
        self._directory = directory
        self._queries = queries
        self._keep = keep
        self._now_ns = now_ns
        self._list = FrameList()
        self._open: list[OpenFrame] = []
        self._snapshot: PooledSnapshot | None = None
        self._fields: dict[str, str] = {}
        self._notes: list[str] = []

    def answer(self, query: Query) -> Answer:
        """Return the rows."""
        self._list, self._open = self._proved()  # 1
        located = self._queries.located(query, self.begins)  # 2
        held: list[pa.RecordBatch] = []
        count = 0
        try:
            for batch in located.batches:
                held.append(batch)
                count += batch.num_rows
                if count > MERGED_ROWS_MAX:
                    break
            schema = answer_schema(located.schema)
            if self._snapshot is None:
                return Answer(message=NO_EVENTS, schema=schema)
            visible = Visible(self._snapshot, self._keep, self._now_ns)
            if count > MERGED_ROWS_MAX:
                rows = chain(held, located.batches)
                new = self._keep_many(rows, located.schema, visible)
            else:
                new = [Table(held)]
        finally:
            located.batches.close()
        sources: list[Rows] = [*self._open, *new]
        visible.keep_newest(sources, self._keep.rows)
        if count <= MERGED_ROWS_MAX:
            self._keep_few(held, located.schema, visible)  # 3
        return self._answer(sources, visible, schema)  # 4

    def _proved(self) -> tuple[FrameList, list[OpenFrame]]:
        for _ in range(TRIES_MAX):
            listed = self._directory.current()
            opened: list[OpenFrame] = []
            for number, frame in enumerate(listed.frames):
                path = self._directory.path / frame.file
                try:
                    with file_errors(path, "reading a frame"):
                        opened.append(OpenFrame.proved(self._directory.path, frame))
                except (CorruptionError, UnavailableError) as error:
                    if self._directory.current().generation != listed.generation:
                        # It was merged, and deleted.
                        break
                    self._note(f"a frame was damaged and is made again from the log: {error}")
                    return listed.before(number), opened
            else:
                return listed, opened
        message = "the frames change faster than they can be read; try again"
        raise UnavailableError(message, path=self._directory.path)

    def begins(self, snapshot: PooledSnapshot | None, side: Side) -> dict[int, int]:
        """Return where no frame covers the shards any more."""
        self._snapshot = snapshot
        self._fields = {name: str(operand.type) for name, operand in side.fields.items()}
        if snapshot is None:
            return {}
        current = self._list.as_of(snapshot, self._fields, self._digests)
        if current is not self._list:
            self._list, self._open = current, []
        return {shard: current.covered.get(shard, 0) for shard in snapshot.settled}

    # --- keeping what is new -------------------------------------------------------------------

    def _keep_many(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, visible: Visible
    ) -> list[Rows]:
        """Write rows to a frame while they are made, and return them."""
        above: list[pa.RecordBatch] = []
        file = self._new_file(schema)
        newest = 0
        try:
            for batch in batches:
                settled, rest = self._divided(batch)
                with file_errors(self._directory.path, "writing a frame"):
                    file.add([settled])
                newest = max(newest, _newest([settled]))
                above += [rest] if rest.num_rows else []
            if not file.rows:
                file.discard()
                return [Table(above)]
            with file_errors(self._directory.path, "writing a frame"):
                frame, opened = file.finish(newest, self._starts(), self._ends())
        except BaseException:
            file.discard()
            raise
        if not self._publish([*self._list.frames, frame], visible):
            file.discard()
        return [opened, Table(above)]

    def _keep_few(self, batches: list[pa.RecordBatch], schema: pa.Schema, visible: Visible) -> None:
        """Write rows to a frame, with small frames before them; what fails is told."""
        settled = [rows for batch in batches if (rows := self._divided(batch)[0]).num_rows]
        if not settled and self._ends() == self._list.covered:
            return
        try:
            if not settled:
                self._publish([*self._list.frames], visible)
                return
            frames, rows, starts = self._merged(settled, schema, visible)
            file = self._new_file(schema)
            try:
                with file_errors(self._directory.path, "writing a frame"):
                    file.add([rows])
                    frame, _ = file.finish(_newest([rows]), starts, self._ends())
            except BaseException:
                file.discard()
                raise
            if not self._publish([*frames, frame], visible):
                file.discard()
        except ShardlogError as error:
            self._note(f"the rows could not be kept: {error}")

    def _merged(
        self, batches: list[pa.RecordBatch], schema: pa.Schema, visible: Visible
    ) -> tuple[list[Frame], pa.RecordBatch, dict[int, int]]:
        """Return the frames that stay, the rows of the new one, and where its range begins.

        Frames at the end are merged while they are about as small, so that each row is written a
        few times only, and there are few frames.
        """
        frames, opened = [*self._list.frames], [*self._open]
        starts = self._starts()
        count = sum(batch.num_rows for batch in batches)
        while frames and frames[-1].rows <= 2 * count:
            if count + frames[-1].rows > MERGED_ROWS_MAX:
                break
            frame = frames.pop()
            before = [with_columns(visible.filtered(b), schema) for b in opened.pop().batches()]
            batches = before + batches
            count += frame.rows
            starts = dict(frame.starts)
        together = concat(batches)
        order = [(SHARD, "ascending"), (ADDRESS, "ascending")]
        rows: pa.RecordBatch = _untyped.RecordBatch.sort_by(together, order)
        return frames, rows, starts

    def _new_file(self, schema: pa.Schema) -> FrameFile:
        path = self._directory.new_frame(self._list.generation + 1)
        with file_errors(path, "writing a frame"):
            return FrameFile(path, schema)

    def _publish(self, frames: list[Frame], visible: Visible) -> bool:
        """Publish the next list; tell whether nobody was faster."""
        assert self._snapshot is not None
        listed = FrameList(
            self._list.generation + 1,
            self._snapshot.incarnation,
            {shard: place.lineage for shard, place in self._snapshot.settled.items()},
            self._ends(),
            self._last_rows(),
            self._fields,
            tuple(frame for frame in frames if not visible.hides_up_to(frame.newest)),
        )
        return self._directory.publish(listed)

    def _digests(self, addresses: Mapping[int, int]) -> dict[int, str | None]:
        assert self._snapshot is not None
        return self._queries.row_digests(self._snapshot, addresses)

    def _last_rows(self) -> dict[int, LastRow]:
        addresses = {shard: end - 1 for shard, end in self._ends().items()}
        digests = self._digests(addresses)
        return {n: LastRow(addresses[n], digest) for n, digest in digests.items()}

    def _starts(self) -> dict[int, int]:
        return dict(self._list.covered)

    def _ends(self) -> dict[int, int]:
        assert self._snapshot is not None
        return {shard: place.address for shard, place in self._snapshot.settled.items()}

    def _divided(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the rows that later snapshots show as well, with none between; and the others."""
        ends = self._ends()
        parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        for shard, rows in by_shard(batch):
            addresses = rows.column(rows.schema.get_field_index(ADDRESS)).to_numpy()
            place = int(addresses.searchsorted(ends[shard]))
            parts[0].append(rows.slice(0, place))
            parts[1].append(rows.slice(place))
        below, above = (concat(each) if each else batch.slice(0, 0) for each in parts)
        return below, above

    def _note(self, note: str) -> None:
        _log.warning("%s", note)
        self._notes.append(" ".join(note.split("\n")))

    # --- the answer ----------------------------------------------------------------------------

    def _answer(self, sources: list[Rows], visible: Visible, schema: pa.Schema) -> Answer:
        assert self._snapshot is not None
        batches = answered(sources, visible, sorted(self._snapshot.settled), schema)
        first = next(batches, None)
        message = NO_EVENTS if first is None else "OK"
        message = "; ".join([message, *self._notes])
        return Answer(message=message, schema=schema, batches=_with_first(first, batches))


def _with_first(
    first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from rest


def _newest(batches: list[pa.RecordBatch]) -> int:
    """Return the largest primary of some rows."""
    largest = 0
    for batch in batches:
        if batch.num_rows:
            primaries = batch.column(batch.schema.get_field_index(PRIMARY)).to_numpy()
            largest = max(largest, int(primaries.max()))
    return largest
