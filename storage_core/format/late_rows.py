"""Late and ahead records, copied out of arrival order into (secondary, primary) order.

Every record goes to the log with its state; late and ahead ones also go here, so that a range
read finds them in their place without scanning forward. They are few; when they are many,
this is an LSM tree and still ordered.

    key    l window secondary primary address
    value  fields | payload | key | headers | schema
    fields state u8 | nulls u8 | mask u8 | timestamp_type i8 | version u16 |
           payload_bytes u32 | key_bytes u32 | headers_bytes u32 | timestamp i64 |
           committed_at_ms i64                                                       (34 bytes)
    headers  count u32, then per header: key_bytes i32 | value_bytes i32 | key | value
             (-1 for a null one; -2 for the key's where the whole header is null)
    schema   number i32, where the row has one; nothing else
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.keys import decode_late_keys, encode_late_keys
from storage_core.format.record import Rows
from storage_core.format.row_columns import ENVELOPE, SCHEMA, SCHEMA_TYPE
from storage_core.format.window import WindowScheme
from storage_core.platform.arrow import Array

_FIELDS: Final = struct.Struct("<BBBbHIIIqq")
_FIELDS_DTYPE: Final = np.dtype(
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
        ("committed_at_ms", "<i8"),
    ]
)
_HEADER: Final = struct.Struct("<ii")
_NULL: Final = -1
_NULL_HEADER: Final = -2
_COUNT: Final = struct.Struct("<I")
_BITS: Final = {
    "payload": 1,
    "key": 2,
    "headers": 4,
    "timestamp": 8,
    "timestamp_type": 16,
    SCHEMA: 32,
}
_SCHEMA: Final = struct.Struct("<i")

Header = dict[str, str | bytes | None]


def encode_late_rows(
    rows: Rows,
    states: npt.NDArray[np.uint8],
    addresses: npt.NDArray[np.int64],
    scheme: WindowScheme,
    committed_at_ms: int | npt.NDArray[np.int64],
) -> list[tuple[bytes, bytes]]:
    """Return a key and a value for each row; all rows given are late or ahead.

    They were committed at one time, or each at its own.
    """
    keys = encode_late_keys(scheme.of_many(rows.primary), rows.secondary, rows.primary, addresses)
    fields = np.zeros(len(rows), dtype=_FIELDS_DTYPE)
    fields["state"] = states
    fields["committed_at_ms"] = committed_at_ms
    if rows.version is not None:
        fields["version"] = rows.version
    bodies = [_bodies(fields, "payload", rows.payload)]
    for name, column in rows.envelope.items():
        fields["mask"] |= _BITS[name]
        if name == SCHEMA:
            _mark_nulls(fields, name, column)
            numbers = column.to_pylist()
            bodies.append([b"" if one is None else _SCHEMA.pack(one) for one in numbers])
        elif name in ("key", "headers"):
            bodies.append(_bodies(fields, name, column))
        else:
            _mark_nulls(fields, name, column)
            fields[name] = column.fill_null(0).to_numpy()
    data = fields.tobytes()
    packed = [data[at : at + _FIELDS.size] for at in range(0, len(data), _FIELDS.size)]
    values = [b"".join(parts) for parts in zip(packed, *bodies, strict=True)]
    return list(zip(keys, values, strict=True))


def _bodies(fields: npt.NDArray[np.void], name: str, column: Array) -> list[bytes]:
    """Return a column's bytes a row, nulls as empty, and note their sizes."""
    _mark_nulls(fields, name, column)
    if name == "headers":
        bodies = [_encode_headers(headers or []) for headers in column.to_pylist()]
    else:
        bodies = [body or b"" for body in column.to_pylist()]
    fields[f"{name}_bytes"] = [len(body) for body in bodies]
    return bodies


def _mark_nulls(fields: npt.NDArray[np.void], name: str, column: Array) -> None:
    if column.null_count:
        fields["nulls"][column.is_null().to_numpy(zero_copy_only=False)] |= _BITS[name]


def _encode_headers(headers: list[Header | None]) -> bytes:
    out = [_COUNT.pack(len(headers))]
    for header in headers:
        if header is None:
            out.append(_HEADER.pack(_NULL_HEADER, _NULL))
            continue
        key = None if header["key"] is None else str(header["key"]).encode()
        value = header["value"] if isinstance(header["value"], bytes) else None
        out.append(_HEADER.pack(*(_NULL if part is None else len(part) for part in (key, value))))
        out.extend((key or b"", value or b""))
    return b"".join(out)


def _decode_headers(data: bytes) -> list[Header | None]:
    (count,) = _COUNT.unpack_from(data)
    offset = _COUNT.size
    headers: list[Header | None] = []
    for _ in range(count):
        key_bytes, value_bytes = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        key_end = offset + max(key_bytes, 0)
        value_end = key_end + max(value_bytes, 0)
        key = None if key_bytes < 0 else data[offset:key_end].decode()
        value = None if value_bytes < 0 else data[key_end:value_end]
        headers.append(None if key_bytes == _NULL_HEADER else {"key": key, "value": value})
        offset = value_end
    return headers


@dataclass(frozen=True, slots=True)
class LateRows:
    """Decoded late and ahead records in the order of their keys."""

    secondary: npt.NDArray[np.int32]
    primary: npt.NDArray[np.int64]
    address: npt.NDArray[np.int64]
    fields: npt.NDArray[np.void]
    values: Sequence[bytes]

    def column(self, name: str) -> Array:
        """Return a carried column: payload, or one of the envelope (null where absent)."""
        bit = _BITS[name]
        absent = (self.fields["nulls"] & bit) != 0
        if name != "payload":
            absent |= (self.fields["mask"] & bit) == 0
        if name in ("timestamp", "timestamp_type"):
            return pa.array(self.fields[name], ENVELOPE[name], mask=absent)
        if name == SCHEMA:
            numbers = [
                None if gone else _SCHEMA.unpack(value[-_SCHEMA.size :])[0]
                for value, gone in zip(self.values, absent.tolist(), strict=True)
            ]
            return pa.array(numbers, SCHEMA_TYPE)
        sizes = self.fields
        start = np.full(len(self.values), _FIELDS.size, dtype=np.int64)
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


def has_whole_values(late: LateRows) -> bool:
    """Tell whether each value ends where its fields say."""
    fields = late.fields
    sizes = fields["payload_bytes"].astype(np.int64) + fields["key_bytes"] + fields["headers_bytes"]
    has_schema = (fields["mask"] & ~fields["nulls"] & _BITS[SCHEMA]) != 0
    sizes = sizes + np.where(has_schema, _SCHEMA.size, 0)
    return bool(np.array_equal(sizes + _FIELDS.size, [len(value) for value in late.values]))


def decode_late_rows(keys: list[bytes], values: list[bytes]) -> LateRows:
    """Return late records from what lies under their keys."""
    secondary, primary, address = decode_late_keys(keys)
    packed = b"".join([value[: _FIELDS.size] for value in values])
    return LateRows(secondary, primary, address, np.frombuffer(packed, _FIELDS_DTYPE), values)
