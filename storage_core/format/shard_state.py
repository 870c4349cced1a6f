"""What a shard keeps about itself under `m`, beside its rows.

    m next         end of what was written (the tail), end of the last block, counters.
                   Written by every batch, those without rows too
    m lineage      16 random bytes made with the shard
    m generation   i64, raised by every open for writing
    m born, m start, m floor, m heads    i64: first address ever; log start; least live
                   primary; address up to which heads are on disk
    m expired      i64: exclusive end of the last zone that is marked expired
    m cut          i64: rows below this address are gone, whatever their primary (a cap)
    m keys         i64: how many keys have a number, which are 0 to before it (dictionary)
    m schemas      i64: how many schemas have one
    m sealed       i64: all rows below this address are in parts too
    m parts        i64: how many parts have got a number
    m catalogue    i64: the sum over the entries of all parts; 0 where it is missing
    m trimmed      i64: the blocks below this address are gone, their zones are not: parts have
                   their rows
    m lake predecessor   i64: the number of the log from whose files in the lake this one began
    m segments     number i64 and end i64 of the last segment; written by every batch with blocks
                   in one. What lies behind is referred to by nothing (segments.py)
    m segments begin   i64: number of the first segment that is kept; 1 where it is missing
    m index        how far the sparse index is: entries u64 | dropped u64 | scale_up u64 |
                   scale_down u64 | spacing u64; written with entries (adaptive_writer.py)
    m dropped, m retried, m discarded   i64: how many dead letters were cleared for other reasons
                   than that they were forwarded
    m removed      empty: rows were removed that counters and windows had taken in, or may have been
    m source       JSON: where the source of the rows stands
    m lost/<address>, m gap/<address>, m pass/<address>    exclusive end i64 (and why):
                   acknowledged and gone; accepted as gone; gone at the source before they came
    m transactions   places of the ids that are remembered: named first i64, next i64,
                   numbered first i64, next i64; then, of the transaction that is begun,
                   rows_done u64 | rows_total u64 | rows of all shards u64 |
                   address where it begins i64 | name

Of each segment there is `g` number: the address of its first block, big-endian, and a byte more if
its file is gone, though not those of all segments before it.

Of each transaction that is done there is `t` name, with the same numbers, and `o` kind place,
which tells whose turn it is to be forgotten (ledger.py).

Readers in other processes look these up by iterator only: their `get` of a key that is
ever overwritten goes stale.
"""

import json
import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from storage_core.errors import CorruptionError
from storage_core.format.counters import (
    NO_CLEARED_DEAD_LETTERS,
    ClearedDeadLetters,
    Counters,
    IndexCounts,
)
from storage_core.format.keys import INT64_MIN, PREFIX_META, meta_key, prefix_end

_TAIL: Final = struct.Struct("<qq12Q")
_INT: Final = struct.Struct("<q")
_PROGRESS: Final = struct.Struct("<QQQq")
_PLACES: Final = struct.Struct("<qqqq")
_SEGMENTS_END: Final = struct.Struct("<qq")
_ADDRESS_BYTES: Final = 8
_INDEX: Final = struct.Struct("<5Q")
_NO_INDEX: Final = IndexCounts()

KEY_NEXT: Final = meta_key("next")
KEY_LINEAGE: Final = meta_key("lineage")
KEY_GENERATION: Final = meta_key("generation")
KEY_BORN: Final = meta_key("born")
KEY_START: Final = meta_key("start")
KEY_FLOOR: Final = meta_key("floor")
KEY_HEADS: Final = meta_key("heads")
KEY_HEADS_MOST: Final = meta_key("heads most")
KEY_EXPIRED: Final = meta_key("expired")
KEY_CUT: Final = meta_key("cut")
KEY_DROPPED: Final = meta_key("dropped")
KEY_RETRIED: Final = meta_key("retried")
KEY_DISCARDED: Final = meta_key("discarded")
KEY_SOURCE: Final = meta_key("source")
KEY_KEYS: Final = meta_key("keys")
KEY_SCHEMAS: Final = meta_key("schemas")
KEY_SEALED: Final = meta_key("sealed")
KEY_PARTS: Final = meta_key("parts")
KEY_PART_LIST: Final = meta_key("catalogue")
KEY_TRIMMED: Final = meta_key("trimmed")
KEY_LAKE_PREDECESSOR: Final = meta_key("lake predecessor")
_PREFIX_LOST: Final = meta_key("lost/")
_PREFIX_GAP: Final = meta_key("gap/")
_PREFIX_PASS: Final = meta_key("pass/")
KEY_SEGMENTS: Final = meta_key("segments")
KEY_SEGMENTS_BEGIN: Final = meta_key("segments begin")
KEY_INDEX: Final = meta_key("index")
KEY_REMOVED: Final = meta_key("removed")
KEY_TRANSACTIONS: Final = meta_key("transactions")
STATE_RANGE: Final = (PREFIX_META, prefix_end(PREFIX_META))


@dataclass(frozen=True, slots=True)
class Tail:
    """Where writing stands: `next` is the exclusive end, `blocks_end` the last block's."""

    next: int
    blocks_end: int
    counters: Counters


