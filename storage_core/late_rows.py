"""Late and ahead records, copied out of arrival order into (secondary, primary) order.

Every record goes to the log with its state; late and ahead ones also go here, so that a range
read finds them in their place without scanning forward. They are few; when they are many,
this is an LSM tree and still ordered.

    key    l window secondary primary address
    value  head | payload | key | headers
    head   state u8 | nulls u8 | mask u8 | timestamp_type i8 | version u16 |
           payload_bytes u32 | key_bytes u32 | headers_bytes u32 | timestamp i64     (26 bytes)
    headers  count u16, then per header: key_bytes u32 | value_bytes i32 (-1 null) | key | value
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.keys import decode_late_keys, encode_late_keys
from storage_core.record import ENVELOPE, Array, Rows
from storage_core.windows import WindowScheme

_HEAD: Final = struct.Struct("<BBBbHIIIq")
_HEAD_DTYPE: Final = np.dtype(
    [
        ("state", "u1"),
        ("nulls", "u1"),
        ("mask", "u1"),
        ("timestamp_type", "i1"),
        ("version", "<u2"),
        ("payload_bytes", "<u4"),
        ("key_bytes", "<u4"),
        ("headers_bytes", "<u4"),
        ("timestamp", "<i8"),
    ]
)
_HEADER: Final = struct.Struct("<Ii")
_COUNT: Final = struct.Struct("<H")
_BITS: Final = {"payload": 1, "key": 2, "headers": 4, "timestamp": 8, "timestamp_type": 16}

Headers = list[dict[str, object]] | None


def encode_late_rows(
    rows: Rows,
    states: npt.NDArray[np.uint8],
    addresses: npt.NDArray[np.int64],
    scheme: WindowScheme,
) -> list[tuple[bytes, bytes]]:
    """Return a key and a value for each row; all rows given are late or ahead."""
    windows = scheme.of_many(rows.primary)
    keys = encode_late_keys(windows, rows.secondary, rows.primary, addresses)
    versions = rows.version if rows.version is not None else np.zeros(len(rows), np.uint16)
    columns = {name: column.to_pylist() for name, column in rows.envelope.items()}
    values = [
        _encode_value(
            int(state),
            int(version),
            payload,
            {name: column[at] for name, column in columns.items()},
        )
        for at, (state, version, payload) in enumerate(
            zip(states, versions, rows.payload.to_pylist(), strict=True)
        )
    ]
    return list(zip(keys, values, strict=True))


def _encode_value(
    state: int, version: int, payload: bytes | None, envelope: dict[str, object]
) -> bytes:
    mask = 0
    nulls = _BITS["payload"] if payload is None else 0
    for name, value in envelope.items():
        mask |= _BITS[name]
        if value is None:
            nulls |= _BITS[name]
    key = envelope.get("key") or b""
    headers = envelope.get("headers")
    header_bytes = b"" if headers is None else _encode_headers(headers)  # type: ignore[arg-type]  # the column's type
    body = payload or b""
    head = _HEAD.pack(
        state,
        nulls,
        mask,
        envelope.get("timestamp_type") or 0,
        version,
        len(body),
        len(key),  # type: ignore[arg-type]  # the column's type
        len(header_bytes),
        envelope.get("timestamp") or 0,
    )
    return b"".join((head, body, key, header_bytes))  # type: ignore[arg-type]  # the column's type


def _encode_headers(headers: list[dict[str, object]]) -> bytes:
    out = [_COUNT.pack(len(headers))]
    for header in headers:
        key = str(header["key"]).encode()
        value = header["value"]
        body = value if isinstance(value, bytes) else None
        out.append(_HEADER.pack(len(key), -1 if body is None else len(body)))
        out.append(key)
        out.append(body or b"")
    return b"".join(out)


def _decode_headers(data: bytes) -> list[dict[str, object]]:
    (count,) = _COUNT.unpack_from(data)
    at = _COUNT.size
    headers: list[dict[str, object]] = []
    for _ in range(count):
        key_bytes, value_bytes = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        key = data[at : at + key_bytes].decode()
        at += key_bytes
        value = None if value_bytes < 0 else data[at : at + value_bytes]
        at += max(value_bytes, 0)
        headers.append({"key": key, "value": value})
    return headers


@dataclass(frozen=True, slots=True)
class LateRows:
    """Decoded late and ahead records in the order of their keys."""

    secondary: npt.NDArray[np.int32]
    primary: npt.NDArray[np.int64]
    address: npt.NDArray[np.int64]
    head: npt.NDArray[np.void]
    values: Sequence[bytes]

    def column(self, name: str) -> Array:
        """Return a carried column: payload, or one of the envelope (null where absent)."""
        bit = _BITS[name]
        absent = (self.head["nulls"] & bit) != 0
        if name != "payload":
            absent |= (self.head["mask"] & bit) == 0
        if name in ("timestamp", "timestamp_type"):
            return pa.array(self.head[name], ENVELOPE[name], mask=absent)
        sizes = self.head
        start = np.full(len(self.values), _HEAD.size, dtype=np.int64)
        if name != "payload":
            start += sizes["payload_bytes"]
        if name == "headers":
            start += sizes["key_bytes"]
        end = start + sizes[f"{name}_bytes"]
        parts = [
            None if gone else value[first:last]
            for value, first, last, gone in zip(
                self.values, start.tolist(), end.tolist(), absent.tolist(), strict=True
            )
        ]
        if name == "headers":
            decoded = [None if part is None else _decode_headers(part) for part in parts]
            return pa.array(decoded, ENVELOPE[name])
        return pa.array(parts, pa.binary())


def decode_late_rows(keys: list[bytes], values: list[bytes]) -> LateRows:
    """Return late records from what lies under their keys."""
    secondary, primary, address = decode_late_keys(keys)
    heads = b"".join([value[: _HEAD.size] for value in values])
    return LateRows(secondary, primary, address, np.frombuffer(heads, _HEAD_DTYPE), values)
