"""A zone: one block's summary, by which scans skip the block without reading it.

    zone = fields | sections
    fields = previous_end i64 | first i64 | last i64 | primary_min i64 | primary_max i64 |
             out_of_order_min i64 | out_of_order_max i64 | committed_at_ms i64 | checksum u64 |
             bytes u32 | count u32 | late u32 | ahead u32 | expired u32 | tombstones u32  (96 bytes)
    section = tag u8 | length u32 | body        unknown tags are skipped

`previous_end` is the end of the zone before it: the zones of a shard form a chain, and a hole
in a reader's view breaks it. `primary_min/max` span the normal rows, `out_of_order_min/max` the
late and ahead ones; an empty span has its minimum above its maximum. `checksum` is the
xxh3-64 of all bytes of the block.

A zone that counts no rows stands for blocks that have expired behind one that has not: it spans
all of them, and only its addresses mean anything, and the shard's generation since which the last
of them is gone.

    tag 1  secondaries as bitmap        least i32 | bits, least significant first
    tag 2  secondaries as sorted deltas least i32 | width u8 | deltas of that width
    tag 3  generation                   i64, of a zone that counts no rows

A zone without a checksum stands for rows whose blocks are gone (joined_zone.py). Where it has no
sections either, it is wide: nobody read its rows one by one. It counts them, but their ids are
unknown, and its bounds may reach further than they do.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage_core.errors import CorruptionError
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State

# A block is small below both.
SMALL_BYTES: Final = 16 * 2**10
SMALL_ROWS: Final = 256
_FIELDS: Final = struct.Struct("<8qQ6I")
_FIELDS_DTYPE: Final = np.dtype(
    [
        ("previous_end", "<i8"),
        ("first", "<i8"),
        ("last", "<i8"),
        ("primary_min", "<i8"),
        ("primary_max", "<i8"),
        ("out_of_order_min", "<i8"),
        ("out_of_order_max", "<i8"),
        ("committed_at_ms", "<i8"),
        ("checksum", "<u8"),
        ("block_bytes", "<u4"),
        ("count", "<u4"),
        ("late", "<u4"),
        ("ahead", "<u4"),
        ("expired", "<u4"),
        ("tombstones", "<u4"),
    ]
)
_fields_of: Final = attrgetter(*_FIELDS_DTYPE.fields or ())
_SECTION: Final = struct.Struct("<BI")
_LEAST: Final = struct.Struct("<i")
_DELTAS: Final = struct.Struct("<iB")
_TAG_BITMAP: Final = 1
_TAG_DELTAS: Final = 2
_GENERATION: Final = struct.Struct("<BIq")
_TAG_GENERATION: Final = 3
# In memory, of a zone whose ids are known and were left out; on disk no section has this tag.
IDS_LEFT_OUT: Final = _SECTION.pack(0, 0)
_EMPTY_SPAN: Final = (INT64_MAX, INT64_MIN)
# All of a zone whose rows are of one id, as of each commit of one record.
_ONE_ID: Final = np.dtype(
    [("fields", _FIELDS_DTYPE), ("tag", "u1"), ("length", "<u4"), ("id", "<i4"), ("width", "u1")]
)

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class Zone:
    """What a zone says of its block.

    Not frozen: that would make one three times as dear, and a scan makes one a block.
    """

    previous_end: int
    first: int
    last: int
    primary_min: int
    primary_max: int
    out_of_order_min: int
    out_of_order_max: int
    committed_at_ms: int
    checksum: int
    block_bytes: int
    count: int
    late: int
    ahead: int
    expired: int
    tombstones: int
    sections: bytes

    @property
    def end(self) -> int:
        """Exclusive end of the block's addresses."""
        return self.last + 1

    @property
    def is_small(self) -> bool:
        """Whether the block is better decoded with its neighbours (small_blocks.py)."""
        return self.block_bytes < SMALL_BYTES and self.count < SMALL_ROWS

    @property
    def is_dense(self) -> bool:
        """Tell whether each address that the block spans is one of its rows'."""
        return self.end - self.first == self.count

    @property
    def is_expired(self) -> bool:
        """Tell whether its blocks are gone: it only holds the place of what expired."""
        return self.count == 0

    @property
    def is_joined(self) -> bool:
        """Tell whether it stands for several blocks that were trimmed (joined_zone.py)."""
        return self.checksum == 0 and self.count > 0

    @property
    def is_wide(self) -> bool:
        """Tell whether it may have very many rows, of unknown ids, within wider bounds."""
        return self.is_joined and not self.sections

    @property
    def gone_since(self) -> int:
        """The generation since which all that an expired zone stands for is gone."""
        if len(self.sections) == _GENERATION.size:
            tag, _, generation = _GENERATION.unpack(self.sections)
            if tag == _TAG_GENERATION:
                return int(generation)
        # Nobody knows that it had gone before anything.
        return INT64_MAX

    def may_hold_normal(self, start: int, end: int) -> bool:
        """Tell whether a normal row can lie in the closed range of primaries."""
        return self.primary_min <= min(end, self.primary_max) and self.primary_max >= start

    def may_hold_out_of_order(self, start: int, end: int) -> bool:
        """Tell whether a late or ahead row can lie in the closed range of primaries."""
        first, last = self.out_of_order_min, self.out_of_order_max
        return first <= min(end, last) and last >= start

    def may_hold_ids(self, ids: Int32s) -> bool:
        """Tell whether the block has a row of any of these secondaries."""
        offset = 0
        sections = self.sections
        while offset < len(sections):
            tag, length = _SECTION.unpack_from(sections, offset)
            offset += _SECTION.size
            if tag == _TAG_BITMAP:
                return _bitmap_holds(sections[offset : offset + length], ids)
            if tag == _TAG_DELTAS:
                return _deltas_hold(sections[offset : offset + length], ids)
            offset += length
        return True


