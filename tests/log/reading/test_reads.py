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
    StreamOptions,
    StreamReader,
)
from tests.lab import rows_of
from tests.log.disks import ReinedDisk
from tests.log.fixtures import MEMORY
from tests.log.readers import scan_one
from tests.log.served import DOORS, opened_by
from tests.log.workbench import Workbench, column_of
from tests.model.answers import READ_COLUMNS, check_question, check_rows
from tests.model.plain_stream import PlainStream, question_about
from tests.strategies import COLUMNS, Given, Question
from tests.unit.storage_core.strategies import few, many

ROWS = 600
SHARDS = 2
OPTIONS: dict[str, Any] = {
    "shards": SHARDS,
    "unit": "s",
    "jitter": 6,
    "ahead_max": 100,
    "block_records": 9,
}
NOW = ReinedDisk().clock.now_ns() // 10**9
Reads = Stream | StreamReader

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
questions = st.builds(
    lambda span, **other: Question(start=span[0], end=span[1], **other),
    span=asked_spans,
    ids=asked_ids,
    limit=st.sampled_from([0, 1, 3, 10**6]),
    versions=st.sampled_from([None, None, [0], [1, 7], []]),
    columns=st.none() | st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    from_=asked_primaries,
    width=st.sampled_from([0, 5, 400, INT64_MAX]),
    latest_by=st.sampled_from([None, "primary", "key"]),
    tombstones=st.booleans(),
)


def scattered_rows(chance: random.Random, count: int, now: int) -> list[Given]:
    """Return records of a dozen ids around `now`: runs, late ones, some far ahead or behind."""
    ids = [-(2**31), -5, -1, 0, 1, 2, 3, 8, 9, 1000, 1001, 2**31 - 1]
    rows, primary = [], now - count
    for _ in range(count):
        primary += chance.choice([0, 0, 1, 1, 5, -7])
        value = chance.choice(
            [primary] * 12 + [primary - 40, now + 10**6, now + 10**9, now - 10**7]
        )
        payload = chance.choice([None, b"", b"x" * chance.randrange(9)])
        rows.append(Given(value, chance.choice(ids), payload, chance.choice([0, 0, 0, 1, 7])))
    return rows


@pytest.fixture(scope="module")
def plain() -> PlainStream:
    """Rows of a dozen ids, some late, absorbed or ahead, all of them committed."""
    plain = PlainStream(StreamOptions(**OPTIONS))
    for row in scattered_rows(random.Random(7), ROWS, NOW):
        plain.append(row, NOW)
    plain.commit(NOW)
    return plain


@pytest.fixture(scope="module")
def written() -> Iterator[Workbench]:
    """A stream of the same rows: small blocks, a reopen in the middle, some rows uncommitted."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        bench = Workbench(Path(folder), "s", disk=ReinedDisk(), **OPTIONS)
        for number, row in enumerate(scattered_rows(random.Random(7), ROWS, NOW)):
            bench.stream.append(*row)
            if number == ROWS // 2:
                bench.reopen()
        bench.commit()
        bench.append([NOW, NOW + 10**9, NOW - 50], secondary=[1, 2, 3])
        yield bench
        bench.release()


@pytest.fixture(scope="module", params=["writer", *DOORS])
def stream(request: pytest.FixtureRequest, written: Workbench) -> Iterator[Reads]:
    """The stream as its writer reads it, as another process does, and as a server shows it."""
    if request.param == "writer":
        yield written.stream
    else:
        with opened_by(request.param, written.root, written.name) as reader:
            yield reader


# --- against the plain lists ------------------------------------------------------------------


def test_the_rows_hold_each_state(plain):
    states = [row.state for shard in plain.shards for row in shard.rows]
    assert min(states.count(state) for state in (0, 1, 2)) > 20


def test_all_rows_are_those_of_the_plain_lists(stream, plain):
    check_rows(stream, plain)


@many
@given(questions)
def test_every_read_answers_as_the_plain_lists_do(stream, plain, question):
    check_question(stream, plain, question)


@few
@given(
    question=questions,
    addresses=st.none() | st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted),
    shard=st.integers(0, SHARDS - 1),
)
def test_newest_inside_bounds_is_the_largest_primary_there(
    stream, plain, question, addresses, shard
):
    ids = [question.ids] if isinstance(question.ids, int) else question.ids
    first, end = addresses or (None, None)
    request = ReadRequest(
        shard,
        first,
        end,
        question.start,
        question.end,
        ids=None if ids is None else tuple(set(ids)),
        versions=question.versions,
        columns=COLUMNS,
        order="newest",
    )
    inside = [
        row
        for row in plain.scan(question)
        if row.shard == shard and (addresses is None or first <= row.address < end)
    ]
    largest = {row.secondary: row for row in sorted(inside, key=lambda row: row.primary)}
    rows = rows_of(scan_one(stream, request))
    assert rows == [largest[secondary] for secondary in sorted(largest)]


def test_for_each_stops_once_told(stream, plain):
    seen: list[int] = []

    def stop_at_third(record: Record) -> bool:
        seen.append(record.primary)
        return len(seen) == 3

    stream.for_each(None, None, None, stop_at_third)
    assert seen == [row.primary for row in plain.read(question_about())][:3]


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
        lambda reads: reads.read(latest_by="address"),
        lambda reads: reads.read(latest_by=["key"]),
        lambda reads: reads.read(latest_by="key", tombstones=1),
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
    assert tuple(stream.read().column_names) == tuple(stream.read(77).column_names) == READ_COLUMNS
    assert tuple(next(stream.scan()).schema.names) == READ_COLUMNS
    assert tuple(next(stream.tail(0)).schema.names) == COLUMNS
    assert stream.read().schema == stream.read(77).schema


@pytest.mark.parametrize(
    "columns", [("payload",), ("state", "primary"), ("address", "address"), ("key", "headers")]
)
def test_columns_come_as_asked_in_every_read(stream, columns):
    for rows in (stream.read(columns=columns), next(stream.scan(columns=columns))):
        assert tuple(rows.schema.names) == columns
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
        batches = scan_one(stream, ReadRequest(0, columns=(), order=order))
        assert counted(batches) == counted(scan_one(stream, ReadRequest(0, order=order)))


def counted(batches):
    return sum(batch.num_rows for batch in batches)


def test_column_that_was_never_given_is_null(stream):
    assert set(column_of(stream.read(columns=("timestamp",)), "timestamp")) == {None}
