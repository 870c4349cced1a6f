"""A read as a frozen value, and what makes one of the arguments of a call.

Every way of reading (the methods of `Stream` and `StreamReader`, Spark partitions, a remote
service) passes one `ReadRequest` to one `ShardReader` (shard_reader.py).

Of a call's arguments numbers may be of any type that is an integer; ids and versions may be one or
several. What is none is refused by name, before anything is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import index
from typing import Literal, get_args

from storage_core.catalog.stream_meta import StreamMeta
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from storage_core.format.row_columns import COLUMNS, READ_COLUMNS, TAIL_COLUMNS
from storage_core.platform.name_suggestions import unknown_names

Ids = int | Iterable[int] | None
Keys = bytes | Iterable[bytes | None] | None
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
            (newest_versions.py); None for all. For `primary` only; the limit is of what is left.
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
        self._check_limits()
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
            _refuse(unknown_names("columns", unknown, COLUMNS))

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

    def _check_limits(self) -> None:
        for name, number in (("limit", self.limit), ("bytes_max", self.bytes_max)):
            if number < 0:
                _refuse(f"{name} {number} is negative")
        if self.limit and self.order != "primary":
            _refuse(f"limit goes with order primary only, not with {self.order}")

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
        values = (*numbers, *(value for value in optional if value is not None), *listed)
        if any(type(value) is not int for value in values):
            _refuse(
                "shard, addresses, primaries, ids, versions, limit, bytes_max and expired_until "
                "are integers"
            )


def _refuse(message: str) -> None:
    raise InvalidRequestError(message)


def request_of(  # noqa: PLR0913 - a request's parts
    order: Order,
    ids: Ids,
    start: int | None,
    end: int | None,
    limit: int,
    versions: Iterable[int] | None,
    columns: Sequence[str] | None,
) -> ReadRequest:
    """Return what a caller asks of every shard."""
    return ReadRequest(
        0,
        start=INT64_MIN if start is None else integer("start", start),
        end=INT64_MAX if end is None else integer("end", end),
        ids=None if ids is None else _integers("ids", ids),
        versions=None if versions is None else _integers("versions", versions),
        columns=None if columns is None else _names(columns),
        order=order,
        limit=integer("limit", limit),
    )


def _names(columns: Iterable[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        message = f"columns are a list of names, not {columns!r}"
        raise InvalidRequestError(message)
    return tuple(columns)


def _integers(name: str, values: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(values, Iterable):
        return tuple(sorted({integer(name, value) for value in values}))
    return (integer(name, values),)


def integer(name: str, value: object) -> int:
    """Return what a caller gives as an integer."""
    try:
        return index(value)  # type: ignore[arg-type]  # refused below
    except TypeError as error:
        message = f"{name}: {value!r} is not an integer"
        raise InvalidRequestError(message) from error


def span_ms(name: str, value: object) -> int:
    """Return how many milliseconds a caller gives as a span of time that is not negative."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        message = f"{name}: {value!r} is not a timedelta of 0 or more"
        raise InvalidRequestError(message)
    return value // timedelta(milliseconds=1)


def checked_keys(keys: object) -> tuple[bytes | None, ...] | None:
    """Return the keys that a caller asks for, each once; None for all."""
    if keys is None:
        return None
    is_single = isinstance(keys, bytes | bytearray | memoryview | str)
    checked: dict[bytes | None, None] = {}
    for key in (keys,) if is_single or not isinstance(keys, Iterable) else tuple(keys):
        # Of a subclass too: numpy's has lost the zeros at its end.
        if key is not None and type(key) is not bytes:
            message = f"keys are bytes, or None for rows without one, not {key!r}"
            raise InvalidRequestError(message)
        checked[key] = None
    return tuple(checked)


def refuse_unfit(meta: StreamMeta, request: ReadRequest) -> None:
    """Refuse ids where rows belong to keys, and keys where they do not."""
    if meta.has_keys and request.ids is not None:
        message = "this stream has a key dictionary: read by keys, not by ids"
        raise InvalidRequestError(message, stream=meta.name)
    if not meta.has_keys and request.keys is not None:
        message = "this stream has no key dictionary: read by ids, not by keys"
        raise InvalidRequestError(message, stream=meta.name)


def own_columns(meta: StreamMeta, request: ReadRequest) -> tuple[str, ...]:
    """Return the columns that a request asks for."""
    if request.columns is not None:
        return request.columns
    columns = TAIL_COLUMNS if request.order == "replay" else READ_COLUMNS
    return (*columns, "key") if meta.has_keys else columns
