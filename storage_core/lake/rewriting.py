"""Writes rows of a part anew, with the columns of its table: the visible ones, by pieces.

Row group by row group, so that memory is bounded whatever the part's size is: some row groups, of
at most 16 MiB each, as a sample; then those of one group, and what is not a group yet, of each
piece. The order of rows stays. Floats are not split into streams of bytes: Spark's vectorized
reader of Parquet knows those since 4.3, for which there is no Delta.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.part_entry import FileProof, ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.casts import Casts
from storage_core.parts.part_file import GROUP_BYTES, GROUP_ROWS, PartWriter
from storage_core.parts.row_groups import PartFile
from storage_core.parts.visible_rows import COMPARED_COLUMNS, as_condition, visible_rows

# Row groups from all over a part, by which encodings are chosen.
_SAMPLED_GROUPS: Final = 4
_ADDRESS: Final = "address"
_untyped: Any = pa
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file of the visible rows of a piece.

    Attributes:
        path: The file.
        proof: What proves it.
        rows: How many rows it has.
        first: The least address of them.
        last: The largest.
    """

    path: Path
    proof: FileProof
    rows: int
    first: int
    last: int


class _Piece:
    """The rows of one range of addresses, as they are written."""

    def __init__(self, path: Path, addresses: AddressRange, writer: PartWriter) -> None:
        self.path = path
        self.addresses = addresses
        self._writer = writer
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._first, self._last = addresses.end, addresses.start

    def add(self, rows: pa.Table) -> None:
        """Add the next rows, and write those that make a row group."""
        if not rows.num_rows:
            return
        addresses: Any = rows.column(_ADDRESS).to_numpy()
        self._first = min(self._first, int(addresses.min()))
        self._last = max(self._last, int(addresses.max()))
        self._rows += rows.num_rows
        self._waiting.append(rows)
        waiting: Any = pa.concat_tables(self._waiting)
        if waiting.num_rows >= GROUP_ROWS or waiting.nbytes >= GROUP_BYTES:
            whole = waiting.num_rows // GROUP_ROWS * GROUP_ROWS or waiting.num_rows
            self._writer.write(waiting.slice(0, whole))
            waiting = waiting.slice(whole)
        self._waiting = [waiting]

    def finish(self) -> Rewritten | None:
        """Write what waits and the end of the file; None if it has no rows."""
        if not self._rows:
            return None
        self._writer.write(pa.concat_tables(self._waiting))
        return Rewritten(self.path, self._writer.finish(), self._rows, self._first, self._last)


def rewrite(
    file: PartFile, visible: "Visible", casts: Casts, pieces: Sequence[tuple[AddressRange, Path]]
) -> list[Rewritten]:
    """Write the visible rows of a part, those of each piece as a file of their own.

    Args:
        file: The part's.
        visible: Tells which rows of its shard are visible.
        casts: How its columns become those of the table.
        pieces: Ranges of addresses that do not overlap, each with its file, which is not there yet.

    Returns:
        The files that have rows; the others are removed.

    Raises:
        CorruptionError: The part is damaged.
    """
    names = file.footer.schema.names
    order = ("key" if "secondary" not in names else "secondary", "primary", _ADDRESS)
    sample = casts.rewritten(_sample(file))
    with ExitStack() as stack:
        of_pieces = [
            _Piece(
                path,
                piece,
                stack.enter_context(PartWriter(path, sample, order, has_split_floats=False)),
            )
            for piece, path in pieces
        ]
        del sample
        for rows in _groups(file, range(file.footer.row_groups)):
            is_visible = visible.mask(rows)
            addresses: Any = rows.column(_ADDRESS).to_numpy()
            for piece in of_pieces:
                start, end = piece.addresses.start, piece.addresses.end
                mask = is_visible & (addresses >= start) & (addresses < end)
                if mask.any():
                    piece.add(casts.rewritten(_where(rows, mask)))
        written = [piece.finish() for piece in of_pieces]
    for piece, done in zip(of_pieces, written, strict=True):
        if done is None:
            piece.path.unlink()
    return [done for done in written if done is not None]


class Visible:
    """Tells which rows of a shard are visible."""

    def __init__(self, shard: int, parts: ShardParts) -> None:
        """Take what hides rows of a shard."""
        self._rule = visible_rows({shard: parts})

    def mask(self, rows: pa.Table) -> Mask:
        """Tell which of some rows are visible."""
        columns: dict[str, Any] = {name: rows.column(name).to_numpy() for name in COMPARED_COLUMNS}
        mask: Mask = as_condition(self._rule, columns.__getitem__)
        return mask


def _where(rows: pa.Table, mask: Mask) -> pa.Table:
    if mask.all():
        return rows
    table: pa.Table = rows.filter(_untyped.array(mask))
    return table


def _sample(file: PartFile) -> pa.Table:
    """Return some rows from all over a part."""
    count = file.footer.row_groups
    numbers = sorted({place * count // _SAMPLED_GROUPS for place in range(_SAMPLED_GROUPS)})
    return pa.concat_tables(list(_groups(file, numbers)))


def _groups(file: PartFile, numbers: Sequence[int]) -> Iterator[pa.Table]:
    for number in numbers:
        yield file.read(number, file.footer.schema.names)
