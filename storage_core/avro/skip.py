"""Passing over what is not wanted, and finding the items of arrays and maps.

Items are found a round at a time, one of each body; once few bodies are left, those one after the
other: a body with very many items costs no more than its bytes.
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
from storage_core.avro.cursor import Cursor, Limits, Numbers, each_branch, too_many

# Fewer than these are cheaper one after the other.
_FEW: Final = 16
_STRING: Final = Primitive("string")


def skip(cursor: Cursor, what: AvroType, places: Numbers, rows: Numbers, nesting: int) -> Numbers:
    """Return the places behind a type's value."""
    if not len(rows) or cursor.are_all_bad(rows):
        # Behind the end of all a type that holds itself has no end.
        return places
    if nesting > cursor.limits.nesting:
        places = places.copy()
        message = f"more than {cursor.limits.nesting} types in each other"
        cursor.refuse(~cursor.is_bad[rows], rows, places, message)
    elif isinstance(what, Primitive):
        places = _skip_primitive(cursor, what, places, rows)
    elif isinstance(what, Fixed):
        places = _over(cursor, places, rows, what.size)
    elif isinstance(what, Enum):
        _, places = cursor.choices(places, rows, len(what.symbols), "an enum's symbol")
    elif isinstance(what, Record):
        for field in what.fields:
            places = skip(cursor, field.type, places, rows, nesting + 1)
    elif isinstance(what, Union):
        branches, places = cursor.choices(places, rows, len(what.branches), "a union's branch")
        places = each_branch(
            branches,
            len(what.branches),
            places,
            rows,
            lambda branch, _, at, of: skip(cursor, what.branches[branch], at, of, nesting + 1),
        )
    else:
        places = find_items(cursor, what, places, rows, nesting).behind
    return places


def _skip_primitive(cursor: Cursor, what: Primitive, places: Numbers, rows: Numbers) -> Numbers:
    if what.kind in ("bytes", "string"):
        return cursor.spans(places, rows)[2]
    if what.kind in ("int", "long"):
        return (cursor.ints if what.kind == "int" else cursor.longs)(places, rows)[1]
    if what.kind == "boolean":
        return truths(cursor, places, rows)[1]
    return _over(cursor, places, rows, WIDTHS[what.kind])


