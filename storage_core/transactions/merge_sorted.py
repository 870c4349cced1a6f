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
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.catalog.options import PAYLOAD_BYTES_MAX
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.format.row_columns import SCHEMA
from storage_core.format.schema_entry import SchemaEntry
from storage_core.platform.arrow import concat, int_array
from storage_core.transactions.staged_rows import BATCH_BYTES_TARGET, StagedRows, schemas_of_part

# IMPORTANT: part of the format, as BATCH_BYTES_TARGET is: both decide the order of rows where a
# shard's parts are more. Once one is changed, an unfinished transaction goes on behind wrong rows.
HELD_BYTES_MAX: Final = 64 * 2**20
_MERGED_BYTES_TARGET: Final = 16 * 2**20


def read_sorted(directory: Path, parts: Sequence[StagedRows]) -> Iterator[Rows]:
    """Yield the rows of a shard's sorted parts that are whole."""
    for group in merge_groups(parts):
        numbers: dict[SchemaEntry, int] = {}
        for batch in _merged(directory, group, numbers):
            schemas = tuple(numbers) if SCHEMA in batch.schema.names else ()
            yield rows_from_arrow(batch, PAYLOAD_BYTES_MAX, schemas=schemas)


def merge_groups(parts: Iterable[StagedRows]) -> list[tuple[StagedRows, ...]]:
    """Cut a shard's parts into slices that are merged each for itself; mostly it is one."""
    groups: list[tuple[StagedRows, ...]] = []
    held = HELD_BYTES_MAX + 1
    for part in parts:
        size = min(part.size, BATCH_BYTES_TARGET)
        if held + size > HELD_BYTES_MAX:
            groups.append(())
            held = 0
        groups[-1] = (*groups[-1], part)
        held += size
    return groups


def _merged(
    directory: Path, parts: Sequence[StagedRows], numbers: dict[SchemaEntry, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parts, whose schemas count through those that are known of all parts."""
    with ExitStack() as files:
        runs = [_Run(directory, part, files, numbers) for part in parts]
        while runs:
            taken = _taken(runs)
            runs = [run for run in runs if run.goes_on()]
            yield from _merged_batches([batch for batch in taken if batch.num_rows])


def _taken(runs: Sequence["_Run"]) -> list[pa.RecordBatch]:
    """Give out of each part what no row that is still in a file comes before."""
    ends = [(run.times[-1], index) for index, run in enumerate(runs) if run.rows_left]
    if not ends:
        return [run.take(len(run.times)) for run in runs]
    limit, limiting = min(ends)
    # Equal rows of the limiting part may follow: those of parts behind it wait for them.
    sides: list[Literal["left", "right"]] = ["left", "right"]
    return [
        run.take(int(np.searchsorted(run.times, limit, sides[index <= limiting])))
        for index, run in enumerate(runs)
    ]


def _merged_batches(slices: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield sorted slices as one, cut to batches of a size."""
    if len(slices) <= 1:
        yield from slices
        return
    batch = _as_one(slices)
    order = np.argsort(batch.column("primary").to_numpy(), kind="stable")
    count = max(1, batch.num_rows * _MERGED_BYTES_TARGET // max(1, batch.nbytes))
    for start in range(0, len(order), count):
        yield batch.take(int_array(order[start : start + count]))


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; a column that some lack is null in their rows."""
    if all(batch.schema == batches[0].schema for batch in batches):
        return concat(batches)
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    table = pa.concat_tables(tables, promote_options="default")
    (joined, *others) = table.combine_chunks().to_batches()
    if others:
        # Values of one column beyond what 32-bit offsets reach stay in several.
        message = f"{table.num_rows} staged rows do not fit in one batch; nothing was dropped"
        raise UnavailableError(message)
    return joined


class _Run:
    """One part: what is at hand of it and not given out, and how many rows follow that."""

    times: npt.NDArray[np.int64]
    _batch: pa.RecordBatch

    def __init__(
        self, directory: Path, part: StagedRows, files: ExitStack, numbers: dict[SchemaEntry, int]
    ) -> None:
        self._path = directory / part.file
        file = files.enter_context(pa.OSFile(str(self._path), "rb"))
        file.seek(part.start)
        batches = files.enter_context(pa.ipc.open_stream(file))
        schemas = schemas_of_part(batches.schema)
        self._schemas = np.array(
            [numbers.setdefault(one, len(numbers)) for one in schemas], np.int32
        )
        self._batches = iter(batches)
        self.rows_left = part.rows
        self._read()

    def take(self, count: int) -> pa.RecordBatch:
        """Give out rows from the front."""
        taken, self._batch = self._batch.slice(0, count), self._batch.slice(count)
        self.times = self.times[count:]
        return taken

    def goes_on(self) -> bool:
        """Read on where all at hand is given out; tell whether there is anything."""
        if not len(self.times) and self.rows_left:
            self._read()
        return len(self.times) > 0

    def _read(self) -> None:
        """Take the next batch, which must lie by primary: else a merge would lose its place.

        Raises:
            CorruptionError: It does not.
        """
        self._batch = self._placed(next(self._batches))
        self.times = self._batch.column("primary").to_numpy()
        self.rows_left -= len(self.times)
        if not len(self.times) or bool((self.times[1:] < self.times[:-1]).any()):
            message = "staged rows that are marked as sorted are not sorted"
            raise CorruptionError(message, path=self._path)

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch whose schemas count through those of all parts."""
        if (self._schemas == np.arange(len(self._schemas))).all():
            return batch
        index = batch.schema.get_field_index(SCHEMA)
        column = int_array(self._schemas).take(batch.column(index))
        return batch.set_column(index, SCHEMA, column)
