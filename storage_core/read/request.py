"""A read as a frozen, JSON-able value, and the protocol that answers it.

Every way of reading (the methods of `Stream` and `StreamReader`, Spark partitions, a remote
service) passes one `ReadRequest` to one `ShardReader`.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, Protocol, Self, get_args

import pyarrow as pa

from storage_core.errors import InvalidRequestError
from storage_core.format.counters import Counters, IndexCounts
from storage_core.format.keys import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import ShardState
from storage_core.platform.name_suggestions import told_unknown
from storage_core.read.columns import COLUMNS

_NO_INDEX: Final = IndexCounts()
Order = Literal["arrival", "replay", "time", "primary", "newest"]
LatestBy = Literal["primary", "key"]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Which rows of one shard, and in what order.

    Attributes:
        shard: The shard's number.
        start_address: First address, or None for the log's start.
        end_address: Exclusive end of addresses, or None for committed.
        start: Least primary, inclusive.
        end: Largest primary, inclusive.
        ids: Secondaries, or None for all.
        versions: Versions, or None for all.
        columns: Columns wanted, or None for the stream's own.
        order: `arrival` and `replay` by address (replay shows expired rows and ignores the
            floor); `time` by (primary, secondary, address); `primary` by (secondary, primary,
            address); `newest` only the row with the largest primary of each id.
        limit: Rows per id, 0 for all; for `primary` only.
        keys: In the place of `ids` where rows belong to keys: keys, None for that of rows without
            one, or None for all. `primary` is by (key, primary, address) there, and no row shows
            a secondary.
        latest_by: Of rows with one (secondary, primary), or one (secondary, key), only the newest
            (winners.py); None for all rows. For `primary` only; the limit is of what is left.
        tombstones: With `latest_by`: whether tombstones among the newest are shown. Without it they
            are rows like others.
        expired_until: For `replay` only: a shard's generation; what expired behind a row that has
            not, and was gone by then, is passed by. 0 refuses whatever has expired.
        bytes_max: The most bytes of rows to hold for `primary` and `newest`, which answer at once;
            a request for more is refused. 0 for any number.
    """

    shard: int
    start_address: int | None = None
    end_address: int | None = None
    start: int = INT64_MIN
    end: int = INT64_MAX
    ids: tuple[int, ...] | None = None
    versions: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None
    order: Order = "arrival"
    limit: int = 0
    keys: tuple[bytes | None, ...] | None = None
    latest_by: LatestBy | None = None
    tombstones: bool = False
    bytes_max: int = 0
    expired_until: int = 0

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        self._check_types()
        if self.order not in get_args(Order):
            _refuse(f"order {self.order!r} is not one of {', '.join(get_args(Order))}")
        if self.start > self.end:
            _refuse(f"start {self.start} is above end {self.end}")
        self._check_addresses()
        if not self.start >= INT64_MIN or not self.end <= INT64_MAX:
            _refuse("primaries are 64-bit signed integers")
        if self.limit < 0 or self.bytes_max < 0:
            _refuse(f"limit {self.limit} or bytes_max {self.bytes_max} is negative")
        if any(not INT32_MIN <= value <= INT32_MAX for value in self.ids or ()):
            _refuse("ids are 32-bit signed integers")
        if any(not 0 <= value < 2**16 for value in self.versions or ()):
            _refuse("versions are 16-bit unsigned integers")
        if not all(isinstance(column, str) for column in self.columns or ()):
            _refuse("columns are names")
        if any(key is not None and type(key) is not bytes for key in self.keys or ()):
            _refuse("keys are bytes, or None for rows without one")
        self._check_latest_by()
        unknown = sorted(set(self.columns or ()) - set(COLUMNS))
        if unknown:
            _refuse(told_unknown("columns", unknown, COLUMNS))

    def _check_latest_by(self) -> None:
        if self.latest_by is None and self.tombstones is False:
            return
        if self.latest_by not in (None, *get_args(LatestBy)):
            _refuse(f"latest_by {self.latest_by!r} is not one of {', '.join(get_args(LatestBy))}")
        if self.latest_by is not None and self.order != "primary":
            _refuse(f"latest_by goes with order primary only, not with {self.order}")
        tombstones: object = self.tombstones
        if type(tombstones) is not bool:
            _refuse(f"tombstones {tombstones!r} is not True or False")

    def _check_addresses(self) -> None:
        if self.expired_until and self.order != "replay":
            _refuse(f"expired_until goes with order replay only, not with {self.order}")
        addresses = (self.start_address, self.end_address)
        if any(address is not None and address < 0 for address in addresses):
            _refuse(f"addresses {addresses} must not be negative")
        if None not in addresses and (self.start_address or 0) > (self.end_address or 0):
            _refuse(f"start address {self.start_address} is above end {self.end_address}")

    def _check_types(self) -> None:
        numbers = (self.shard, self.start, self.end, self.limit, self.bytes_max, self.expired_until)
        optional = (self.start_address, self.end_address)
        listed = (*(self.ids or ()), *(self.versions or ()))
        given = (*numbers, *(value for value in optional if value is not None), *listed)
        if any(type(value) is not int for value in given):
            _refuse(
                "shard, addresses, primaries, ids, versions, limit, bytes_max and expired_until "
                "are integers"
            )

    def to_json(self) -> str:
        """Return the request as JSON text."""
        keys = None if self.keys is None else [_text(key) for key in self.keys]
        return json.dumps(asdict(self) | {"keys": keys})

    @classmethod
    def from_json(cls, text: str) -> "ReadRequest":
        """Return what `to_json` was given."""
        try:
            fields = json.loads(text)
            for name in ("ids", "versions", "columns"):
                if fields.get(name) is not None:
                    fields[name] = tuple(fields[name])
            if fields.get("keys") is not None:
                fields["keys"] = tuple(map(_bytes, fields["keys"]))
            return cls(**fields)
        except (TypeError, AttributeError, RecursionError, ValueError) as error:
            if isinstance(error, InvalidRequestError):
                raise
            message = f"not a read request: {error}"
            raise InvalidRequestError(message) from error


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """What a shard says of itself at one moment.

    Attributes:
        committed: The exclusive end of what may be shown.
        start: The first address that is still kept.
        lost: The ranges that were acknowledged and are gone.
        passed: The committed ranges that the source no longer had.
        source: Where the source of the rows stands, as of the last batch written.
        counters: What was counted, as of the last batch written, committed or not.
        floor: The primary below which everything has expired.
        expired_end: The exclusive end of the last blocks that expired behind one that has not.
        index: What the sparse index has counted; a reader's as of the last entries written.
        generation: Raised by each open for writing and by each expiry that takes something away.
        parts: How many parts have got a number.
        sealed: The address below which rows are in parts.
        trimmed: The address below which they are there alone.
        dead_letters_dropped: How many dead letters went without having been forwarded.
    """

    committed: int
    start: int
    lost: Sequence[tuple[int, int]]
    passed: Sequence[tuple[int, int]]
    source: Mapping[str, object] | None
    counters: Counters
    floor: int = INT64_MIN
    expired_end: int = 0
    index: IndexCounts = _NO_INDEX
    generation: int = 0
    parts: int = 0
    sealed: int = 0
    trimmed: int = 0
    dead_letters_dropped: int = 0

    @property
    def untrimmed(self) -> int:
        """How many sealed addresses have blocks too."""
        return max(0, min(self.sealed, self.committed) - max(self.trimmed, self.start))

    @property
    def unsealed(self) -> int:
        """How many committed addresses are in no part yet."""
        return max(0, self.committed - max(self.sealed, self.start))

    @classmethod
    def of(cls, state: ShardState, committed: int) -> Self:
        """Return the facts of a shard in one state; committed was read before it."""
        return cls(
            committed,
            state.start,
            [(lost.start, lost.end) for lost in state.lost],
            [(gap.start, gap.end) for gap in state.passed if gap.end <= committed],
            state.source,
            state.tail.counters,
            state.floor,
            state.expired_end,
            state.index,
            state.generation,
            state.parts,
            state.sealed,
            state.trimmed,
            state.dead_letters_dropped,
        )


class ShardReader(Protocol):
    """What answers a read: a writer's shard, a follower in another process, later a service."""

    def committed(self) -> int:
        """Return the exclusive end of what may be shown."""
        ...

    def state(self) -> ShardFacts:
        """Return what the shard says of itself at this moment."""
        ...

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        ...

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had, or those of an id, as they came."""
        ...

    def parts(self) -> ShardParts:
        """Return the parts of the shard, and up to where its rows are in them."""
        ...

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; never fewer in silence, never one not committed."""
        ...


def _text(key: bytes | None) -> str | None:
    return None if key is None else b64encode(key).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def _refuse(message: str) -> None:
    raise InvalidRequestError(message)
