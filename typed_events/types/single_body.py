"""The body of one payload, without columns: what an event that comes alone is stored as.

Of a payload that is one of its type (`fault_of` has nothing to say of it) the bytes are those that
`bodies_of` makes.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from storage_core.avro import frame_of
from typed_events.language.times import day_of, micros_of
from typed_events.types.event_type import EventType, FieldType
from typed_events.types.values import Payload

_DOUBLE: Final = struct.Struct("<d")
_NULL: Final = b"\x00"
_VALUE: Final = b"\x02"
# The bit of a byte behind which more follow.
_MORE: Final = 0x80
Encode = Callable[[Any], bytes]


class SingleBody:
    """Encodes payloads of one type, one at a time. Any thread."""

    def __init__(self, event_type: EventType) -> None:
        """Choose how each field is encoded."""
        self._frame = frame_of(event_type.schema, None)
        self._fields = [
            (name, _encoder(kind), kind.is_nullable) for name, kind in event_type.fields.items()
        ]

    def encode(self, payload: Payload) -> bytes:
        """Return the body of a payload behind its frame."""
        pieces = [self._frame]
        for name, encode, is_nullable in self._fields:
            value = payload.get(name)
            if value is None:
                pieces.append(_NULL)
                continue
            if is_nullable:
                pieces.append(_VALUE)
            pieces.append(encode(value))
        return b"".join(pieces)


def _encoder(kind: FieldType) -> Encode:
    if kind.kind == "enum":
        places = {value: _long(place) for place, value in enumerate(kind.values)}
        return places.__getitem__
    return _ENCODERS[kind.kind]


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


def _text(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data


_ENCODERS: Final[dict[str, Encode]] = {
    "int": _long,
    "float": _DOUBLE.pack,
    "string": _text,
    "bool": lambda value: b"\x01" if value else b"\x00",
    "uuid": lambda value: _text(value.lower()),
    "timestamp": lambda value: _long(micros_of(value)),
    "date": lambda value: _long(day_of(value)),
}
