"""The heads of some rows, as columns: what tells whether a later row of an id is late.

    secondary int32, or key binary      the id; a key may be null
    primary, address                    of its normal rows the largest primary, and the last address
                                        that has it
    last                                the address of its last normal row

Where an id has no normal row `primary` is the least there is, and both addresses are -1.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.format.keys import INT64_MIN
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange
from storage_core.parts.part_home import opener_of
from storage_core.parts.row_groups import PartFile
from storage_core.parts.snapshot import Part
from storage_core.platform.arrow import Array, one_array

NONE: Final = -1
_KEY: Final = "key"
_SECONDARY: Final = "secondary"
# Of a row group, what is not merged with the heads of the others yet.
_WAITING_MAX: Final = 2**20
_untyped: Any = pa
_compute: Any = pc
Int64s = npt.NDArray[np.int64]


def no_heads(*, has_keys: bool) -> pa.Table:
    """Return the heads of no rows."""
    name, kind = (_KEY, pa.binary()) if has_keys else (_SECONDARY, pa.int32())
    none = np.empty(0, np.int64)
    return _table(name, _untyped.array([], kind), none, none, none)


def heads_of_rows(rows: pa.Table, *, has_keys: bool) -> pa.Table:
    """Return the heads of rows, ascending by id, null first.

    Args:
        rows: Rows with an id, `primary`, `address` and `state`, in any order.
        has_keys: Whether they belong to keys.
    """
    states: Any = rows.column("state").to_numpy()
    primaries: Any = rows.column("primary").to_numpy()
    addresses: Any = rows.column("address").to_numpy()
    is_normal = states == State.NORMAL
    if not is_normal.all():
        primaries = np.where(is_normal, primaries, INT64_MIN)
        addresses = np.where(is_normal, addresses, NONE)
    name = _KEY if has_keys else _SECONDARY
    return _newest(name, one_array(rows.column(name)), primaries, addresses, addresses)


def merged_heads(heads: Sequence[pa.Table]) -> pa.Table:
    """Return the heads of all rows of which these are heads, ascending by id, null first.

    Rows may be counted several times. Of equal primaries the higher address is taken.
    """
    some = [table for table in heads if table.num_rows] or list(heads[:1])
    name = some[0].schema.names[0]
    if len(some) == 1:
        return some[0]
    together: Any = pa.concat_tables(some)
    columns: list[Any] = [column.to_numpy() for column in together.columns[1:]]
    return _newest(name, one_array(together.column(0)), *columns)


def heads_above(heads: pa.Table, floor: int) -> pa.Table:
    """Return the heads whose rows have not expired; of keys all, since any may have other rows."""
    if heads.schema.names[0] == _KEY:
        return heads
    primaries: Any = heads.column("primary").to_numpy()
    places: Any = heads.column("address").to_numpy()
    is_live = (primaries >= floor) & (places != NONE)
    live: pa.Table = heads if is_live.all() else heads.filter(_untyped.array(is_live))
    return live


class CollectedHeads:
    """The heads of rows of which some come after others. One thread."""

    def __init__(self, *, has_keys: bool) -> None:
        """Begin with no rows."""
        self._has_keys = has_keys
        self._merged = no_heads(has_keys=has_keys)
        self._waiting: list[pa.Table] = []
        self._waiting_count = 0

    def add_part(self, part: Part, addresses: AddressRange) -> None:
        """Add the rows that a part has in a range of addresses.

        Raises:
            FileNotFoundError: The part is gone.
            CorruptionError: It is damaged.
            UnavailableError: It cannot be read now.
        """
        columns = (_KEY if self._has_keys else _SECONDARY, "primary", "address", "state")
        is_within = addresses.start <= part.entry.first and part.entry.last < addresses.end
        with PartFile(part.path, part.entry.proof, opener_of(part)) as file:
            for group in range(file.footer.row_groups):
                rows = file.read(group, columns)
                self.add(
                    heads_of_rows(
                        rows if is_within else _between(rows, addresses), has_keys=self._has_keys
                    )
                )

    def add(self, heads: pa.Table) -> None:
        """Add the heads of some rows."""
        self._waiting.append(heads)
        self._waiting_count += heads.num_rows
        # What is merged doubles, so that each head is merged some times.
        if self._waiting_count > max(_WAITING_MAX, self._merged.num_rows):
            self.all()

    def all(self) -> pa.Table:
        """Return the heads of all rows so far."""
        self._merged = merged_heads([self._merged, *self._waiting])
        self._waiting, self._waiting_count = [], 0
        return self._merged


def _between(rows: pa.Table, addresses: AddressRange) -> pa.Table:
    places: Any = rows.column("address").to_numpy()
    mask = (places >= addresses.start) & (places < addresses.end)
    within: pa.Table = rows.filter(_untyped.array(mask))
    return within


def _newest(
    name: str,
    ids: Array,
    primaries: Int64s,
    addresses: Int64s,
    lasts: Int64s,
) -> pa.Table:
    """Return of each id the largest primary, the last address that has it, and the last of all."""
    if not len(ids):
        return _table(name, ids, primaries, addresses, lasts)
    codes = _codes(ids)
    order = None
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        codes, primaries = codes[order], primaries[order]
        addresses, lasts = addresses[order], lasts[order]
    starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1))
    most = np.maximum.reduceat(primaries, starts)
    counts = np.diff(starts, append=len(codes))
    having_most = np.where(primaries == np.repeat(most, counts), addresses, NONE)
    newest = np.maximum.reduceat(having_most, starts)
    last = np.maximum.reduceat(lasts, starts)
    distinct = ids.take(_untyped.array(starts if order is None else order[starts]))
    return _sorted(_table(name, distinct, most, newest, last))


def _codes(ids: Array) -> npt.NDArray[Any]:
    """Return a number for each id, the same for the same."""
    if pa.types.is_integer(ids.type):
        numbers: npt.NDArray[Any] = ids.to_numpy()
        return numbers
    some: Any = ids[ids.null_count :]
    if not some.null_count and _compute.all(_compute.less_equal(some[:-1], some[1:])).as_py():
        # As parts have them: no key is hashed.
        changes = np.zeros(len(ids), np.intp)
        changes[ids.null_count :][:1] = 1
        changes[ids.null_count + 1 :] = _compute.not_equal(some[1:], some[:-1]).to_numpy(
            zero_copy_only=False
        )
        return changes.cumsum()
    encoded: Any = ids.dictionary_encode(null_encoding="encode")
    codes: npt.NDArray[Any] = encoded.indices.to_numpy()
    return codes


def _sorted(heads: pa.Table) -> pa.Table:
    """Return heads of distinct ids in order; mostly they are."""
    ids: Any = one_array(heads.column(0))
    some = ids[ids.null_count :]
    is_sorted = pa.types.is_integer(ids.type) or (
        not some.null_count
        and _compute.all(_compute.less(some[:-1], some[1:])).as_py() is not False
    )
    if is_sorted:
        return heads
    order = _compute.array_sort_indices(ids, null_placement="at_start")
    table: pa.Table = heads.take(order)
    return table


def _table(
    name: str,
    ids: Array,
    primaries: Int64s,
    addresses: Int64s,
    lasts: Int64s,
) -> pa.Table:
    columns = {name: ids, "primary": primaries, "address": addresses, "last": lasts}
    table: pa.Table = _untyped.table(columns)
    return table
