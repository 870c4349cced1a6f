"""What a shard keeps of a schema, so that its rows can be read without the registry.

    s 0 <number u32>                       the entry
    s 1 <registry_id i32> <fingerprint>    the number, i32
    entry   checksum u64 | registry_id i32 | fingerprint_bytes u8 | fingerprint | text

The checksum is the xxh3-64 of all behind it. The text is UTF-8 and can be read alone: what it
refers to stands in it. The log knows nothing else of it.
"""

import struct
from dataclasses import dataclass
from typing import Final

from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.keys import INT32_MAX, INT32_MIN, PREFIX_SCHEMA, encode_int32
from storage_core.platform import xxh3

FINGERPRINT_BYTES_MAX: Final = 64
TEXT_BYTES_MAX: Final = 2**24
KIND_BY_NUMBER: Final = b"\0"
KIND_BY_ID: Final = b"\1"
_CHECKSUM: Final = struct.Struct("<Q")
_FIELDS: Final = struct.Struct("<iB")
_NUMBER: Final = struct.Struct("<i")
_NUMBER_KEY_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema as the log keeps it.

    Attributes:
        registry_id: The id under which its registry has it, and rows show it; 0 where none has.
        fingerprint: Tells it from another under the same id, as a registry made anew gives.
        text: The schema; it can be read alone.
    """

    registry_id: int
    fingerprint: bytes
    text: str

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        registry_id, fingerprint, text = self.registry_id, self.fingerprint, self.text
        if type(registry_id) is not int or not INT32_MIN <= registry_id <= INT32_MAX:
            message = f"a schema's registry id is a 32-bit integer, not {registry_id!r}"
            raise InvalidRequestError(message)
        if type(fingerprint) is not bytes or not 0 < len(fingerprint) <= FINGERPRINT_BYTES_MAX:
            message = (
                f"the fingerprint of schema {registry_id} is 1 to {FINGERPRINT_BYTES_MAX} bytes, "
                f"not {fingerprint!r}"
            )
            raise InvalidRequestError(message)
        try:
            size = len(text.encode())
        except (AttributeError, UnicodeEncodeError) as error:
            message = f"the text of schema {registry_id} is not a string"
            raise InvalidRequestError(message) from error
        if size > TEXT_BYTES_MAX:
            message = (
                f"the text of schema {registry_id} has {size} bytes; {TEXT_BYTES_MAX} is the most"
            )
            raise InvalidRequestError(message)

    @property
    def identity(self) -> tuple[int, bytes]:
        """What tells it from others."""
        return self.registry_id, self.fingerprint


def schema_key(number: int) -> bytes:
    """Return where the schema of a number lies."""
    return PREFIX_SCHEMA + KIND_BY_NUMBER + number.to_bytes(4, "big")


def decode_schema_key(key: bytes) -> int | None:
    """Return the number of the schema under this key; None where it is no such key."""
    if len(key) != _NUMBER_KEY_BYTES or key[1:2] != KIND_BY_NUMBER:
        return None
    return int.from_bytes(key[2:], "big")


def schema_number_key(registry_id: int, fingerprint: bytes) -> bytes:
    """Return where the number of a schema lies."""
    return PREFIX_SCHEMA + KIND_BY_ID + encode_int32(registry_id) + fingerprint


def encode_schema_number(number: int) -> bytes:
    """Return what lies under a `schema_number_key`."""
    return _NUMBER.pack(number)


def decode_schema_number(data: bytes) -> int | None:
    """Return what `encode_schema_number` was given; None where it made no such bytes."""
    return _NUMBER.unpack(data)[0] if len(data) == _NUMBER.size else None


def encode_schema(entry: SchemaEntry) -> bytes:
    """Return what lies under a `schema_key`."""
    fields = _FIELDS.pack(entry.registry_id, len(entry.fingerprint))
    body = b"".join((fields, entry.fingerprint, entry.text.encode()))
    return _CHECKSUM.pack(xxh3.xxh3_64_intdigest(body)) + body


def decode_schema(data: bytes) -> SchemaEntry:
    """Return what `encode_schema` was given.

    Raises:
        CorruptionError: The bytes are others.
    """
    body = data[_CHECKSUM.size :]
    if len(body) < _FIELDS.size or data[: _CHECKSUM.size] != _CHECKSUM.pack(
        xxh3.xxh3_64_intdigest(body)
    ):
        message = "the bytes of a schema do not match their checksum"
        raise CorruptionError(message)
    registry_id, size = _FIELDS.unpack_from(body)
    end = _FIELDS.size + size
    return SchemaEntry(registry_id, body[_FIELDS.size : end], body[end:].decode())
