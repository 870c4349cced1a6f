"""The body of one payload, without columns: what an event that comes alone is stored as.

A payload that is one of its type (`fault_of` has nothing to say of it) has the bytes that
`bodies_of` makes; any other has none. Each field is judged where it is encoded, so that what fits
is looked at once.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from storage_core.avro import frame_of, integer_or_none
from typed_events.language.times import day_or_none, micros_or_none
from typed_events.types.event_type import EventType, FieldType
from typed_events.types.values import Payload, is_uuid

_DOUBLE: Final = struct.Struct("<d")
_NULL: Final = b"\x00"
_VALUE: Final = b"\x02"
# The bit of a byte behind which more follow.
_MORE: Final = 0x80
_TIMES: Final = frozenset({str, int, float})
Encode = Callable[[Any], bytes]


class _UnfitError(Exception):
    """A value is none of its field's."""


class SingleBody:
    """Encodes payloads of one type, one at a time. Any thread."""

    def __init__(self, event_type: EventType) -> None:
        """Choose how each field is encoded."""
        self._frame = frame_of(event_type.schema, None)
        self._fields = [
            (name, _encoder(kind), kind.is_nullable) for name, kind in event_type.fields.items()
        ]
        self._names = event_type.fields.keys()

    def encode(self, payload: Payload) -> bytes | None:
        """Return the body of a payload behind its frame; None if it is none of the type."""
        pieces = [self._frame]
        try:
            for name, encode, is_nullable in self._fields:
                value = payload.get(name)
                if value is None:
                    if not is_nullable:
                        return None
                    pieces.append(_NULL)
                    continue
                if is_nullable:
                    pieces.append(_VALUE)
                pieces.append(encode(value))
        except (_UnfitError, UnicodeEncodeError, OverflowError):
            return None
        return b"".join(pieces) if payload.keys() <= self._names else None


def _encoder(kind: FieldType) -> Encode:
    if kind.kind == "enum":
        return _enum_encoder(kind.values)
    return _ENCODERS[kind.kind]


def _enum_encoder(values: Sequence[str]) -> Encode:
    places = {value: _long(place) for place, value in enumerate(values)}

    def encode(value: object) -> bytes:
        encoded = places.get(value) if type(value) is str else None
        if encoded is None:
            raise _UnfitError
        return encoded

    return encode


def _long(value: int) -> bytes:
    """Return an integer as Avro's: zigzag, then seven bits a byte, the least first."""
    rest = (value << 1) ^ (value >> 63)
    if rest < _MORE:
        return bytes((rest,))
    encoded = bytearray()
    while rest >= _MORE:
        encoded.append((rest & 0x7F) | _MORE)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _int(value: object) -> bytes:
    return _long_or_none(integer_or_none(value))


def _float(value: object) -> bytes:
    if type(value) is not float and type(value) is not int:
        raise _UnfitError
    number = float(value)
    if not math.isfinite(number):
        raise _UnfitError
    return _DOUBLE.pack(number)


def _text(value: object) -> bytes:
    if type(value) is not str:
        raise _UnfitError
    data = value.encode()
    return _long(len(data)) + data


def _bool(value: object) -> bytes:
    if type(value) is not bool:
        raise _UnfitError
    return b"\x01" if value else b"\x00"


def _uuid(value: object) -> bytes:
    if type(value) is not str or not is_uuid(value):
        raise _UnfitError
    return _text(value.lower())


def _timestamp(value: object) -> bytes:
    return _long_or_none(micros_or_none(value) if type(value) in _TIMES else None)


def _date(value: object) -> bytes:
    return _long_or_none(day_or_none(value) if type(value) in _TIMES else None)


def _long_or_none(value: int | None) -> bytes:
    if value is None:
        raise _UnfitError
    return _long(value)


_ENCODERS: Final[dict[str, Encode]] = {
    "int": _int,
    "float": _float,
    "string": _text,
    "bool": _bool,
    "uuid": _uuid,
    "timestamp": _timestamp,
    "date": _date,
}