class SegmentsEnd(NamedTuple):
    """Where the blocks in segments end: in the last one, which has this number."""

    number: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class AddressRange:
    """A half-open range of addresses."""

    start: int
    end: int

    def overlaps(self, start: int, end: int) -> bool:
        """Tell whether any address lies in both ranges."""
        return self.start < end and start < self.end


@dataclass(frozen=True, slots=True)
class TransactionProgress:
    """How far a transaction has come in this shard."""

    rows_done: int
    rows_total: int
    rows_of_all_shards: int
    begin: int

    @property
    def is_done(self) -> bool:
        """Tell whether all its rows are in."""
        return self.rows_done == self.rows_total


@dataclass(frozen=True, slots=True)
class Places:
    """Places of the ids of one kind that are remembered, `first` to before `next`."""

    first: int = 0
    next: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a shard knows of transactions without looking one up.

    `begun` is the one of which only a part is written; `named` are transactions that nothing
    but their id tells apart, `numbered` those that the mark of their series speaks for.
    """

    begun: tuple[str, TransactionProgress] | None = None
    named: Places = Places()
    numbered: Places = Places()


@dataclass(frozen=True, slots=True)
class ShardState:
    """All that lies under `m`: a shard at one moment, as the last batch written left it.

    A writer goes on without `ledger`, which its transactions have (write/ledger.py).
    """

    tail: Tail = field(default_factory=lambda: Tail(0, 0, Counters()))
    lineage: bytes | None = None
    generation: int = 0
    born: int = 0
    start: int = 0
    floor: int = INT64_MIN
    heads_through: int = 0
    source: dict[str, object] | None = None
    lost: tuple[AddressRange, ...] = ()
    gaps: tuple[AddressRange, ...] = ()
    passed: tuple[AddressRange, ...] = ()
    ledger: Ledger | None = Ledger()
    has_removed: bool = False
    keys: int = 0
    schemas: int = 0
    expired_end: int = 0
    index: IndexCounts = _NO_INDEX
    cut: int = 0
    sealed: int = 0
    parts: int = 0
    part_list_sum: int = 0
    trimmed: int = 0
    lake_predecessor: int | None = None
    cleared: ClearedDeadLetters = NO_CLEARED_DEAD_LETTERS

    @classmethod
    def unborn(cls, born: int) -> "ShardState":
        """Return the state of a shard of which nothing was ever written."""
        return cls(Tail(born, born, Counters()), born=born, start=born, cut=born, sealed=born)


def generation_after(*generations: int) -> int:
    """Return the next even generation above all of these; odd ones mean that a rebuild runs."""
    return (max(generations) // 2 + 1) * 2


def encode_tail(tail: Tail) -> bytes:
    """Return the bytes under `m next`."""
    return _TAIL.pack(tail.next, tail.blocks_end, *tail.counters)


def decode_tail(data: bytes) -> Tail:
    """Return what `encode_tail` was given."""
    next_address, blocks_end, *counts = _TAIL.unpack(data)
    return Tail(next_address, blocks_end, Counters(*counts))


def encode_segments_end(end: SegmentsEnd) -> bytes:
    """Return the bytes under `m segments`."""
    return _SEGMENTS_END.pack(*end)


def decode_segments_end(data: bytes) -> SegmentsEnd:
    """Return what `encode_segments_end` was given.

    Raises:
        CorruptionError: The bytes are of another length.
    """
    try:
        return SegmentsEnd(*_SEGMENTS_END.unpack(data))
    except struct.error as error:
        message = f"where the segments end, under {KEY_SEGMENTS!r}, cannot be read: {error}"
        raise CorruptionError(message) from error


def encode_segment(first: int, *, is_gone: bool = False) -> bytes:
    """Return the bytes under a segment's key: its first block's address, and if it is gone."""
    return first.to_bytes(8, "big") + (b"\x01" if is_gone else b"")


def decode_segment(data: bytes) -> tuple[int, bool]:
    """Return the address of a segment's first block, and whether the segment is gone."""
    return int.from_bytes(data[:8], "big"), len(data) > _ADDRESS_BYTES


def encode_index_counts(counts: IndexCounts) -> bytes:
    """Return the bytes under `m index`."""
    return _INDEX.pack(*counts[:-1])


def encode_int(value: int) -> bytes:
    """Return the bytes of a single number under `m`."""
    return _INT.pack(value)


def decode_int(data: bytes) -> int:
    """Return what `encode_int` was given."""
    value: int = _INT.unpack(data)[0]
    return value


def encode_source(source: dict[str, object]) -> bytes:
    """Return the bytes under `m source`."""
    return json.dumps(source, sort_keys=True).encode()


def lost_key(start: int) -> bytes:
    """Return the key of a lost range."""
    return _PREFIX_LOST + start.to_bytes(8, "big")


def gap_key(start: int) -> bytes:
    """Return the key of an accepted gap."""
    return _PREFIX_GAP + start.to_bytes(8, "big")


