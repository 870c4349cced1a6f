"""Building: single records collected until they make a block.

`RecordBuilder` is not locked; its shard's append lock guards it. A record is checked when it
is added, so that a refused one changes nothing.
"""

import struct
from operator import index
from typing import Final

import numpy as np
import pyarrow as pa

from storage_core.catalog.options import StreamOptions
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import ADDRESS_MAX, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from storage_core.format.record import Rows

VERSION_MAX: Final = 2**16 - 1
# Packing checks types and ranges in one call.
_NUMBERS: Final = struct.Struct("<qiH")
_pack_numbers: Final = _NUMBERS.pack
_NUMBERS_DTYPE: Final = np.dtype([("primary", "<i8"), ("secondary", "<i4"), ("version", "<u2")])


class RecordBuilder:
    """Records of one shard on their way to a block."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_numbers",
        "_payload_bytes_max",
        "_payloads",
        "_records_max",
    )

    def __init__(self, options: StreamOptions, addresses_left: int = ADDRESS_MAX) -> None:
        self._numbers: list[bytes] = []
        self._payloads: list[bytes | None] = []
        self._bytes = 0
        self.limit(options, addresses_left)

    def limit(self, options: StreamOptions, addresses_left: int = ADDRESS_MAX) -> None:
        """Take over the limits: those of the options, and how many addresses the shard has left.

        Where it has none, the first record that is added makes the block full.
        """
        self._records_max = min(options.block_records, addresses_left)
        self._bytes_max = options.block_bytes
        self._payload_bytes_max = options.payload_bytes_max

    def __len__(self) -> int:
        return len(self._payloads)

    def add(self, primary: int, secondary: int, payload: bytes | None, version: int) -> bool:
        """Gather a record; return whether the block is full.

        Raises:
            InvalidRequestError: A value is of the wrong type or out of range.
        """
        try:
            numbers = _pack_numbers(primary, secondary, version)
        except struct.error as error:
            raise _refused_numbers(primary, secondary, version) from error
        if payload is not None:
            if type(payload) is not bytes:
                payload = _as_bytes(payload)
            size = len(payload)
            if size > self._payload_bytes_max:
                message = (
                    f"payload has {size} bytes; payload_bytes_max is {self._payload_bytes_max}"
                )
                raise InvalidRequestError(message)
            self._bytes += size
        try:
            self._numbers.append(numbers)
            self._payloads.append(payload)
        except BaseException:
            # An interruption between the two; a record is one that has its payload.
            del self._numbers[len(self._payloads) :]
            raise
        return len(self._payloads) >= self._records_max or self._bytes >= self._bytes_max

    def rows(self) -> Rows:
        """Return what was collected; it stays until `clear`."""
        table = np.frombuffer(b"".join(self._numbers), dtype=_NUMBERS_DTYPE)
        version = table["version"].copy()
        return Rows(
            table["secondary"].copy(),
            table["primary"].copy(),
            version if version.any() else None,
            pa.array(self._payloads, pa.binary()),
            {},
        )

    def clear(self) -> None:
        """Start anew."""
        self._numbers = []
        self._payloads = []
        self._bytes = 0


def _refused_numbers(primary: object, secondary: object, version: object) -> InvalidRequestError:
    """Say which number does not fit its column."""
    for name, value, least, most in (
        ("primary", primary, INT64_MIN, INT64_MAX),
        ("secondary", secondary, INT32_MIN, INT32_MAX),
        ("version", version, 0, VERSION_MAX),
    ):
        try:
            number = index(value)  # type: ignore[arg-type]  # refused below
        except TypeError:
            return InvalidRequestError(f"{name} must be an integer, not {type(value).__name__}")
        if not least <= number <= most:
            return InvalidRequestError(f"{name} {number} is outside {least} to {most}")
    return InvalidRequestError("a number does not fit its column")


def _as_bytes(payload: object) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    message = f"payload must be bytes or None, not {type(payload).__name__}"
    raise InvalidRequestError(message)
