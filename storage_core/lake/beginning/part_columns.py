"""Where the rows of a part lie, read where its footer tells too little; wherever its file is."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from storage_core.lake.beginning.table_parts import TablePart
from storage_core.parts.part_home import opener_of
from storage_core.parts.row_groups import PartFile
from storage_core.parts.snapshot import listed_part

Int64s = npt.NDArray[np.int64]


def part_addresses(shard: int, directory: Path, part: TablePart) -> Int64s:
    """Return the addresses of the rows of a part.

    Args:
        shard: The shard.
        directory: Where the files of its parts are that are here.
        part: The part.
    """
    with _opened(shard, directory, part) as file:
        groups = [file.read(group, ("address",)) for group in range(file.footer.row_groups)]
    addresses: Int64s = np.concatenate([rows.column("address").to_numpy() for rows in groups])
    return addresses


def group_rows(shard: int, directory: Path, part: TablePart, group: int) -> tuple[Int64s, Int64s]:
    """Return the primaries and addresses of the rows of a row group."""
    with _opened(shard, directory, part) as file:
        rows = file.read(group, ("primary", "address"))
    return rows.column("primary").to_numpy(), rows.column("address").to_numpy()


def _opened(shard: int, directory: Path, part: TablePart) -> PartFile:
    listed = listed_part(shard, directory, part.entry)
    return PartFile(listed.path, part.entry.proof, opener_of(listed))
