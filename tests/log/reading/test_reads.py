"""Every read, on the writer and on a reader beside it, against a plain list of the same rows."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import (
    INT64_MAX,
    INT64_MIN,
    InvalidRequestError,
    ReadRequest,
    Record,
    Stream,
    StreamReader,
)
from tests.log.disks import ReinedDisk
from tests.log.fixtures import MEMORY
from tests.log.reading.plain_rows import PlainRow, PlainRows, scattered_rows
from tests.log.workbench import Workbench, column_of, rows_of
from tests.unit.storage_core.strategies import few

ROWS, SHARDS, JITTER = 600, 2, 6
NOW = ReinedDisk().clock.now_ns() // 10**9
Reads = Stream | StreamReader
COLUMNS = ("shard", "secondary", "primary", "version", "address", "late", "payload")

asked_ids = st.one_of(
    st.none(),
    st.integers(-6, 10),
    st.lists(st.sampled_from([-(2**31), -5, 0, 1, 2, 3, 1000, 2**31 - 1, 77]), max_size=4),
)
asked_primaries = st.one_of(
    st.integers(NOW - ROWS - 80, NOW + 100),
    st.sampled_from([INT64_MIN, NOW - 10**7, NOW, NOW + 10**6, NOW + 10**9, INT64_MAX]),
)
asked_spans = st.tuples(asked_primaries, asked_primaries).map(sorted)
asked_versions = st.sampled_from([None, None, (0,), (1, 7), ()])


@pytest.fixture(scope="module")
def plain() -> PlainRows:
    """Rows of a dozen ids, some late, absorbed or ahead."""
    plain = PlainRows(SHARDS, JITTER, NOW + 100)
    for row in scattered_rows(random.Random(7), ROWS, NOW):
        plain.append(*row)
    return plain


@pytest.fixture(scope="module")
def written(plain: PlainRows) -> Iterator[Workbench]:
    """A stream of the same rows: small blocks, a reopen in the middle, some rows uncommitted."""
    options: dict[str, Any] = {"unit": "s", "jitter": JITTER, "ahead_max": 100, "block_records": 9}
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        bench = Workbench(Path(folder), "s", disk=ReinedDisk(), shards=SHARDS, **options)
        for number, row in enumerate(plain.rows):
            bench.stream.append(row.primary, row.secondary, row.payload, row.version)
            if number == ROWS // 2:
                bench.reopen()
        bench.commit()
        bench.append([NOW, NOW + 10**9, NOW - 50], secondary=[1, 2, 3])
        yield bench
        bench.let_go()


@pytest.fixture(scope="module", params=["writer", "reader"])
def stream(request: pytest.FixtureRequest, written: Workbench) -> Iterator[Reads]:
    """The stream as its writer reads it, and as another process does."""
    if request.param == "writer":
        yield written.stream
    else:
        with written.read_beside() as reader:
            yield reader


def as_set(ids: object) -> set[int] | None:
    """Return ids as given to a read, as a set."""
    if ids is None or isinstance(ids, list):
        return None if ids is None else set(ids)
    return {ids}  # type: ignore[arg-type]  # an integer


def tuples(rows: list[dict[str, Any]]) -> list[tuple]:
    """Return rows as read, in the shape of plain ones."""
    names = ("shard", "address", "primary", "secondary", "payload", "version", "late")
    return [tuple(row[name] for name in names) for row in rows]


def expected(rows: list[PlainRow]) -> list[tuple]:
    return [(*row[:-1], row.state in (1, 2)) for row in rows]


# --- against the plain list -------------------------------------------------------------------


def test_the_rows_hold_each_state(plain):
    states = [row.state for row in plain.rows]
    assert min(states.count(state) for state in (0, 1, 2)) > 20


@few
@given(ids=asked_ids, span=asked_spans, limit=st.sampled_from([0, 1, 3]))
def test_read_gives_rows_by_id_and_primary_with_late_ones_in_their_place(
    stream, plain, ids, span, limit
):
    rows = rows_of(stream.read(ids, *span, limit))
    assert tuples(rows) == expected(plain.read(as_set(ids), *span, limit=limit))


@few
@given(ids=asked_ids, versions=asked_versions)
def test_read_gives_the_versions_asked(stream, plain, ids, versions):
    rows = rows_of(stream.read(ids, versions=versions))
    assert tuples(rows) == expected(plain.read(as_set(ids), INT64_MIN, INT64_MAX, versions))


@few
@given(ids=asked_ids, span=asked_spans, versions=asked_versions)
def test_scan_gives_the_same_rows_in_order_of_arrival(stream, plain, ids, span, versions):
    rows = rows_of(stream.scan(ids, *span, versions=versions))
    assert tuples(rows) == expected(plain.chosen(as_set(ids), *span, versions))


@few
@given(ids=asked_ids)
def test_latest_gives_the_row_with_the_largest_primary(stream, plain, ids):
    found = stream.latest(ids)
    assert tuples([as_dict(record) for record in found.values()]) == expected(
        [plain.latest(as_set(ids))[secondary] for secondary in found]
    )
    assert set(found) == set(plain.latest(as_set(ids)))


asked_addresses = st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted)


@few
@given(
    ids=asked_ids,
    span=asked_spans,
    versions=asked_versions,
    addresses=st.none() | asked_addresses,
    shard=st.integers(0, SHARDS - 1),
)
def test_newest_inside_bounds_is_the_largest_primary_there(  # noqa: PLR0913 - what may be asked
    stream, plain, ids, span, versions, addresses, shard
):
    first, end = addresses or (None, None)
    wanted = as_set(ids)
    start, last = span
    request = ReadRequest(
        shard,
        first,
        end,
        start,
        last,
        ids=None if wanted is None else tuple(wanted),
        versions=versions,
        order="newest",
    )
    inside = [
        row
        for row in plain.chosen(wanted, *span, versions)
        if row.shard == shard and (addresses is None or first <= row.address < end)
    ]
    largest = {row.secondary: row for row in sorted(inside, key=lambda row: row[2:3] + row[1:2])}
    found = tuples(rows_of(stream._open_shards()[shard].scan(request)))
    assert found == expected([largest[secondary] for secondary in sorted(largest)])


def as_dict(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in COLUMNS}


@few
@given(ids=asked_ids, from_=asked_primaries)
def test_earliest_gives_the_least_primary_from_there_on(stream, plain, ids, from_):
    assert stream.earliest(ids, from_) == plain.earliest(as_set(ids), from_)


@few
@given(ids=asked_ids, from_=asked_primaries, width=st.sampled_from([0, 5, 400, INT64_MAX]))
def test_available_gives_what_lies_within_a_width_of_the_earliest(stream, plain, ids, from_, width):
    last, table = stream.available(ids, from_, width)
    first = plain.earliest(as_set(ids), from_)
    rows = [] if first is None else plain.read(as_set(ids), first, first + width)
    assert last == (None if first is None else min(first + width, INT64_MAX))
    assert tuples(rows_of(table)) == expected(rows)


@few
@given(ids=asked_ids, span=asked_spans)
def test_for_each_calls_on_each_row_id_by_id(stream, plain, ids, span):
    seen: list[dict[str, Any]] = []
    stream.for_each(ids, *span, lambda record: seen.append(as_dict(record)))
    assert tuples(seen) == expected(plain.read(as_set(ids), *span))


@few
@given(
    shard=st.integers(0, 1),
    span=st.tuples(st.integers(0, 340), st.integers(0, 340)).map(sorted),
    ids=asked_ids,
)
def test_tail_replays_a_shard_with_states(stream, plain, shard, span, ids):
    rows = [
        row
        for row in plain.chosen(as_set(ids), INT64_MIN, INT64_MAX)
        if row.shard == shard and span[0] <= row.address < span[1]
    ]
    replayed = rows_of(stream.tail(shard, *span, ids=ids))
    assert tuples(replayed) == expected(rows)
    assert [row["state"] for row in replayed] == [row.state for row in rows]


def test_batches_of_a_scan_are_bounded_by_the_blocks(stream):
    assert max(batch.num_rows for batch in stream.scan()) <= 9


def test_for_each_stops_once_told(stream, plain):
    seen: list[int] = []

    def stop_at_third(record: Record) -> bool:
        seen.append(record.primary)
        return len(seen) == 3

    stream.for_each(None, None, None, stop_at_third)
    assert seen == [row.primary for row in plain.read(None, INT64_MIN, INT64_MAX)][:3]


def test_for_each_goes_on_for_what_is_merely_true(stream):
    seen: list[int] = []

    def count(record: Record) -> int:
        seen.append(record.primary)
        return 1

    stream.for_each(0, None, None, count)
    assert len(seen) > 1


# --- what is asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda reads: reads.read(start=2, end=1),
        lambda reads: reads.scan(start=2, end=1),
        lambda reads: reads.for_each(None, 2, 1, print),
        lambda reads: reads.read(limit=-1),
        lambda reads: reads.read(limit=None),
        lambda reads: reads.read(ids=2**31),
        lambda reads: reads.read(ids="1"),
        lambda reads: reads.read(ids=[None]),
        lambda reads: reads.read(start="now"),
        lambda reads: reads.read(start=-(2**63) - 1),
        lambda reads: reads.scan(end=2**63),
        lambda reads: reads.read(versions=[2**16]),
        lambda reads: reads.read(columns=["colour"]),
        lambda reads: reads.read(columns="payload"),
        lambda reads: reads.read(keys=[b"k"]),
        lambda reads: reads.read(latest_by="primary"),
        lambda reads: reads.read(tombstones=True),
        lambda reads: reads.earliest(None, "now"),
        lambda reads: reads.available(None, 0, -1),
        lambda reads: reads.available(None, 0, 0.5),
        lambda reads: reads.available(None, 0, 5, -1),
        lambda reads: reads.latest([1.5]),
        lambda reads: reads.tail(7),
        lambda reads: reads.tail("0"),
        lambda reads: reads.tail(0, -1),
        lambda reads: reads.tail(0, 5, 4),
    ],
)
def test_read_without_meaning_is_refused_at_the_call(stream, ask):
    with pytest.raises(InvalidRequestError):
        ask(stream)


def test_id_without_rows_gives_no_rows(stream):
    assert (stream.read(77).num_rows, stream.latest(77), stream.earliest(77, 0)) == (0, {}, None)
    assert list(stream.scan(77)) == list(stream.tail(0, ids=77)) == []
    assert stream.available(77, 0, 5)[0] is None
    assert stream.read(ids=[]).num_rows == 0


def test_default_columns_are_those_of_the_contract(stream):
    assert tuple(stream.read().column_names) == tuple(stream.read(77).column_names) == COLUMNS
    assert tuple(next(stream.scan()).schema.names) == COLUMNS
    assert tuple(next(stream.tail(0)).schema.names) == (*COLUMNS, "state")
    assert stream.read().schema == stream.read(77).schema


@pytest.mark.parametrize(
    "columns", [("payload",), ("state", "primary"), ("address", "address"), ("key", "headers")]
)
def test_columns_come_as_asked_in_every_read(stream, columns):
    for found in (stream.read(columns=columns), next(stream.scan(columns=columns))):
        assert tuple(found.schema.names) == columns
    assert tuple(stream.read(77, columns=columns).column_names) == columns
    assert stream.read(columns=("primary",))["primary"] == stream.read()["primary"]


def test_rows_without_columns_are_counted_in_every_read(stream):
    rows = stream.read()
    late, primary = rows["late"].to_pylist(), rows["primary"].to_pylist()
    middle = sorted(primary)[len(primary) // 2]
    assert any(late)
    assert stream.read(columns=()).num_rows == counted(stream.scan(columns=())) == rows.num_rows
    assert counted(stream.tail(0, columns=())) == counted(stream.tail(0))
    upper = [one for one in primary if one >= middle]
    assert stream.read(None, middle, columns=()).num_rows == len(upper)
    assert counted(stream.scan(None, middle, columns=())) == len(upper)
    for order in ("time", "primary", "newest"):
        shard = stream._open_shards()[0]
        batches = shard.scan(ReadRequest(0, columns=(), order=order))
        assert counted(batches) == counted(shard.scan(ReadRequest(0, order=order)))


def counted(batches):
    return sum(batch.num_rows for batch in batches)


def test_column_that_was_never_given_is_null(stream):
    assert set(column_of(stream.read(columns=("timestamp",)), "timestamp")) == {None}
