"""Skip values that are not read, and find the items of arrays and maps.

Items are found one per row and step. Once few rows are left, each is scanned alone, so that a row
with very many items costs no more than its bytes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from storage_core.avro.avro_types import (
    WIDTHS,
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
)
from storage_core.avro.cursor import Cursor, Limits, Numbers, for_each_branch, too_many

# Fewer rows than these are faster one by one.
_FEW: Final = 16
_STRING: Final = Primitive("string")


def skip(
    cursor: Cursor, avro_type: AvroType, offsets: Numbers, rows: Numbers, nesting: int
) -> Numbers:
    """Return the offsets after a value of each row."""
    if not len(rows) or cursor.are_all_bad(rows):
        # Past the end a recursive type would never stop.
        return offsets
    if nesting > cursor.limits.nesting:
        offsets = offsets.copy()
        message = f"values nested more than {cursor.limits.nesting} deep"
        cursor.refuse(~cursor.is_bad[rows], rows, offsets, message)
    elif isinstance(avro_type, Primitive):
        offsets = _skip_primitive(cursor, avro_type, offsets, rows)
    elif isinstance(avro_type, Fixed):
        offsets = _skip_bytes(cursor, offsets, rows, avro_type.size)
    elif isinstance(avro_type, Enum):
        _, offsets = cursor.indices(offsets, rows, len(avro_type.symbols), "an enum symbol")
    elif isinstance(avro_type, Record):
        for field in avro_type.fields:
            offsets = skip(cursor, field.type, offsets, rows, nesting + 1)
    elif isinstance(avro_type, Union):
        branches, offsets = cursor.indices(offsets, rows, len(avro_type.branches), "a union branch")
        offsets = for_each_branch(
            branches,
            len(avro_type.branches),
            offsets,
            rows,
            lambda branch, _, branch_offsets, branch_rows: skip(
                cursor, avro_type.branches[branch], branch_offsets, branch_rows, nesting + 1
            ),
        )
    else:
        offsets = find_items(cursor, avro_type, offsets, rows, nesting).after
    return offsets


def _skip_primitive(
    cursor: Cursor, avro_type: Primitive, offsets: Numbers, rows: Numbers
) -> Numbers:
    if avro_type.kind in ("bytes", "string"):
        return cursor.spans(offsets, rows)[2]
    if avro_type.kind in ("int", "long"):
        return (cursor.ints if avro_type.kind == "int" else cursor.longs)(offsets, rows)[1]
    if avro_type.kind == "boolean":
        return read_booleans(cursor, offsets, rows)[1]
    return _skip_bytes(cursor, offsets, rows, WIDTHS[avro_type.kind])


def read_booleans(cursor: Cursor, offsets: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
    """Read a boolean of each row, as 0 or 1."""
    values = cursor.bytes_at(offsets)
    offsets = offsets + 1
    cursor.check_ends(rows, offsets)
    wrong = (values > 1) & ~cursor.is_bad[rows]
    cursor.refuse(wrong, rows, offsets, "a boolean that is neither 0 nor 1")
    return values.astype(np.int64), offsets


def _skip_bytes(cursor: Cursor, offsets: Numbers, rows: Numbers, size: int) -> Numbers:
    offsets = offsets + size
    cursor.check_ends(rows, offsets)
    return offsets


@dataclass(frozen=True, slots=True)
class Items:
    """The items of arrays or maps, in order of their values.

    Attributes:
        counts: The number of items of each value.
        offsets: Where each item starts; in a map its key.
        rows: The row of each item.
        after: The offsets after the values.
    """

    counts: Numbers
    offsets: Numbers
    rows: Numbers
    after: Numbers


def find_items(
    cursor: Cursor, avro_type: Array | Map, offsets: Numbers, rows: Numbers, nesting: int
) -> Items:
    """Find the items of an array or map of each row."""
    of_item = avro_type.items if isinstance(avro_type, Array) else avro_type.values
    offsets = offsets.copy()
    counts = np.zeros(len(rows), np.int64)
    left = np.zeros(len(rows), np.int64)
    active = np.arange(len(rows))
    owners, starts = [], []
    while len(active):
        if len(active) < _FEW:
            for index in active.tolist():
                items = _scan_row(
                    cursor, avro_type, offsets, rows, index, int(left[index]), nesting
                )
                owners.append(np.full(len(items), index))
                starts.append(items)
                counts[index] += len(items)
            break
        new = active[left[active] == 0]
        if len(new):
            left[new] = _block(cursor, offsets, rows, new)
            active = active[left[active] > 0]
        if not len(active):
            break
        owners.append(active)
        starts.append(offsets[active])
        active_offsets = offsets[active]
        if isinstance(avro_type, Map):
            active_offsets = skip(cursor, _STRING, active_offsets, rows[active], nesting + 1)
        offsets[active] = skip(cursor, of_item, active_offsets, rows[active], nesting + 1)
        counts[active] += 1
        left[active] -= 1
        left[active[cursor.is_bad[rows[active]]]] = 0
    return _in_order(owners, starts, counts, offsets, rows)


def _block(cursor: Cursor, offsets: Numbers, rows: Numbers, new: Numbers) -> Numbers:
    """Read the item count of the next block of each; 0 ends them."""
    counts, after = cursor.longs(offsets[new], rows[new])
    sized = np.flatnonzero(counts < 0)
    if len(sized):
        # After a negative count comes the size of the block in bytes.
        sizes, after[sized] = cursor.longs(after[sized], rows[new[sized]])
        wrong = np.zeros(len(new), np.bool_)
        wrong[sized] = (sizes < 0) | (counts[sized] == np.iinfo(np.int64).min)
        cursor.refuse(
            wrong & ~cursor.is_bad[rows[new]], rows[new], after, "a block with a bad count or size"
        )
        counts[wrong] = 0
        np.negative(counts, out=counts, where=counts < 0)
    most = cursor.limits.items
    # One row may have several arrays among them.
    np.subtract.at(cursor.items_left, rows[new], np.minimum(counts, most + 1))
    over = (counts > most) | (cursor.items_left[rows[new]] < 0)
    message = too_many(cursor.limits)
    cursor.refuse(over & ~cursor.is_bad[rows[new]], rows[new], after, message)
    counts[cursor.is_bad[rows[new]]] = 0
    offsets[new] = after
    return counts


def _scan_row(  # noqa: PLR0913 - one row of the step
    cursor: Cursor,
    avro_type: Array | Map,
    offsets: Numbers,
    rows: Numbers,
    index: int,
    left: int,
    nesting: int,
) -> Numbers:
    """Find the remaining items of one row; moves its offset."""
    row = int(rows[index])
    if cursor.is_bad[row]:
        return np.empty(0, np.int64)
    left_of_body = int(cursor.items_left[row])
    body = Body(
        cursor.view, int(offsets[index]), int(cursor.ends[row]), cursor.limits, left_of_body
    )
    try:
        positions = body.items(avro_type, left, nesting)
    except BodyError as error:
        indices = np.array([index])
        moved = offsets[indices]
        cursor.refuse(np.ones(1, np.bool_), rows[indices], moved, str(error))
        offsets[indices] = moved
        return np.empty(0, np.int64)
    offsets[index], cursor.items_left[row] = body.offset, body.items_left
    return np.array(positions, np.int64)


def _in_order(
    owners: list[Numbers], starts: list[Numbers], counts: Numbers, offsets: Numbers, rows: Numbers
) -> Items:
    if not owners:
        return Items(counts, np.empty(0, np.int64), np.empty(0, np.int64), offsets)
    owner, start = np.concatenate(owners), np.concatenate(starts)
    order = np.argsort(owner, kind="stable")
    return Items(counts, start[order], rows[owner[order]], offsets)


_BITS = 64
_INT_MAX = 2**31


class BodyError(Exception):
    """The reason a body cannot be read."""


class Body:
    """A cursor over one body, for items of arrays and maps that few rows have."""

    def __init__(
        self, data: memoryview, offset: int, end: int, limits: Limits, items_left: int
    ) -> None:
        """Read from `offset`, not past `end`, and no more than `items_left` items."""
        # Not copied: nested arrays are each read by a body of their own.
        self._bytes = data[offset:end]
        self._from, self._offset = offset, 0
        self._limits = limits
        self.items_left = items_left

    @property
    def offset(self) -> int:
        """The offset in the data of all bodies."""
        return self._from + self._offset

    def items(self, avro_type: Array | Map, left: int, nesting: int) -> list[int]:
        """Skip an array or map, first `left` items of a block; return the offsets of its items."""
        positions: list[int] = []
        while True:
            for _ in range(left):
                positions.append(self.offset)
                if isinstance(avro_type, Map):
                    self._skip_bytes(self._long())
                self._skip(
                    avro_type.items if isinstance(avro_type, Array) else avro_type.values,
                    nesting + 1,
                )
            left = self._block()
            if not left:
                return positions

    def _block(self) -> int:
        count = self._long()
        if count < 0:
            count = -count
            if self._long() < 0:
                message = "a block with a bad count or size"
                raise BodyError(message)
        if count > self.items_left:
            raise BodyError(too_many(self._limits))
        self.items_left -= count
        return count

    def _skip(self, avro_type: AvroType, nesting: int) -> None:
        if nesting > self._limits.nesting:
            message = f"values nested more than {self._limits.nesting} deep"
            raise BodyError(message)
        if isinstance(avro_type, Primitive):
            self._skip_primitive(avro_type)
        elif isinstance(avro_type, Fixed):
            self._skip_bytes(avro_type.size)
        elif isinstance(avro_type, Enum):
            self._index(len(avro_type.symbols), "an enum symbol")
        elif isinstance(avro_type, Record):
            for field in avro_type.fields:
                self._skip(field.type, nesting + 1)
        elif isinstance(avro_type, Union):
            branch = self._index(len(avro_type.branches), "a union branch")
            self._skip(avro_type.branches[branch], nesting + 1)
        else:
            self.items(avro_type, 0, nesting)

    def _skip_primitive(self, avro_type: Primitive) -> None:
        if avro_type.kind in ("bytes", "string"):
            self._skip_bytes(self._long())
        elif avro_type.kind == "long":
            self._long()
        elif avro_type.kind == "int":
            if not -_INT_MAX <= self._long() < _INT_MAX:
                message = "an int of more than 32 bits"
                raise BodyError(message)
        else:
            offset = self._offset
            self._skip_bytes(WIDTHS[avro_type.kind])
            if avro_type.kind == "boolean" and self._bytes[offset] > 1:
                message = "a boolean that is neither 0 nor 1"
                raise BodyError(message)

    def _index(self, count: int, label: str) -> int:
        chosen = self._long()
        if not 0 <= chosen < count:
            message = f"{label} out of range"
            raise BodyError(message)
        return chosen

    def _skip_bytes(self, size: int) -> None:
        if size < 0 or size > len(self._bytes) - self._offset:
            message = "a length beyond the end of the body"
            raise BodyError(message)
        self._offset += size

    def _long(self) -> int:
        number = shift = 0
        while True:
            if self._offset >= len(self._bytes):
                message = "the body is truncated"
                raise BodyError(message)
            byte = self._bytes[self._offset]
            self._offset += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                break
            if shift >= _BITS + 6:
                message = "a varint of more than 64 bits"
                raise BodyError(message)
        if number >= 1 << _BITS:
            message = "a varint of more than 64 bits"
            raise BodyError(message)
        return (number >> 1) ^ -(number & 1)
