"""The addresses of rows: of a file of the table, and of those of a part that are visible."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from storage_core.format.part_entry import ShardParts
from storage_core.parts.part_proof import read_part
from storage_core.parts.snapshot import Part
from storage_core.parts.visible_rows import (
    COMPARED_COLUMNS,
    as_condition,
    may_hide_rows,
    visible_rows,
)

Addresses = npt.NDArray[np.int64]
_ADDRESS = "address"


def file_addresses(path: Path) -> Addresses:
    """Return the addresses of the rows of a file, in its order.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: It is damaged.
    """
    batches = [_column(batch, _ADDRESS) for batch in read_part(path, (_ADDRESS,))]
    return np.concatenate([np.empty(0, np.int64), *batches])


def visible_addresses(part: Part, parts: ShardParts) -> Addresses:
    """Return the addresses of the visible rows of a part, in its order.

    Raises:
        FileNotFoundError: Its file is gone.
        CorruptionError: It is damaged.
    """
    if not may_hide_rows(part.entry, parts):
        return file_addresses(part.path)
    rule = visible_rows({part.shard: parts})
    visible = [np.empty(0, np.int64)]
    for batch in read_part(part.path, COMPARED_COLUMNS):
        columns = {name: _column(batch, name) for name in COMPARED_COLUMNS}
        visible.append(columns[_ADDRESS][as_condition(rule, columns.__getitem__)])
    return np.concatenate(visible)


def _column(batch: Any, name: str) -> Addresses:  # noqa: ANN401 - a batch of Arrow's
    return cast("Addresses", batch.column(name).to_numpy(zero_copy_only=False))
