"""The windows of a log that begins from its table: never narrower than its rows, maybe wider.

A row group of a part says between which primaries and addresses its rows lie. Each window between
these primaries may have rows at any of these addresses; rows are shared out among them evenly. Of
row groups that reach over very many windows the rows themselves are asked for.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.record import State
from storage_core.format.window import Window, WindowScheme, summarise
from storage_core.lake.beginning.joined_zones import OutOfOrderRows
from storage_core.lake.beginning.table_parts import TablePart

# Of one row group; mostly it reaches over one or two.
WINDOWS_MAX: Final = 256
Int64s = npt.NDArray[np.int64]
# Returns the primaries and addresses of the rows of one row group of a part.
GroupRows = Callable[[TablePart, int], tuple[Int64s, Int64s]]


def windows_of(
    parts: Iterable[TablePart],
    out_of_order: OutOfOrderRows,
    scheme: WindowScheme,
    group_rows: GroupRows,
) -> dict[int, Window]:
    """Return the windows of all rows of a log.

    Args:
        parts: Those in order; those out of order do not count.
        out_of_order: The rows of these.
        scheme: How primaries fall into windows.
        group_rows: Reads a row group.
    """
    sizes = np.clip(out_of_order.payload_bytes, 0, 2**31 - 1).astype(np.int32)
    windows = summarise(
        scheme, out_of_order.primary, out_of_order.address, sizes, out_of_order.state
    )
    for part in parts:
        if part.is_out_of_order:
            continue
        for group in range(len(part.facts.group_rows)):
            for number, window in _of_group(part, group, scheme, group_rows).items():
                windows[number] = windows.get(number, Window()).widened(window)
    return windows


def _of_group(
    part: TablePart, group: int, scheme: WindowScheme, group_rows: GroupRows
) -> dict[int, Window]:
    facts, rows = part.facts, int(part.facts.group_rows[group])
    size = facts.decoded_bytes * rows // max(1, part.entry.rows)
    low, high = (int(bound[group]) for bound in facts.bounds["primary"])
    first, last = scheme.of(low), scheme.of(high)
    if last - first < WINDOWS_MAX:
        count = last - first + 1
        begin, end = (int(bound[group]) for bound in facts.bounds["address"])
        # Rounded up: none has fewer than nothing.
        window = Window(begin, end, -(-rows // count), 0, size // count)
        return dict.fromkeys(range(first, last + 1), window)
    primaries, addresses = group_rows(part, group)
    order = np.argsort(addresses)
    sizes = np.full(rows, min(size // rows, 2**31 - 1), np.int32)
    states = np.full(rows, State.NORMAL, np.uint8)
    return summarise(scheme, primaries[order], addresses[order], sizes, states)
