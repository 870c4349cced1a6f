"""External merge sort of rows.

Rows that fit one run stay in memory. More runs are written one after the other to an unnamed
temporary file; merging holds one piece of each run.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.output_formats.pieces import pieces
from connectors.output_formats.whole_file import failing

# How many bytes of rows are sorted at once.
RUN_BYTES: Final = 2**26
_PIECE_BYTES: Final = 2**20
_PIECE_ROWS: Final = 8192
Positions = npt.NDArray[np.intp]
_untyped: Any = pa  # the stubs lack what is made from buffers


def sorted_rows(
    batches: Iterable[pa.RecordBatch],
    by: Sequence[str],
    folder: Path | None = None,
    run_bytes: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of any order sorted by columns, of which no two rows have the same.

    Args:
        batches: The rows.
        by: Columns of integers or bytes, the first the most significant; null comes first.
        folder: Where runs may be kept; the system's directory for such files if None.
        run_bytes: How many bytes of rows are sorted at once; 0 for `RUN_BYTES`.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    with failing("keeping rows to be sorted"), tempfile.TemporaryFile(dir=folder) as file:
        runs = _Runs(file.fileno())
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= (run_bytes or RUN_BYTES):
                runs.add(_sorted(held, by))
                held, size = [], 0
        if not runs.places:
            if held:
                yield _sorted(held, by)
            return
        if held:
            runs.add(_sorted(held, by))
        del held
        yield from merged([runs.read(places) for places in runs.places], by)


def merged(
    sources: Sequence[Iterator[pa.RecordBatch]], by: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sources, each sorted by columns, as one that is sorted by them."""
    pending: dict[int, pa.RecordBatch] = {}
    _fill(pending, sources, range(len(sources)))
    while len(pending) > 1:
        rows = _untyped.concat_batches(list(pending.values()))
        counts = [batch.num_rows for batch in pending.values()]
        ends = np.cumsum(counts)
        order = positions(rows, by)
        ranks = np.empty(len(order), np.intp)
        ranks[order] = np.arange(len(order))
        # Behind the last row at hand of a source anything may follow.
        final = int(ranks[ends - 1].min()) + 1
        yield rows.take(_untyped.array(order[:final]))
        taken = np.bincount(np.searchsorted(ends, order[:final], "right"), minlength=len(ends))
        rest = zip(list(pending), ends - counts, counts, taken, strict=True)
        for source, first, count, gone in rest:
            pending[source] = rows.slice(int(first + gone), int(count - gone))
        _fill(pending, sources, [one for one, batch in pending.items() if not batch.num_rows])
    for source, batch in pending.items():
        yield batch
        yield from sources[source]


def _fill(
    pending: dict[int, pa.RecordBatch],
    sources: Sequence[Iterator[pa.RecordBatch]],
    numbers: Iterable[int],
) -> None:
    for source in numbers:
        batch = next((batch for batch in sources[source] if batch.num_rows), None)
        if batch is None:
            pending.pop(source, None)
        else:
            pending[source] = batch


def positions(rows: pa.RecordBatch, by: Sequence[str]) -> Positions:
    """Return where the rows lie that are first, second, and so on, by columns."""
    keys = [ranks_of(rows.column(name)) for name in by]
    return np.lexsort(keys[::-1])


def ranks_of(column: Any) -> npt.NDArray[np.integer[Any]]:  # noqa: ANN401 - an array
    """Return integers in the order of a column's values, null first."""
    if not pa.types.is_binary(column.type):
        values: npt.NDArray[np.integer[Any]] = column.to_numpy(zero_copy_only=False)
        return values
    coded = column.dictionary_encode()
    order = _untyped.compute.sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    codes: npt.NDArray[np.int32] = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return ranks[codes]


def _sorted(batches: list[pa.RecordBatch], by: Sequence[str]) -> pa.RecordBatch:
    rows: pa.RecordBatch = _untyped.concat_batches(batches)
    order = positions(rows, by)
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take(_untyped.array(order))


class _Runs:
    """Sorted runs in one file, each as where its pieces lie."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._end = 0
        self._schema: pa.Schema | None = None
        self.places: list[list[tuple[int, int]]] = []

    def add(self, run: pa.RecordBatch) -> None:
        self._schema = run.schema
        places = []
        for piece in pieces(run, _PIECE_ROWS, _PIECE_BYTES):
            data = memoryview(piece.serialize())
            places.append((self._end, len(data)))
            self._end += len(data)
            while data:
                data = data[os.write(self._file, data) :]
        self.places.append(places)

    def read(self, places: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        for begin, size in places:
            data = pa.py_buffer(_pread(self._file, begin, size))
            yield _untyped.ipc.read_record_batch(data, self._schema)


def _pread(file: int, begin: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.pread(file, size - len(data), begin + len(data))
        if not more:
            message = "a file of rows to be sorted is shorter than it was"
            raise OSError(message)
        data += more
    return data
