"""Where the body begins in a payload, by what stands before it, and what a writer puts there.

    0x00, id (4 bytes, big-endian), body            Confluent's: a schema's id in its registry
    0x01, GUID (16 bytes), body                     Confluent's: the same in any registry
    0xC3 0x01, CRC-64-AVRO (8 bytes), body          Avro's single-object encoding: no registry
    a header `__value_schema_id` that has a value   the payload is the body

Which schema wrote a body stands beside the row in the store. So a body that only begins like a
frame is told from a framed one: a frame names the schema of its row. A GUID names no schema here;
where the row's schema has an id in a registry, 0x01 and 16 bytes are taken for one.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.schema import AvroSchema
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT32_MAX

Places = npt.NDArray[np.int64]
Array = Any

_HEADER: Final = "__value_schema_id"
_SINGLE_OBJECT: Final = b"\xc3\x01"
# What the frames begin with, and how many bytes they have.
_FRAMES: Final = ((b"\x00", 5), (b"\x01", 17), (_SINGLE_OBJECT, 10))
_compute: Any = pc  # the stubs want to know what an array holds
_untyped: Any = pa


def frame_of(schema: AvroSchema, registry_id: int | None) -> bytes:
    """Return what stands before a schema's bodies: its id, or where it has none its fingerprint.

    Raises:
        InvalidRequestError: It is no id.
    """
    if registry_id is None:
        return _SINGLE_OBJECT + schema.fingerprint
    if not 0 <= registry_id <= INT32_MAX:
        message = f"a schema's id in a registry is from 0 to {INT32_MAX}, not {registry_id}"
        raise InvalidRequestError(message)
    return b"\x00" + registry_id.to_bytes(4, "big")


def starts_of(payloads: Array, headers: Array | None = None) -> Places:
    """Return where each body begins.

    Args:
        payloads: Binary; of a null it is 0.
        headers: A list of key and value for each payload, where rows have headers.
    """
    if isinstance(payloads, pa.ChunkedArray):
        payloads = payloads.combine_chunks()
    starts = np.zeros(len(payloads), np.int64)
    if not len(payloads):
        return starts
    is_wide = pa.types.is_large_binary(payloads.type)
    buffers = payloads.buffers()
    kind = np.dtype(np.int64 if is_wide else np.int32)
    edges = np.frombuffer(buffers[1], kind, len(payloads) + 1, payloads.offset * kind.itemsize)
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    sizes = np.diff(edges)
    if payloads.null_count:
        sizes[payloads.is_null().to_numpy(zero_copy_only=False)] = 0
    usual, usual_size = _FRAMES[0]
    if sizes.min() >= usual_size and (data[edges[:-1]] == usual[0]).all():
        starts[:] = usual_size
    else:
        for begin, size in _FRAMES:
            positions = np.flatnonzero(sizes >= size)
            for place, byte in enumerate(begin):
                positions = positions[data[edges[positions] + place] == byte]
            starts[positions] = size
    if headers is not None and headers.null_count < len(headers):
        starts[_rows_named_by_header(headers)] = 0
    return starts


def starts_by(schema: AvroSchema, registry_id: int, payloads: Array, starts: Places) -> Places:
    """Return where bodies of one schema begin: without a frame where it is not the schema's.

    Args:
        schema: The schema that wrote them.
        registry_id: Its id in its registry; 0 where none has it.
        payloads: Binary, without nulls where `starts` is not 0.
        starts: What `starts_of` returned for them.
    """
    checked = starts
    by_id = frame_of(schema, registry_id) if registry_id > 0 else b""
    frames = {5: by_id, 10: frame_of(schema, None), 17: b"\x01" if registry_id > 0 else b""}
    for size, frame in frames.items():
        positions = np.flatnonzero(starts == size)
        if not len(positions):
            continue
        is_other = np.ones(len(positions), np.bool_)
        if frame:
            heads = _compute.binary_slice(payloads.take(_untyped.array(positions)), 0, len(frame))
            is_other = _compute.not_equal(heads, frame).to_numpy(zero_copy_only=False)
        if is_other.any():
            checked = checked.copy() if checked is starts else checked
            checked[positions[is_other]] = 0
    return checked


def _rows_named_by_header(headers: Array) -> Places:
    if isinstance(headers, pa.ChunkedArray):
        headers = headers.combine_chunks()
    items = _compute.list_flatten(headers)
    is_name = _compute.equal(_compute.struct_field(items, [0]), _HEADER)
    named = _compute.and_(is_name, _compute.struct_field(items, [1]).is_valid())
    rows: Places = _compute.list_parent_indices(headers).filter(named).to_numpy()
    return rows
