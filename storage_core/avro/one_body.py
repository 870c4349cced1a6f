"""One body, read value after value: for the items of arrays and maps that few bodies have."""

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
from storage_core.avro.cursor import Limits, too_many

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
