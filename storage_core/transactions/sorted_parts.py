"""Sorted staged rows of one shard, merged in bounded memory: by primary.

Tasks that stage beside each other cut a batch by chance, so that in their order of arrival most
rows of it would come behind later ones of their id, and be late. Each part lies sorted in its
file; here all parts become one order, in which only what is late against earlier batches is
late, and whoever tails the shard meets time going forward. Equal rows stand in the order of the
parts. The same parts give the same order each time: a transaction goes on behind the rows that
it has done.

A part that is no larger than what is read at once is held whole; of others one batch is held,
and nothing is given out above the least end of what they show. Parts beyond what may be held are
merged as a group of their own, behind the ones before; then rows can be late within the batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.catalog.options import PAYLOAD_BYTES_MAX
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.ground.arrow import concat, int_array
from storage_core.transactions.staged_rows import BATCH_BYTES_TARGET, StagedPart

# IMPORTANT: part of the format, as BATCH_BYTES_TARGET is: both decide the order of rows where a
# shard's parts are more. Once one is changed, an unfinished transaction goes on behind wrong rows.
HELD_BYTES_MAX: Final = 64 * 2**20
_GIVEN_BYTES_TARGET: Final = 16 * 2**20


def read_sorted(directory: Path, parts: Sequence[StagedPart]) -> Iterator[Rows]:
    """Yield the rows of a shard's sorted parts that are whole."""
    for group in merge_groups(parts):
        for batch in _merged(directory, group):
            yield rows_from_arrow(batch, PAYLOAD_BYTES_MAX)


def merge_groups(parts: Iterable[StagedPart]) -> list[tuple[StagedPart, ...]]:
    """Cut a shard's parts into stretches that are merged each for itself; mostly it is one."""
    groups: list[tuple[StagedPart, ...]] = []
    held = HELD_BYTES_MAX + 1
    for part in parts:
        size = min(part.size, BATCH_BYTES_TARGET)
        if held + size > HELD_BYTES_MAX:
            groups.append(())
            held = 0
        groups[-1] = (*groups[-1], part)
        held += size
    return groups


def _merged(directory: Path, parts: Sequence[StagedPart]) -> Iterator[pa.RecordBatch]:
    with ExitStack() as files:
        runs = [_Run.begin(directory, part, files) for part in parts]
        while runs:
            taken = _taken(runs)
            runs = [run for run in runs if run.goes_on()]
            yield from _given([one for one in taken if one.num_rows])


def _taken(runs: Sequence["_Run"]) -> list[pa.RecordBatch]:
    """Give out of each part what no row that is still in a file comes before."""
    ends = [(run.last, at) for at, run in enumerate(runs) if run.has_more]
    if not ends:
        return [run.take(run.batch.num_rows) for run in runs]
    limit, limiting = min(ends)
    # Equal rows of the limiting part may follow: those of parts behind it wait for them.
    return [run.take(run.count_to(limit, at <= limiting)) for at, run in enumerate(runs)]


def _given(stretches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield sorted stretches as one, cut to batches of a size."""
    if len(stretches) <= 1:
        yield from stretches
        return
    batch = _as_one(stretches)
    order = np.argsort(batch.column("primary").to_numpy(), kind="stable")
    count = max(1, batch.num_rows * _GIVEN_BYTES_TARGET // max(1, batch.nbytes))
    for start in range(0, len(order), count):
        yield batch.take(int_array(order[start : start + count]))


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; a column that some lack is null in their rows."""
    if all(batch.schema == batches[0].schema for batch in batches):
        return concat(batches)
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    table = pa.concat_tables(tables, promote_options="default")
    (one, *others) = table.combine_chunks().to_batches()
    if others:
        # Values of one column beyond what 32-bit offsets reach stay in several.
        message = f"{table.num_rows} staged rows do not fit in one batch; nothing was dropped"
        raise UnavailableError(message)
    return one


@dataclass(slots=True)
class _Run:
    """One part: the batch at hand, what of it was given out, and how many rows follow it."""

    path: Path
    batches: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch
    rows_left: int
    start: int = 0

    @staticmethod
    def begin(directory: Path, part: StagedPart, files: ExitStack) -> "_Run":
        file = files.enter_context(pa.OSFile(str(directory / part.file), "rb"))
        file.seek(part.start)
        batches = iter(files.enter_context(pa.ipc.open_stream(file)))
        run = _Run(directory / part.file, batches, next(batches), part.rows)
        run.look()
        return run

    @property
    def has_more(self) -> bool:
        return self.rows_left > 0

    @property
    def last(self) -> int:
        return int(self._times()[-1])

    def take(self, end: int) -> pa.RecordBatch:
        """Give out the rows before a place."""
        start, self.start = self.start, max(end, self.start)
        return self.batch.slice(start, self.start - start)

    def count_to(self, limit: int, includes_equal: bool) -> int:  # noqa: FBT001 - one of two sides
        """Return the place behind the rows up to a primary."""
        side: Literal["left", "right"] = "right" if includes_equal else "left"
        return int(np.searchsorted(self._times(), limit, side))

    def goes_on(self) -> bool:
        """Read on where all at hand is given out; tell whether there is anything."""
        if self.start < self.batch.num_rows:
            return True
        if not self.has_more:
            return False
        self.batch, self.start = next(self.batches), 0
        self.look()
        return True

    def look(self) -> None:
        """Count the batch at hand, which must lie by primary: else a merge would lose its place.

        Raises:
            CorruptionError: It does not.
        """
        self.rows_left -= self.batch.num_rows
        times = self._times()
        if not len(times) or bool((times[1:] < times[:-1]).any()):
            message = (
                "staged rows that are called sorted are not; whoever wrote them sorts otherwise"
            )
            raise CorruptionError(message, path=self.path)

    def _times(self) -> npt.NDArray[np.int64]:
        times: npt.NDArray[np.int64] = self.batch.column("primary").to_numpy()
        return times
