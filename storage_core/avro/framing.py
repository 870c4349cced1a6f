"""Framing: the header before an Avro body in a payload, and where the body starts.

    0x00, id (4 bytes, big-endian), body            Confluent's: a schema's id in its registry
    0x01, GUID (16 bytes), body                     Confluent's: the same in any registry
    0xC3 0x01, CRC-64-AVRO (8 bytes), body          Avro's single-object encoding: no registry
    a header `__value_schema_id` that has a value   the payload is the body

The log stores the schema of each row, so a body that only starts like a frame is recognised: a
frame has the id or fingerprint of its row's schema. A GUID cannot be compared: if the row's schema
has a registry id, 0x01 and 16 bytes are taken for a frame. A body of JSON stands bare, or behind a
frame of a registry's, which tells nothing then.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.schema import AvroSchema
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT32_MAX

Offsets = npt.NDArray[np.int64]
Array = Any

_HEADER: Final = "__value_schema_id"
_SINGLE_OBJECT: Final = b"\xc3\x01"
# The first bytes of each frame, and its size.
_FRAMES: Final = ((b"\x00", 5), (b"\x01", 17), (_SINGLE_OBJECT, 10))
_compute: Any = pc  # the stubs want to know what an array holds
_untyped: Any = pa


def frame_of(schema: AvroSchema, registry_id: int | None) -> bytes:
    """Return the frame of a schema's bodies: by its registry id, or if None by its fingerprint.

    Raises:
        InvalidRequestError: The id is out of range.
    """
    if registry_id is None:
        return _SINGLE_OBJECT + schema.fingerprint
    if not 0 <= registry_id <= INT32_MAX:
        message = f"a registry id must be from 0 to {INT32_MAX}, not {registry_id}"
        raise InvalidRequestError(message)
    return b"\x00" + registry_id.to_bytes(4, "big")


def body_starts(payloads: Array, headers: Array | None = None) -> Offsets:
    """Return where the body of each payload starts.

    Args:
        payloads: Binary; the start of a null is 0.
        headers: The records' headers: a list of key and value for each payload.
    """
    if isinstance(payloads, pa.ChunkedArray):
        payloads = payloads.combine_chunks()
    starts = np.zeros(len(payloads), np.int64)
    if not len(payloads):
        return starts
    is_large = pa.types.is_large_binary(payloads.type)
    buffers = payloads.buffers()
    kind = np.dtype(np.int64 if is_large else np.int32)
    offsets = np.frombuffer(buffers[1], kind, len(payloads) + 1, payloads.offset * kind.itemsize)
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    sizes = np.diff(offsets)
    if payloads.null_count:
        sizes[payloads.is_null().to_numpy(zero_copy_only=False)] = 0
    common_prefix, common_size = _FRAMES[0]
    if sizes.min() >= common_size and (data[offsets[:-1]] == common_prefix[0]).all():
        starts[:] = common_size
    else:
        for prefix, size in _FRAMES:
            positions = np.flatnonzero(sizes >= size)
            for index, byte in enumerate(prefix):
                positions = positions[data[offsets[positions] + index] == byte]
            starts[positions] = size
    if headers is not None and headers.null_count < len(headers):
        starts[_rows_with_header(headers)] = 0
    return starts


def verified_starts(
    schema: AvroSchema, registry_id: int, payloads: Array, starts: Offsets
) -> Offsets:
    """Return where bodies of one schema start: 0 where the frame is not that of the schema.

    Args:
        schema: The writer's schema.
        registry_id: Its registry id; 0 if it has none.
        payloads: Binary, not null where `starts` is not 0.
        starts: The result of `body_starts`.
    """
    if schema.has_json_bodies:
        # No text of JSON begins as a registry's frame does, whichever schema that names.
        return starts
    verified = starts
    id_frame = frame_of(schema, registry_id) if registry_id > 0 else b""
    frames = {5: id_frame, 10: frame_of(schema, None), 17: b"\x01" if registry_id > 0 else b""}
    for size, frame in frames.items():
        positions = np.flatnonzero(starts == size)
        if not len(positions):
            continue
        differs = np.ones(len(positions), np.bool_)
        if frame:
            prefixes = _compute.binary_slice(
                payloads.take(_untyped.array(positions)), 0, len(frame)
            )
            differs = _compute.not_equal(prefixes, frame).to_numpy(zero_copy_only=False)
        if differs.any():
            verified = verified.copy() if verified is starts else verified
            verified[positions[differs]] = 0
    return verified


def _rows_with_header(headers: Array) -> Offsets:
    if isinstance(headers, pa.ChunkedArray):
        headers = headers.combine_chunks()
    items = _compute.list_flatten(headers)
    has_name = _compute.equal(_compute.struct_field(items, [0]), _HEADER)
    is_named = _compute.and_(has_name, _compute.struct_field(items, [1]).is_valid())
    rows: Offsets = _compute.list_parent_indices(headers).filter(is_named).to_numpy()
    return rows
