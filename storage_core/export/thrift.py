"""Thrift's compact protocol, in which Parquet writes its footer and page headers.

    struct   fields, then 0:  delta << 4 | kind, or kind and the number, zigzag; then the value
    list     count << 4 | kind, or 0xF0 | kind and the count; then the values

Only what is read here; integers are varints, strings are a varint and bytes.
"""

import struct
from typing import Any, Final

from storage_core.export.memory_budget import MemoryBudget

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY = 1, 2, 3, 7, 8
_LIST, _SET, _MAP, _STRUCT = 9, 10, 11, 12
_WHOLE: Final = frozenset({4, 5, 6})
_DEPTH_MAX: Final = 32
_LONG_BITS: Final = 63
# The most memory of a value of one byte: an empty list or struct, and its reference.
_VALUE_BYTES: Final = 72


class ThriftReader:
    """Reads values from bytes.

    Attributes:
        offset: The offset of the next value.
    """

    def __init__(self, data: bytes, offset: int, end: int, budget: MemoryBudget) -> None:
        """Read from `offset`, not past `end`, within a memory budget."""
        self.offset = offset
        self._budget = budget
        self._data = data
        self._end = min(end, len(data))

    def fields(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by number.

        Raises:
            ValueError: The bytes are not Thrift.
            TooLargeError: The values exceed the memory budget.
        """
        values: dict[int, Any] = {}
        number = 0
        if depth > _DEPTH_MAX:
            message = f"structs nested more than {_DEPTH_MAX} deep"
            raise ValueError(message)
        while header := self._byte():
            delta, thrift_type = header >> 4, header & 15
            number = number + delta if delta else self._zigzag()
            self._budget.take(_VALUE_BYTES)
            values[number] = (
                thrift_type == _TRUE
                if thrift_type in (_TRUE, _FALSE)
                else self._value(thrift_type, depth)
            )
        return values

    def _value(self, thrift_type: int, depth: int) -> Any:  # noqa: ANN401, PLR0911 - whatever there is, one kind a line
        if thrift_type in _WHOLE:
            return self._zigzag()
        if thrift_type == _BINARY:
            return self._bytes(self._varint())
        if thrift_type == _STRUCT:
            return self.fields(depth + 1)
        if thrift_type in (_LIST, _SET):
            return self._items(depth)
        if thrift_type in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if thrift_type == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if thrift_type == _MAP:
            count = self._varint()
            types = self._byte() if count else 0
            for _ in range(count):
                self._budget.take(2 * _VALUE_BYTES)
                self._value(types >> 4, depth + 1)
                self._value(types & 15, depth + 1)
            return None
        message = f"unknown Thrift type {thrift_type}"
        raise ValueError(message)

    def _items(self, depth: int) -> list[Any]:
        header = self._byte()
        count, thrift_type = header >> 4, header & 15
        if count == 15:  # noqa: PLR2004 - four bits say no more
            count = self._varint()
        self._budget.take(count * _VALUE_BYTES)
        return [self._value(thrift_type, depth + 1) for _ in range(count)]

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
        message = "a varint of more than 64 bits"
        raise ValueError(message)

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        begin, self.offset = self.offset, self.offset + count
        if self.offset > self._end:
            message = f"{count} bytes at {begin} of {self._end}"
            raise ValueError(message)
        return self._data[begin : self.offset]
