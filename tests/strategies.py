"""What Hypothesis draws for a whole stream: its options, records, questions and crashes.

Nothing drawn depends on what the log holds, so that a recorded example replays step by step
whatever the log does with it. Ids and primaries are few: rows meet, tie and come late. The
clock of every stream begins at `NOW` in the stream's own unit; primaries gather near zero,
near `NOW` (where rows ahead begin), at the seams of windows and at both ends of int64.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple, get_args

from hypothesis import strategies as st

from storage_core import IndexOptions, StreamOptions
from storage_core.format.window import Unit
from storage_core.read.request import LatestBy

NOW = 1000
DAY_SECONDS = 86_400
PAYLOAD_BYTES_MAX = 40
INT64_ENDS = (-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1)


class Given(NamedTuple):
    """One record as a caller hands it over."""

    primary: int
    secondary: int
    payload: bytes | None
    version: int


@dataclass(frozen=True)
class Crash:
    """Where the process dies: before the n-th next writing call of one shard, or call to files.

    Attributes:
        shard: The shard, counted around the number of shards.
        call: The call to its store or marker, counted from 1; 0 for none.
        file_call: The call to files of the root (dying_files.py), counted from 1; 0 for none.
        again: Where the attempts to open it afterwards die.
    """

    shard: int = 0
    call: int = 0
    again: tuple[int, ...] = ()
    file_call: int = 0


@dataclass(frozen=True)
class Question:
    """A read with all its conditions."""

    ids: int | list[int] | None
    start: int | None
    end: int | None
    limit: int
    versions: list[int] | None
    columns: list[str] | None
    from_: int
    width: int
    latest_by: LatestBy | None = None
    tombstones: bool = False


@dataclass(frozen=True)
class Places:
    """Where a batch with addresses of its own lies: some rows back from the tail, with gaps."""

    back: int
    gaps: tuple[int, ...]


@dataclass(frozen=True)
class GivenCaps:
    """What a stream may hold."""

    records_max: int | None = None
    bytes_max: int | None = None


BatchForm = Literal["batch", "table", "wide"]

_near_zero = st.integers(0, 9)
_near_now = st.integers(NOW - 3, NOW + 16)
_seams = st.builds(
    lambda days, scale, by: days * DAY_SECONDS * scale + by,
    st.integers(-2, 40),
    st.sampled_from([1, 10**3]),
    st.integers(-1, 1),
)
_ends = st.sampled_from(INT64_ENDS)
# The ends are rare: behind a head at int64's largest everything is late for ever.
_kinds = (*[_near_zero] * 12, *[_near_now] * 5, _seams, _seams, _ends)
# Rising floors hide ever more; most stay among the primaries near zero.
floors = st.one_of(*[st.integers(-1, 9)] * 6, st.integers(NOW - 3, NOW + 3), _seams)
# A block has some hundred bytes. Low caps leave little to ask about.
caps = st.builds(
    GivenCaps,
    st.sampled_from([None, None, None, 3, 10, 20, 40]),
    st.sampled_from([None, None, None, None, 0, 1000, 3000]),
)
primaries = st.integers(0, len(_kinds) - 1).flatmap(_kinds.__getitem__)
ids = st.sampled_from([0, 0, 0, 1, 1, 2, 3, -1, -2, 2**31 - 1, -(2**31)])
absent_or_known_ids = st.one_of(ids, ids, st.integers(-(2**31), 2**31 - 1))
payloads = st.one_of(st.none(), st.just(b""), st.binary(min_size=1, max_size=6))
too_large = st.just(b"." * (PAYLOAD_BYTES_MAX + 1))
versions = st.sampled_from([0, 0, 0, 1, 2, 2**16 - 1])
records = st.builds(Given, primaries, ids, payloads, versions)
records_often_refused = st.builds(Given, primaries, ids, st.one_of(payloads, too_large), versions)
batches = st.lists(records, max_size=9)
batch_forms: st.SearchStrategy[BatchForm] = st.sampled_from(["batch", "table", "wide"])
places = st.builds(
    Places,
    st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, 100]),
    st.lists(st.sampled_from([0, 0, 0, 1, 2, 7]), min_size=9, max_size=9).map(tuple),
)
transaction_ids = st.sampled_from(["a", "b", "c", "d", "e", "f"])
shard_numbers = st.integers(0, 3)
_crash = st.builds(
    Crash,
    shard_numbers,
    st.integers(1, 7),
    st.lists(st.integers(1, 9), max_size=2).map(tuple),
)
crashes = st.integers(0, 7).flatmap(lambda chance: _crash if chance == 7 else st.just(Crash()))
_file_crash = st.builds(
    Crash,
    again=st.lists(st.integers(1, 9), max_size=2).map(tuple),
    file_call=st.integers(1, 40),
)
# Upkeep has calls to files too, more of them than to a store.
upkeep_crashes = st.one_of(st.just(Crash()), _crash, _file_crash)

COLUMNS = ("shard", "secondary", "primary", "version", "address", "late", "payload", "state")

questions = st.builds(
    Question,
    ids=st.one_of(st.none(), absent_or_known_ids, st.lists(absent_or_known_ids, max_size=4)),
    start=st.none() | primaries,
    end=st.none() | primaries,
    limit=st.integers(0, 3),
    versions=st.none() | st.lists(versions, max_size=3),
    columns=st.none() | st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    from_=primaries,
    width=st.sampled_from([0, 1, 5, 1000, 2**63 - 1]),
    latest_by=st.sampled_from([None, "primary", "key"]),
    tombstones=st.booleans(),
)


@st.composite
def stream_options(draw: st.DrawFn) -> StreamOptions:
    """Draw options under which a few rows reach every path: small blocks, narrow bounds."""
    unit = draw(st.sampled_from(get_args(Unit)))
    retentions = [None, timedelta(minutes=10), timedelta(days=20), timedelta(days=900)]
    levels = ["commit"] if unit in ("us", "ns") else ["commit", "interval"]
    return StreamOptions(
        shards=draw(st.sampled_from([1, 1, 1, 2, 2, 4])),
        unit=unit,
        jitter=draw(st.sampled_from([0, 0, 3, 1000, 2**63 - 1])),
        ahead_max=draw(st.sampled_from([None, 0, 10])),
        retention=None if unit == "sequence" else draw(st.sampled_from(retentions)),
        sync=draw(st.sampled_from(levels)),
        # So short that the rest of it, slept by a manual clock, never turns the unit's digit.
        sync_interval=timedelta(microseconds=1),
        payload_bytes_max=PAYLOAD_BYTES_MAX,
        block_records=draw(st.sampled_from([4, 4, 4, 7, 2048, 1])),
        block_bytes=draw(st.sampled_from([2**18, 2**18, 2**18, 5])),
        codec=draw(st.sampled_from(["none", "lz4", "zstd"])),
        key_mode=draw(st.sampled_from(["none", "none", "dictionary"])),
        index=IndexOptions(spacing_min=2, queue_max=draw(st.sampled_from([1, 3, 2048]))),
        seal_rows=draw(st.sampled_from([1, 1, 20])),
        keep_hot=draw(st.sampled_from([None, timedelta(milliseconds=1), timedelta(hours=1)])),
    )