def pass_key(start: int) -> bytes:
    """Return the key of a range that the source no longer had."""
    return _PREFIX_PASS + start.to_bytes(8, "big")


def encode_range_end(end: int, reason: str = "") -> bytes:
    """Return the bytes under a lost range or gap."""
    return _INT.pack(end) + reason.encode()


def encode_progress(progress: TransactionProgress) -> bytes:
    """Return the bytes under a transaction's key."""
    return _PROGRESS.pack(
        progress.rows_done, progress.rows_total, progress.rows_of_all_shards, progress.begin
    )


def decode_progress(data: bytes) -> TransactionProgress:
    """Return what `encode_progress` was given."""
    return TransactionProgress(*_PROGRESS.unpack(data))


def encode_ledger(ledger: Ledger) -> bytes:
    """Return the bytes under `m transactions`."""
    named, numbered = ledger.named, ledger.numbered
    places = _PLACES.pack(named.first, named.next, numbered.first, numbered.next)
    if ledger.begun is None:
        return places
    name, progress = ledger.begun
    return places + encode_progress(progress) + name.encode()


def decode_ledger(data: bytes) -> Ledger:
    """Return what `encode_ledger` was given."""
    first, next_, numbered_first, numbered_next = _PLACES.unpack_from(data)
    begun = None
    if len(data) > _PLACES.size:
        offset = _PLACES.size + _PROGRESS.size
        begun = data[offset:].decode(), decode_progress(data[_PLACES.size : offset])
    return Ledger(begun, Places(first, next_), Places(numbered_first, numbered_next))


def says_nothing(entries: list[tuple[bytes, bytes]]) -> bool:
    """Tell whether no batch of a shard is among what lies under `m`; each one has a tail."""
    return not any(key == KEY_NEXT for key, _ in entries)


def decode_state(entries: list[tuple[bytes, bytes]], shard: int, born: int = 0) -> ShardState:
    """Return the state from everything under `m`.

    Args:
        entries: Keys and values.
        shard: The shard's number.
        born: Where it begins, if its store does not say so.

    Raises:
        CorruptionError: An entry cannot be read.
    """
    single = {key: value for key, value in entries if b"/" not in key}
    unborn = ShardState.unborn(born)
    try:
        return ShardState(
            tail=decode_tail(single[KEY_NEXT]) if KEY_NEXT in single else unborn.tail,
            lineage=single.get(KEY_LINEAGE),
            generation=_int_or(single, KEY_GENERATION, 0),
            born=_int_or(single, KEY_BORN, born),
            start=_int_or(single, KEY_START, born),
            floor=_int_or(single, KEY_FLOOR, INT64_MIN),
            heads_through=_int_or(single, KEY_HEADS, 0),
            source=json.loads(single[KEY_SOURCE]) if KEY_SOURCE in single else None,
            lost=_ranges(entries, _PREFIX_LOST),
            gaps=_ranges(entries, _PREFIX_GAP),
            passed=_ranges(entries, _PREFIX_PASS),
            ledger=_ledger(single),
            has_removed=KEY_REMOVED in single,
            keys=_int_or(single, KEY_KEYS, 0),
            schemas=_int_or(single, KEY_SCHEMAS, 0),
            expired_end=_int_or(single, KEY_EXPIRED, 0),
            index=IndexCounts(*_INDEX.unpack(single.get(KEY_INDEX, bytes(_INDEX.size)))),
            cut=_int_or(single, KEY_CUT, born),
            sealed=_int_or(single, KEY_SEALED, born),
            parts=_int_or(single, KEY_PARTS, 0),
            part_list_sum=_int_or(single, KEY_PART_LIST, 0),
            trimmed=_int_or(single, KEY_TRIMMED, 0),
            lake_predecessor=_int_or_none(single, KEY_LAKE_PREDECESSOR),
            cleared=ClearedDeadLetters(
                _int_or(single, KEY_DROPPED, 0),
                _int_or(single, KEY_RETRIED, 0),
                _int_or(single, KEY_DISCARDED, 0),
            ),
        )
    except (KeyError, struct.error, ValueError) as error:
        message = f"the shard's state under {PREFIX_META!r} cannot be read: {error}"
        raise CorruptionError(message, shard=shard) from error


def _int_or(single: dict[bytes, bytes], key: bytes, default: int) -> int:
    if key not in single:
        return default
    value: int = _INT.unpack(single[key])[0]
    return value


def _int_or_none(single: dict[bytes, bytes], key: bytes) -> int | None:
    return decode_int(single[key]) if key in single else None


def _ledger(single: dict[bytes, bytes]) -> Ledger:
    if KEY_TRANSACTIONS not in single and KEY_NEXT not in single:
        return Ledger()
    return decode_ledger(single[KEY_TRANSACTIONS])


def _ranges(entries: list[tuple[bytes, bytes]], prefix: bytes) -> tuple[AddressRange, ...]:
    ranges = (
        AddressRange(int.from_bytes(key[len(prefix) :], "big"), _INT.unpack_from(value)[0])
        for key, value in entries
        if key.startswith(prefix)
    )
    return tuple(sorted(ranges))
