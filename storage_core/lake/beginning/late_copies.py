"""The ordered copies of rows that were late or ahead, made of the parts that have these rows."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.format.keys import ahead_key_of
from storage_core.format.late_rows import encode_late_rows
from storage_core.format.part_entry import PartEntry
from storage_core.format.record import Rows, State
from storage_core.format.row_columns import COMMITTED, ENVELOPE, SCHEMA
from storage_core.format.shard_state import AddressRange
from storage_core.format.window import WindowScheme
from storage_core.lake.beginning.joined_zones import OutOfOrderRows
from storage_core.platform.arrow import binary_sizes
from storage_core.read.cold.rows import ColdRows
from storage_core.read.cold.slices import ColdSlice

_COLUMNS: Final = (
    *("secondary", "primary", "payload", "version", "state", "address"),
    *(*ENVELOPE, SCHEMA, COMMITTED),
)
# So many copies are encoded at once: each is some objects of Python.
_ROWS_AT_ONCE: Final = 2**16
Item = tuple[bytes, bytes]


def out_of_order_rows(cold: ColdRows, part: PartEntry) -> pa.RecordBatch:
    """Return the rows of a part that has those out of order, as the log has them, by address."""
    alone = ColdSlice(AddressRange(part.first, part.last + 1), (part,))
    return cold.of_slice(alone, _COLUMNS)


def places_of(rows: pa.RecordBatch) -> OutOfOrderRows:
    """Return what zones and windows need of rows."""
    payload: Any = rows.column("payload")
    is_tombstone = payload.is_null().to_numpy(zero_copy_only=False)
    return OutOfOrderRows(
        rows.column("address").to_numpy(),
        rows.column("primary").to_numpy(),
        rows.column("state").to_numpy(),
        binary_sizes(payload).astype(np.int64),
        is_tombstone,
        _committed(rows),
    )


def copies_of(
    rows: pa.RecordBatch, scheme: WindowScheme
) -> Iterator[tuple[list[Item], list[bytes]]]:
    """Yield the copies of late and ahead rows, some at a time, and the places of those ahead."""
    states = rows.column("state").to_numpy()
    chosen = np.flatnonzero((states == State.LATE) | (states == State.AHEAD))
    for first in range(0, len(chosen), _ROWS_AT_ONCE):
        places: Any = pa.array(chosen[first : first + _ROWS_AT_ONCE])
        some: Any = rows.take(places)
        of_state = some.column("state").to_numpy()
        copies = encode_late_rows(
            _as_rows(some), of_state, some.column("address").to_numpy(), scheme, _committed(some)
        )
        is_ahead = (of_state == State.AHEAD).tolist()
        ahead = [ahead_key_of(key) for (key, _), one in zip(copies, is_ahead, strict=True) if one]
        yield copies, ahead


def _as_rows(rows: pa.RecordBatch) -> Rows:
    columns = {name: rows.column(name) for name in (*ENVELOPE, SCHEMA)}
    return Rows(
        rows.column("secondary").to_numpy(),
        rows.column("primary").to_numpy(),
        rows.column("version").to_numpy(),
        rows.column("payload"),
        {name: column for name, column in columns.items() if column.null_count < len(column)},
    )


def _committed(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - 64-bit integers
    times: Any = rows.column(COMMITTED)
    return times.fill_null(0).to_numpy()