def expired_zone(previous_end: int, first: int, last: int, generation: int) -> Zone:
    """Return the zone that stands for blocks that are gone, so that the chain stays whole."""
    since = _GENERATION.pack(_TAG_GENERATION, _GENERATION.size - _SECTION.size, generation)
    nothing = (*_EMPTY_SPAN, *_EMPTY_SPAN, 0, 0, 0, 0, 0, 0, 0, 0)
    return Zone(previous_end, first, last, *nothing, since)


def primary_spans(
    primaries: Int64s, states: npt.NDArray[np.uint8] | None
) -> tuple[int, int, int, int]:
    """Return least and largest primary of the normal rows, then of the late and ahead rows."""
    if states is None:
        return *_span(primaries), *_EMPTY_SPAN
    normal = primaries[states == 0]
    out_of_order = primaries[(states == State.LATE) | (states == State.AHEAD)]
    return *_span(normal), *_span(out_of_order)


def state_counts(states: npt.NDArray[np.uint8] | None) -> tuple[int, int, int]:
    """Return how many rows are late, ahead and expired."""
    if states is None:
        return 0, 0, 0
    counts = np.bincount(states, minlength=4)
    return int(counts[State.LATE]), int(counts[State.AHEAD]), int(counts[State.EXPIRED])


def encode_zone(zone: Zone) -> bytes:
    """Return the bytes under a zone's key."""
    return encode_zone_fields(zone) + zone.sections


def encode_zone_fields(zone: Zone) -> bytes:
    """Return the part of these bytes that is of the same size for every zone."""
    return _FIELDS.pack(*_fields_of(zone))


def decode_zone_fields(data: bytes) -> npt.NDArray[np.void]:
    """Return the fields of zones one behind the other, as columns."""
    return np.frombuffer(data, _FIELDS_DTYPE)


def zone_without_sections(data: bytes, index: int) -> Zone:
    """Return one of the zones whose fields lie one behind the other."""
    fields: tuple[Any, ...] = (*_FIELDS.unpack_from(data, index * _FIELDS.size), b"")
    return Zone(*fields)


@dataclass(frozen=True, slots=True)
class ZoneChunk:
    """Neighbouring zones, their fields as columns; `zone` decodes one."""

    keys: npt.NDArray[np.uint64]
    fields: npt.NDArray[np.void]
    values: Sequence[bytes]

    def zone(self, index: int) -> Zone:
        """Return one of them."""
        value = self.values[index]
        fields: tuple[Any, ...] = (*_FIELDS.unpack_from(value), value[_FIELDS.size :])
        return Zone(*fields)

    def may_hold_ids(self, ids: Int32s) -> npt.NDArray[np.bool_]:
        """Tell which blocks can have a row of some ids, as far as zones of one id say it."""
        candidates = np.ones(len(self.values), dtype=np.bool_)
        sizes = np.fromiter(map(len, self.values), np.int64, len(self.values))
        of_one_id = np.flatnonzero(sizes == _ONE_ID.itemsize)
        if len(of_one_id):
            ones = np.frombuffer(
                b"".join([self.values[one] for one in of_one_id.tolist()]), _ONE_ID
            )
            is_one = (ones["tag"] == _TAG_DELTAS) & (ones["length"] == _DELTAS.size)
            candidates[of_one_id] = ~is_one | np.isin(ones["id"], ids)
        return candidates


