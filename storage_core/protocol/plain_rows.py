"""Rows that others send, which take no more memory than they took on the way.

A few bytes of Arrow may stand for many: compressed buffers, dictionaries, runs, views that share
bytes. Who takes rows of others bounds the bytes that come, so none of these is taken. A message is
looked at before Arrow has it, since Arrow makes room for what a message says of itself.
"""

import struct
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import InvalidRequestError

_CONTINUATION: Final = 0xFFFFFFFF
_LENGTH_BYTES: Final = 4
# Numbers of fields and of kinds of messages, as Arrow's Message.fbs and Schema.fbs have them.
_KIND, _HEADER, _BODY_LENGTH, _COMPRESSION = 1, 2, 3, 3
_DICTIONARY, _ROWS = 2, 3
_types: Any = pa.types
_SHARING: Final = (
    _types.is_dictionary,
    _types.is_run_end_encoded,
    _types.is_binary_view,
    _types.is_string_view,
    _types.is_list_view,
    _types.is_large_list_view,
)


class PlainMessages:
    """A file of an Arrow stream in which nothing is compressed or a dictionary. Of one thread.

    Attributes:
        closed: As Arrow asks of a file; it is never closed here.
    """

    def __init__(self, source: Any) -> None:  # noqa: ANN401 - a file, as Arrow takes it
        """Read from a source."""
        self.closed = False
        self._source = source
        self._head = bytearray()
        self._metadata_left = self._body_left = 0

    def readable(self) -> bool:
        """Return True, as Arrow asks of a file."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes.

        Raises:
            InvalidRequestError: A message is compressed, or a dictionary.
        """
        data: bytes = self._source.read(size)
        with memoryview(data) as view:
            self._look_at(view)
        return data

    def _look_at(self, view: memoryview) -> None:
        while view:
            if self._body_left:
                passed = min(self._body_left, len(view))
                self._body_left -= passed
                view = view[passed:]
                continue
            wanted = (self._metadata_left or _LENGTH_BYTES) - len(self._head)
            self._head += view[:wanted]
            if len(view) < wanted:
                return
            view = view[wanted:]
            head, self._head = bytes(self._head), bytearray()
            if self._metadata_left:
                self._metadata_left, self._body_left = 0, _body_length(head)
            else:
                (length,) = struct.unpack("<I", head)
                self._metadata_left = 0 if length == _CONTINUATION else length


def refuse_shared_values(schema: pa.Schema) -> None:
    """Refuse columns in which one value may stand for many.

    Raises:
        InvalidRequestError: There is one.
    """
    for field in schema:
        if _shares(field.type):
            message = f"column {field.name!r} of type {field.type}: send plain values"
            raise InvalidRequestError(message)


def _shares(kind: pa.DataType) -> bool:
    nested = (kind.field(place).type for place in range(kind.num_fields))
    return any(is_one(kind) for is_one in _SHARING) or any(map(_shares, nested))


def _body_length(metadata: bytes) -> int:
    """Return the length of the body that follows a message's metadata.

    Raises:
        InvalidRequestError: The body is compressed, or a dictionary; or the metadata is none.
    """
    try:
        message = _Table(metadata, *struct.unpack_from("<I", metadata))
        kind = message.number(_KIND, "<B")
        length = message.number(_BODY_LENGTH, "<q")
        is_compressed = kind == _ROWS and bool(message.table(_HEADER).place_of(_COMPRESSION))
    except struct.error as error:
        text = "the rows cannot be read: the metadata of a message is cut"
        raise InvalidRequestError(text) from error
    if kind == _DICTIONARY or is_compressed or length < 0:
        text = "the rows are compressed, or have dictionaries: send plain values"
        raise InvalidRequestError(text)
    return length


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place
        (back,) = struct.unpack_from("<i", data, place)
        self._fields = place - back
        (self._size,) = struct.unpack_from("<H", data, self._fields)

    def place_of(self, field: int) -> int:
        """Return where a field lies; 0 if it is not there."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._fields + entry)
        return self._place + offset if offset else 0

    def number(self, field: int, kind: str) -> int:
        """Return a number; 0 if it is not there."""
        place = self.place_of(field)
        number: int = struct.unpack_from(kind, self._data, place)[0] if place else 0
        return number

    def table(self, field: int) -> "_Table":
        """Return a table that is a field of this one."""
        place = self.place_of(field)
        return _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])
