"""The images of parts: the files that stand for them in a Delta table (image_names.py).

A part is uploaded as it lies if each of its rows is visible and of one piece, and every engine
reads its columns as those of the table. Else its visible rows are written again (rewriting.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import FileProof, PartEntry, ShardParts
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import image_name, whole_image_name
from storage_core.lake.rewriting import Visible, rewrite
from storage_core.lake.statistics import statistics_of
from storage_core.lake.table_columns import TableColumns
from storage_core.parts.footer import Footer
from storage_core.parts.part_proof import digest_of
from storage_core.parts.row_groups import PartFile
from storage_core.parts.snapshot import Part
from storage_core.parts.visible_rows import may_hide_rows

_SPLIT: Final = "BYTE_STREAM_SPLIT"
_EXPIRED: Final = np.array([State.EXPIRED])


@dataclass(frozen=True, slots=True)
class Image:
    """A file that is ready to be uploaded.

    Attributes:
        path: Its place in the table.
        source: Where it lies.
        size: How large it is.
        rows: How many rows it has.
        stats: What Delta says of its values, as JSON.
    """

    path: str
    source: Path
    size: int
    rows: int
    stats: str


def images(
    part: Part,
    parts: ShardParts,
    columns: TableColumns,
    pieces: Sequence[AddressRange],
    scratch: Path,
) -> list[Image]:
    """Return the images of a part: one for each piece that has visible rows.

    Args:
        part: The part.
        parts: What hides rows of its shard.
        columns: Those of the table.
        pieces: Ranges of addresses that do not overlap, in order. Rows beyond them are left out.
        scratch: A directory for what is rewritten; whoever calls removes the files.

    Raises:
        FileNotFoundError: The part is gone.
        CorruptionError: It is damaged.
        InvalidRequestError: This process has no right to read it.
        UnavailableError: The system cannot read it now, or a schema was added meanwhile.
    """
    entry, shard = part.entry, part.shard
    with PartFile(part.path, entry.proof) as file:
        schema = file.footer.schema
        is_whole = any(piece.start <= entry.first and entry.last < piece.end for piece in pieces)
        if is_whole and columns.casts(schema) is None and _is_fit_as_it_lies(entry, parts, file):
            _refuse_damaged(part)
            stats = statistics_of(file, columns.schema)
            place = whole_image_name(shard, entry)
            return [Image(place, part.path, entry.size, entry.rows, stats)]
        name = f"{shard}-{entry.number}-{entry.digest.hex()}"
        pairs = [(piece, scratch / f"{name}-{n}.parquet") for n, piece in enumerate(pieces)]
        for _, path in pairs:
            # Of an attempt that died.
            path.unlink(missing_ok=True)
        files = rewrite(file, Visible(shard, parts), columns.casts_of(schema), pairs)
    return [
        Image(
            image_name(shard, entry, made.first, made.last, made.proof.digest.hex()),
            made.path,
            made.proof.size,
            made.rows,
            _statistics(made.path, made.proof, columns.schema),
        )
        for made in files
    ]


def _is_fit_as_it_lies(entry: PartEntry, parts: ShardParts, file: PartFile) -> bool:
    """Tell whether no row of a part is hidden, and every engine knows its encodings."""
    if may_hide_rows(replace(entry, is_out_of_order=False), parts):
        return False
    has_expired = entry.is_out_of_order and file.footer.may_have("state", _EXPIRED).any()
    return not has_expired and not _has_split_floats(file.footer)


def _has_split_floats(footer: Footer) -> bool:
    """Tell whether floats are streams of bytes, which Spark's vectorized reader does not know."""
    metadata: Any = footer.metadata
    group = metadata.row_group(0)
    return any(_SPLIT in group.column(n).encodings for n in range(metadata.num_columns))


def _refuse_damaged(part: Part) -> None:
    """Refuse to upload a file that is not the one that was published.

    Raises:
        CorruptionError: It differs.
    """
    if digest_of(part.path) != part.entry.digest:
        message = "a part is not as it was published; it is not uploaded"
        raise CorruptionError(message, path=part.path)


def _statistics(path: Path, proof: FileProof, table: pa.Schema) -> str:
    with PartFile(path, proof) as file:
        return statistics_of(file, table)