def decode_zones(items: Sequence[tuple[bytes, bytes]], shard: int) -> ZoneChunk:
    """Return zones from what lies under their keys.

    Raises:
        CorruptionError: One does not belong to its key.
    """
    keys = np.frombuffer(b"".join([key[1:] for key, _ in items]), dtype=">u8").astype(np.uint64)
    values = [value for _, value in items]
    if len(keys) == len(items) and min(map(len, values), default=0) >= _FIELDS.size:
        fields = np.frombuffer(b"".join([value[: _FIELDS.size] for value in values]), _FIELDS_DTYPE)
        first, last = fields["first"], fields["last"]
        is_ours = (first.astype(np.uint64) == keys) & (last >= first)
        if (is_ours & (first >= fields["previous_end"]) & (fields["previous_end"] >= 0)).all():
            return ZoneChunk(keys, fields, values)
    start = int.from_bytes(items[0][0][1:], "big") if items else 0
    message = "a zone does not belong to its key"
    raise CorruptionError(message, shard=shard, start=start, end=start + 1)


def decode_zone(key_address: int, data: bytes, shard: int) -> Zone:
    """Return what `encode_zone` was given.

    Raises:
        CorruptionError: The bytes are not a zone of this address.
    """
    return decode_zones([(b"z" + key_address.to_bytes(8, "big"), data)], shard).zone(0)


def encode_one_secondary(secondary: int) -> bytes:
    """Return the section of a block whose rows are all of one secondary."""
    return _SECTION.pack(_TAG_DELTAS, _DELTAS.size) + _DELTAS.pack(secondary, 1)


def encode_secondaries(secondaries: Int32s) -> bytes:
    """Return the set of secondaries as a section: the smaller of bitmap and sorted deltas."""
    first = int(secondaries.min())
    span = int(secondaries.max()) - first + 1
    if span == 1:
        return encode_one_secondary(first)
    if span <= 8 * len(secondaries):
        flags = np.zeros(span, dtype=np.uint8)
        flags[secondaries.astype(np.int64) - first] = 1
        bitmap = _LEAST.pack(first) + np.packbits(flags, bitorder="little").tobytes()
        if int(flags.sum()) + _DELTAS.size >= len(bitmap):
            return _SECTION.pack(_TAG_BITMAP, len(bitmap)) + bitmap
        unique = np.flatnonzero(flags) + first
    else:
        # NOTE: numpy's own `unique` hashes first, which takes eighty times as long (2.3).
        ordered = np.sort(secondaries).astype(np.int64)
        unique = np.append(ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]])
    deltas = np.diff(unique)
    width = next(w for w in (1, 2, 4) if not len(deltas) or int(deltas.max()) < 256**w)
    body = _DELTAS.pack(first, width) + deltas.astype(f"<u{width}").tobytes()
    return _SECTION.pack(_TAG_DELTAS, len(body)) + body


def decode_secondaries(sections: bytes) -> Int64s | None:
    """Return the sorted set of secondaries in a zone's sections, or None if it holds none."""
    offset = 0
    while offset < len(sections):
        tag, length = _SECTION.unpack_from(sections, offset)
        offset += _SECTION.size
        body = sections[offset : offset + length]
        if tag == _TAG_BITMAP:
            bits = np.unpackbits(np.frombuffer(body, np.uint8, offset=4), bitorder="little")
            least: int = _LEAST.unpack_from(body)[0]
            return np.flatnonzero(bits) + least
        if tag == _TAG_DELTAS:
            return _decode_deltas(body)
        offset += length
    return None


def _decode_deltas(body: bytes) -> Int64s:
    least, width = _DELTAS.unpack_from(body)
    deltas = np.frombuffer(body, dtype=f"<u{width}", offset=_DELTAS.size)
    unique = np.empty(len(deltas) + 1, dtype=np.int64)
    unique[0] = least
    np.cumsum(deltas, out=unique[1:])
    unique[1:] += least
    return unique


def _deltas_hold(body: bytes, ids: Int32s) -> bool:
    if len(body) == _DELTAS.size:
        # Of one id, as of each commit of one record: whoever comes to many looks at each.
        least: int = _DELTAS.unpack_from(body)[0]
        return int(ids[0]) == least if len(ids) == 1 else bool((ids == least).any())
    unique = _decode_deltas(body)
    positions = unique.searchsorted(ids)
    return bool((unique[np.minimum(positions, len(unique) - 1)] == ids).any())


def _bitmap_holds(body: bytes, ids: Int32s) -> bool:
    (least,) = _LEAST.unpack_from(body)
    bits = (len(body) - _LEAST.size) * 8
    if len(ids) == 1:
        bit = int(ids[0]) - least
        return 0 <= bit < bits and bool(body[_LEAST.size + (bit >> 3)] >> (bit & 7) & 1)
    at_many = ids.astype(np.int64) - least
    at_many = at_many[(at_many >= 0) & (at_many < bits)]
    flags = np.frombuffer(body, np.uint8, offset=_LEAST.size)
    return bool(((flags[at_many >> 3] >> (at_many & 7)) & 1).any())


def _span(primaries: Int64s) -> tuple[int, int]:
    return (int(primaries.min()), int(primaries.max())) if len(primaries) else _EMPTY_SPAN