def truths(cursor: Cursor, places: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
    """Read a byte that is 0 or 1 of each."""
    values = cursor.bytes_at(places)
    places = places + 1
    cursor.hold(rows, places)
    wrong = (values > 1) & ~cursor.is_bad[rows]
    cursor.refuse(wrong, rows, places, "a boolean that is neither 0 nor 1")
    return values.astype(np.int64), places


def _over(cursor: Cursor, places: Numbers, rows: Numbers, size: int) -> Numbers:
    places = places + size
    cursor.hold(rows, places)
    return places


@dataclass(frozen=True, slots=True)
class Items:
    """The items of arrays or maps, those of one value after the other.

    Attributes:
        counts: How many each value has.
        places: Where each item starts; of a map its key.
        rows: The row of each item.
        behind: The places behind the values.
    """

    counts: Numbers
    places: Numbers
    rows: Numbers
    behind: Numbers


def find_items(
    cursor: Cursor, what: Array | Map, places: Numbers, rows: Numbers, nesting: int
) -> Items:
    """Find the items of an array or map of each."""
    of_item = what.items if isinstance(what, Array) else what.values
    places = places.copy()
    counts = np.zeros(len(rows), np.int64)
    left = np.zeros(len(rows), np.int64)
    active = np.arange(len(rows))
    owners, starts = [], []
    while len(active):
        if len(active) < _FEW:
            for index in active.tolist():
                items = _one_by_one(cursor, what, (places, rows, index), int(left[index]), nesting)
                owners.append(np.full(len(items), index))
                starts.append(items)
                counts[index] += len(items)
            break
        new = active[left[active] == 0]
        if len(new):
            left[new] = _block(cursor, places, rows, new)
            active = active[left[active] > 0]
        if not len(active):
            break
        owners.append(active)
        starts.append(places[active])
        active_places = places[active]
        if isinstance(what, Map):
            active_places = skip(cursor, _STRING, active_places, rows[active], nesting + 1)
        places[active] = skip(cursor, of_item, active_places, rows[active], nesting + 1)
        counts[active] += 1
        left[active] -= 1
        left[active[cursor.is_bad[rows[active]]]] = 0
    return _in_order(owners, starts, counts, places, rows)


def _block(cursor: Cursor, places: Numbers, rows: Numbers, new: Numbers) -> Numbers:
    """Read how many items the next block of each has; 0 ends them."""
    counts, behind = cursor.longs(places[new], rows[new])
    sized = np.flatnonzero(counts < 0)
    if len(sized):
        # What stands behind a negative count is the block's size in bytes.
        sizes, behind[sized] = cursor.longs(behind[sized], rows[new[sized]])
        wrong = np.zeros(len(new), np.bool_)
        wrong[sized] = (sizes < 0) | (counts[sized] == np.iinfo(np.int64).min)
        cursor.refuse(wrong & ~cursor.is_bad[rows[new]], rows[new], behind, "a block of no size")
        counts[wrong] = 0
        np.negative(counts, out=counts, where=counts < 0)
    most = cursor.limits.items
    # Several arrays of one body may be among them.
    np.subtract.at(cursor.items_left, rows[new], np.minimum(counts, most + 1))
    over = (counts > most) | (cursor.items_left[rows[new]] < 0)
    message = too_many(cursor.limits)
    cursor.refuse(over & ~cursor.is_bad[rows[new]], rows[new], behind, message)
    counts[cursor.is_bad[rows[new]]] = 0
    places[new] = behind
    return counts


def _one_by_one(
    cursor: Cursor,
    what: Array | Map,
    where: tuple[Numbers, Numbers, int],
    left: int,
    nesting: int,
) -> Numbers:
    """Find the items of one body that are left; `places` moves on."""
    places, rows, index = where
    row = int(rows[index])
    if cursor.is_bad[row]:
        return np.empty(0, np.int64)
    left_of_body = int(cursor.items_left[row])
    body = Body(cursor.view, int(places[index]), int(cursor.ends[row]), cursor.limits, left_of_body)
    try:
        positions = body.items(what, left, nesting)
    except BodyError as error:
        indices = np.array([index])
        moved = places[indices]
        cursor.refuse(np.ones(1, np.bool_), rows[indices], moved, str(error))
        places[indices] = moved
        return np.empty(0, np.int64)
    places[index], cursor.items_left[row] = body.place, body.items_left
    return np.array(positions, np.int64)


def _in_order(
    owners: list[Numbers], starts: list[Numbers], counts: Numbers, places: Numbers, rows: Numbers
) -> Items:
    if not owners:
        return Items(counts, np.empty(0, np.int64), np.empty(0, np.int64), places)
    owner, start = np.concatenate(owners), np.concatenate(starts)
    order = np.argsort(owner, kind="stable")
    return Items(counts, start[order], rows[owner[order]], places)


_BITS = 64
_INT_MAX = 2**31


class BodyError(Exception):
    """Why a body cannot be read."""


class Body:
    """Where one body is read, and how many items it may still claim."""

    def __init__(
        self, data: memoryview, place: int, end: int, limits: Limits, items_left: int
    ) -> None:
        """Read from `place` on, not beyond `end`, and no more items than are left."""
        # Not copied: of arrays in each other each is read by a body of its own.
        self._bytes = data[place:end]
        self._from, self._offset = place, 0
        self._limits = limits
        self.items_left = items_left

    @property
    def place(self) -> int:
        """Where it is read."""
        return self._from + self._offset

    def items(self, what: Array | Map, left: int, nesting: int) -> list[int]:
        """Pass over an array or map, `left` items of a block first; return where items start."""
        positions: list[int] = []
        while True:
            for _ in range(left):
                positions.append(self.place)
                if isinstance(what, Map):
                    self._over(self._long())
                self._skip(what.items if isinstance(what, Array) else what.values, nesting + 1)
            left = self._block()
            if not left:
                return positions

    def _block(self) -> int:
        count = self._long()
        if count < 0:
            count = -count
            if self._long() < 0:
                message = "a block of no size"
                raise BodyError(message)
        if count > self.items_left:
            raise BodyError(too_many(self._limits))
        self.items_left -= count
        return count

    def _skip(self, what: AvroType, nesting: int) -> None:
        if nesting > self._limits.nesting:
            message = f"more than {self._limits.nesting} types in each other"
            raise BodyError(message)
        if isinstance(what, Primitive):
            self._skip_primitive(what)
        elif isinstance(what, Fixed):
            self._over(what.size)
        elif isinstance(what, Enum):
            self._choice(len(what.symbols), "an enum's symbol")
        elif isinstance(what, Record):
            for field in what.fields:
                self._skip(field.type, nesting + 1)
        elif isinstance(what, Union):
            branch = self._choice(len(what.branches), "a union's branch")
            self._skip(what.branches[branch], nesting + 1)
        else:
            self.items(what, 0, nesting)

    def _skip_primitive(self, what: Primitive) -> None:
        if what.kind in ("bytes", "string"):
            self._over(self._long())
        elif what.kind == "long":
            self._long()
        elif what.kind == "int":
            if not -_INT_MAX <= self._long() < _INT_MAX:
                message = "an int of more than 32 bits"
                raise BodyError(message)
        else:
            offset = self._offset
            self._over(WIDTHS[what.kind])
            if what.kind == "boolean" and self._bytes[offset] > 1:
                message = "a boolean that is neither 0 nor 1"
                raise BodyError(message)

    def _choice(self, count: int, what: str) -> int:
        chosen = self._long()
        if not 0 <= chosen < count:
            message = f"{what} that is not there"
            raise BodyError(message)
        return chosen

    def _over(self, size: int) -> None:
        if size < 0 or size > len(self._bytes) - self._offset:
            message = "bytes beyond the body's end"
            raise BodyError(message)
        self._offset += size

    def _long(self) -> int:
        number = shift = 0
        while True:
            if self._offset >= len(self._bytes):
                message = "the body ends too early"
                raise BodyError(message)
            byte = self._bytes[self._offset]
            self._offset += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the bit that says more
                break
            if shift >= _BITS + 6:
                message = "a number of more than 64 bits"
                raise BodyError(message)
        if number >= 1 << _BITS:
            message = "a number of more than 64 bits"
            raise BodyError(message)
        return (number >> 1) ^ -(number & 1)
