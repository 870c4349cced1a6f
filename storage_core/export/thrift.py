"""Thrift's compact protocol, as Parquet writes its footer and the heads of its pages.

    struct   fields, then 0:  delta << 4 | kind, or kind and the number, zigzag; then the value
    list     count << 4 | kind, or 0xF0 | kind and the count; then the values

Only what is read here; numbers are varints, texts are a varint and bytes.
"""

import struct
from typing import Any, Final

from storage_core.export.bounds import Room

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY = 1, 2, 3, 7, 8
_LIST, _SET, _MAP, _STRUCT = 9, 10, 11, 12
_WHOLE: Final = frozenset({4, 5, 6})
_DEPTH_MAX: Final = 32
_LONG_BITS: Final = 63
# What a value of a byte takes at most: an empty list or struct, and where it is held.
_VALUE_BYTES: Final = 72


class Thrift:
    """Values one behind the other in some bytes.

    Attributes:
        at: Where the next one begins.
    """

    def __init__(self, data: bytes, at: int, end: int, room: Room) -> None:
        """Read from one place on, and not behind another, as long as there is room for values."""
        self.at = at
        self._room = room
        self._data = data
        self._end = min(end, len(data))

    def fields(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by their numbers.

        Raises:
            ValueError: The bytes are none.
            TooLargeError: They are more values than there is room for.
        """
        values: dict[int, Any] = {}
        number = 0
        if depth > _DEPTH_MAX:
            message = f"more than {_DEPTH_MAX} structs in each other"
            raise ValueError(message)
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._zigzag()
            self._room.take(_VALUE_BYTES)
            values[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return values

    def _value(self, kind: int, depth: int) -> Any:  # noqa: ANN401, PLR0911 - whatever there is, one kind a line
        if kind in _WHOLE:
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.fields(depth + 1)
        if kind in (_LIST, _SET):
            return self._items(depth)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._room.take(2 * _VALUE_BYTES)
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 15, depth + 1)
            return None
        message = f"no kind of value: {kind}"
        raise ValueError(message)

    def _items(self, depth: int) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == 15:  # noqa: PLR2004 - four bits say no more
            count = self._varint()
        self._room.take(count * _VALUE_BYTES)
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while shift <= _LONG_BITS:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte <= 0x7F:  # noqa: PLR2004 - seven bits
                return number
            shift += 7
        message = "a number of more than 64 bits"
        raise ValueError(message)

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > self._end:
            message = f"{count} bytes at {begin} of {self._end}"
            raise ValueError(message)
        return self._data[begin : self.at]
