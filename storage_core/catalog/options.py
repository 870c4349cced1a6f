"""The options of a stream: those fixed at its creation and those that may change.

`StreamOptions` is what a caller hands to `Stream.create`. `stream_meta.py` says which of them go
to which file.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal, get_args

from storage_core.catalog.index_options import IndexOptions
from storage_core.catalog.lake_uri import checked_lake_uri
from storage_core.errors import InvalidRequestError
from storage_core.format.block import Codec
from storage_core.format.keys import INT64_MAX, saturating_add
from storage_core.format.window import UNITS_PER_SECOND, Unit, WindowScheme, width_for

SyncLevel = Literal["commit", "interval"]
KeyMode = Literal["none", "dictionary"]

SHARDS_MAX: Final = 4096
# Shards of an origin are numbered by whoever brings it; numbers may lie far apart.
SHARD_NUMBERS_MAX: Final = 2_000_000
WINDOWS_MAX: Final = 10_000
PAYLOAD_BYTES_MAX: Final = 2**30
WAIT_MAX: Final = timedelta(days=1)
AHEAD_DAYS_DEFAULT: Final = 1
TRANSACTIONS_KEPT_MAX: Final = 10**9
READS_MAX: Final = 10_000
# Readers of an older version are in the middle of its files.
LAKE_HISTORY_MIN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream is made.

    Attributes:
        shards: Number of shards, a power of two.
        unit: What primaries count: seconds to nanoseconds since the epoch, or a sequence.
        jitter: How far behind its id's largest primary a row may come and still be normal.
        retention: How long rows are kept, judged by primary; None keeps all.
        ahead_max: How far ahead of the clock a primary may be and still move its id's head;
            None means one day, and no bound on a sequence.
        records_max: Cap on records, those stored first go first; None for no cap. Each shard has an
            even share of it, rounded up; a retry shard as much as its partition, beside it.
        bytes_max: The same on the bytes of blocks, by whole blocks; the newest of a shard stays.
        sync: `commit` syncs on every commit, `interval` at most every `sync_interval`.
        sync_interval: The pause between syncs at level `interval`.
        payload_bytes_max: A larger payload is refused.
        block_records: Records at which the builder is flushed as a block. A batch is cut evenly
            instead, into the fewest blocks that are at most a quarter larger.
        block_bytes: The same in bytes of payloads, keys and headers.
        codec: Compression of blocks.
        wait_max: How long a call waits for another that is in its way.
        transactions_kept: How many ids of finished transactions each shard remembers; a replay of
            one before them lands again.
        key_mode: `dictionary`: rows belong to a key of any bytes, or to none, and are read by
            `keys`; `none`: to a secondary. Fixed when the stream is made.
        reads_max: How many threads may read one open stream or reader at once; others wait for
            `wait_max` at most.
        read_bytes_max: The most bytes of rows that one `read` or `latest` may gather; more is
            refused.
        index: How the sparse index is kept.
        seal_rows: How many rows wait in a shard before `maintain` seals them.
        seal_after: How old the oldest of them may be before it does so, however few they are.
        keep_hot: How long blocks stay behind that before `maintain` trims them, so that parts alone
            have their rows; None for good.
        keep_replaced: How long the files of parts stay that were merged or rebuilt, for those who
            read by an older part list; 0 deletes them at once.
        never_cold: Whether `maintain` leaves the stream alone, as is right for rows that live
            shortly.
        lake: Where the parts are published as a Delta table: `s3://bucket/path`, `gs://…`,
            `abfss://…`, `file:///path`; None for nowhere.
        lake_lag: How long a row waits at most until `maintain` publishes it.
        lake_history: How long files stay in the lake that the table has no more, for those who
            read an older version of it; at least an hour.
        keep_local: How long the files of parts stay on this machine once they are made, before
            those go that the lake has; reads bring what they need of them from there. None for
            good.
    """

    shards: int = 4
    unit: Unit = "ms"
    jitter: int = 0
    retention: timedelta | None = None
    ahead_max: int | None = None
    records_max: int | None = None
    bytes_max: int | None = None
    sync: SyncLevel = "commit"
    sync_interval: timedelta = timedelta(milliseconds=100)
    payload_bytes_max: int = 16 * 2**20
    block_records: int = 4096
    block_bytes: int = 512 * 2**10
    codec: Codec = "none"
    wait_max: timedelta = timedelta(seconds=30)
    transactions_kept: int = 100_000
    key_mode: KeyMode = "none"
    reads_max: int = 64
    read_bytes_max: int = 2**32
    index: IndexOptions = field(default_factory=IndexOptions)
    seal_rows: int = 32_768
    seal_after: timedelta = timedelta(minutes=10)
    keep_hot: timedelta | None = None
    keep_replaced: timedelta = timedelta(minutes=15)
    never_cold: bool = False
    lake: str | None = None
    lake_lag: timedelta = timedelta(minutes=1)
    lake_history: timedelta = timedelta(days=7)
    keep_local: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        _check_shards(self.shards)
        check_choice("unit", self.unit, get_args(Unit))
        check_choice("sync", self.sync, get_args(SyncLevel))
        check_choice("codec", self.codec, get_args(Codec))
        check_choice("key_mode", self.key_mode, get_args(KeyMode))
        _check_index(self.index)
        _check_int("jitter", self.jitter, 0, INT64_MAX)
        _check_int("payload_bytes_max", self.payload_bytes_max, 1, PAYLOAD_BYTES_MAX)
        _check_int("block_records", self.block_records, 1, 2**20)
        _check_int("block_bytes", self.block_bytes, 1, 2**30)
        _check_int("reads_max", self.reads_max, 1, READS_MAX)
        _check_int("read_bytes_max", self.read_bytes_max, 1, INT64_MAX)
        _check_int("seal_rows", self.seal_rows, 1, INT64_MAX)
        _check_span("seal_after", self.seal_after)
        if self.keep_hot is not None:
            _check_span("keep_hot", self.keep_hot)
        _check_span("keep_replaced", self.keep_replaced, or_none=True)
        _check_truth("never_cold", self.never_cold)
        self._check_lake()
        _check_int("transactions_kept", self.transactions_kept, 1, TRANSACTIONS_KEPT_MAX)
        for name in ("ahead_max", "records_max", "bytes_max"):
            value = getattr(self, name)
            if value is not None:
                _check_int(name, value, 0, INT64_MAX)
        for name in ("sync_interval", "wait_max"):
            _check_span(name, getattr(self, name))
            if getattr(self, name) > WAIT_MAX:
                message = f"{name}: {getattr(self, name)} is above {WAIT_MAX}"
                raise InvalidRequestError(message)
        if self.retention is not None:
            _check_span("retention", self.retention)
        self.check_retention(self.scheme)

    def _check_lake(self) -> None:
        _check_span("lake_lag", self.lake_lag)
        _check_span("lake_history", self.lake_history)
        if self.lake_history < LAKE_HISTORY_MIN:
            message = f"lake_history: {self.lake_history} is below {LAKE_HISTORY_MIN}"
            raise InvalidRequestError(message)
        if self.keep_local is not None:
            _check_span("keep_local", self.keep_local, or_none=True)
        if self.lake is None:
            return
        try:
            checked_lake_uri(self.lake)
        except InvalidRequestError as error:
            message = f"lake: {error.message}"
            raise InvalidRequestError(message) from error
        if self.never_cold:
            message = "lake: what is never_cold has no parts that could be published"
            raise InvalidRequestError(message)

    @property
    def scheme(self) -> WindowScheme:
        """The windows a stream made with these options gets."""
        return WindowScheme(self.unit, width_for(self.retention, self.unit))

    def resolved_ahead_max(self) -> int | None:
        """Return the bound on rows from the future in the stream's unit, None for none."""
        if self.ahead_max is not None or self.unit == "sequence":
            return self.ahead_max
        return AHEAD_DAYS_DEFAULT * 86400 * UNITS_PER_SECOND[self.unit]

    def floor_at(self, now: int) -> int | None:
        """Return the primary below which rows are older than they are kept; None if all are."""
        if self.retention is None:
            return None
        microseconds = self.retention // timedelta(microseconds=1)
        # Up, so that a row is never taken before its time.
        retained = -(-microseconds * UNITS_PER_SECOND[self.unit] // 10**6)
        return saturating_add(now, -retained)

    def check_retention(self, scheme: WindowScheme) -> None:
        """Refuse a retention of too many windows of this scheme."""
        retention = self.retention
        if retention is None:
            return
        _check_span("retention", retention)
        if self.unit == "sequence":
            message = "retention: a sequence has no time; use records_max or bytes_max"
            raise InvalidRequestError(message)
        units = int(retention.total_seconds()) * UNITS_PER_SECOND[self.unit]
        if scheme.span_count(units) > WINDOWS_MAX:
            message = f"retention: {retention} covers more than {WINDOWS_MAX} windows"
            raise InvalidRequestError(message)


def checked_options(options: object) -> StreamOptions:
    """Return a caller's options, or those that hold where it gives none."""
    chosen = StreamOptions() if options is None else options
    if not isinstance(chosen, StreamOptions):
        message = f"options are StreamOptions, not {type(chosen).__name__}"
        raise InvalidRequestError(message)
    return chosen


def _check_shards(shards: int) -> None:
    _check_int("shards", shards, 1, SHARDS_MAX)
    if shards & (shards - 1):
        message = f"shards: {shards} is not a power of two"
        raise InvalidRequestError(message)


def _check_int(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        message = f"{name}: {value!r} is not an integer from {least} to {most}"
        raise InvalidRequestError(message)


def _check_truth(name: str, value: object) -> None:
    if not isinstance(value, bool):
        message = f"{name}: {value!r} is neither True nor False"
        raise InvalidRequestError(message)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of these, naming the field."""
    if value not in choices:
        message = f"{name}: {value!r} is not one of {', '.join(choices)}"
        raise InvalidRequestError(message)


def _check_index(index: object) -> None:
    """Refuse what is no `IndexOptions`."""
    if not isinstance(index, IndexOptions):
        message = f"index: {index!r} is not IndexOptions"
        raise InvalidRequestError(message)


def _check_span(name: str, value: object, *, or_none: bool = False) -> None:
    """Refuse what is no span of time; one of no length too, unless it may be."""
    is_span = isinstance(value, timedelta) and value >= timedelta(0)
    if not is_span or (value == timedelta(0) and not or_none):
        message = f"{name}: {value!r} is not a {'' if or_none else 'positive '}timedelta"
        message += " of 0 or more" if or_none else ""
        raise InvalidRequestError(message)
