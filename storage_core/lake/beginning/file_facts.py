"""What a log that begins needs of a file's footer: some numbers for each row group, and no more.

What Parquet's library makes of a footer takes a hundred times as much, and there may be thousands.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.parts.footer import Footer
from storage_core.parts.typed_columns import FRAMING

_BOUNDED: Final = ("primary", "address", "state", "committed_at_ms")
_PAYLOAD: Final = "payload"
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a footer says of the rows of a file.

    Attributes:
        group_rows: How many rows each row group has.
        bounds: The least and the largest value that each has of some columns.
        tombstones: How many rows have no payload.
        decoded_bytes: What all rows take in memory.
        schemas: The numbers of the schemas of their values.
    """

    group_rows: Int64s
    bounds: dict[str, tuple[Int64s, Int64s]]
    tombstones: int
    decoded_bytes: int
    schemas: tuple[int, ...]

    @classmethod
    def of(cls, footer: Footer) -> Self:
        """Return what a footer says."""
        metadata, table = footer.metadata, footer.table
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return cls(
            np.array(rows, np.int64),
            # Not what they were cut out of.
            {
                name: (low.copy(), high.copy())
                for name in _BOUNDED
                for low, high in [table.bounds[name]]
            },
            _tombstones(footer),
            table.decoded_bytes,
            table.schemas,
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.group_rows.sum())

    @property
    def committed_at_ms(self) -> int | None:
        """When the last row was committed; None where the file does not say."""
        least, most = self.between("committed_at_ms")
        return None if (least, most) == (INT64_MIN, INT64_MAX) else most

    def between(self, column: str) -> tuple[int, int]:
        """Return the least and the largest value of a column."""
        least, most = self.bounds[column]
        return int(least.min()), int(most.max())


def _tombstones(footer: Footer) -> int:
    """Return how many rows have no payload: none stored, and none left out."""
    rows = int(footer.metadata.num_rows)
    lacking = _nulls(footer, _PAYLOAD)
    if FRAMING not in footer.schema.names:
        return lacking
    return lacking - (rows - _nulls(footer, FRAMING))


def _nulls(footer: Footer, column: str) -> int:
    """Return how many rows have nothing in a column; all where there is no such column."""
    metadata: Any = footer.metadata
    if column not in footer.schema.names:
        return int(metadata.num_rows)
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    return sum(int(group.column(places[column]).statistics.null_count) for group in groups)
