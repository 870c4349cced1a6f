"""Goal: rows that came in commits of one are read together, and shown as each commit's own.

Method: small commits of every kind of row, read by a writer and by a reader. Batches are counted;
rows are compared with those of their blocks, read one by one.
"""

from typing import Any

import pyarrow as pa
import pytest

from storage_core import CorruptionError, Environment, ReadRequest
from storage_core.testing import ManualClock
from tests.log.workbench import TYPES, batch_of, column_of, rows_of

STORED = (
    *("shard", "secondary", "primary", "version", "address", "late", "payload", "state"),
    *("committed_at_ms", "key", "headers", "timestamp", "timestamp_type"),
)
COMMITS = 600
# Reads begin with one block, and take up to twice as many each time.
BATCHES_MAX = 16
KINDS: list[dict[str, Any]] = [
    {"payload": b"plain"},
    {"payload": None},
    {"payload": b"", "version": 3},
    {"payload": b"keyed", "key": b"k"},
    {"payload": b"timed", "timestamp": 5, "timestamp_type": 1},
    {"payload": bytes(20_000)},
]


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def make_small(make_bench, clock):
    def make(**options):
        environment = Environment(clock=clock, has_index_worker=False)
        return make_bench(environment=environment, unit="sequence", **options)

    return make


@pytest.fixture
def one_by_one(make_small, clock):
    """Rows of four ids in commits of their own, one in ten of them late."""
    bench = make_small()
    for number in range(COMMITS):
        clock.advance(1)
        bench.keep([number - 30 * (number % 10 == 9)], secondary=number % 4)
    return bench


def count_and_rows(batches):
    held = list(batches)
    return len(held), rows_of(held)


def test_a_scan_hands_on_few_batches_of_many_small_commits(one_by_one):
    rows = one_by_one.rows_block_by_block(STORED)
    of_one = [row for row in rows if row["secondary"] == 3]
    with one_by_one.read_beside() as reader:
        for reads in (one_by_one.stream, reader):
            for scanned, expected in (
                (reads.tail(0, columns=STORED), rows),
                (reads.tail(0, 10, 500, columns=STORED), rows[10:500]),
                (reads.scan(columns=STORED), rows),
                (reads.scan(3, columns=STORED), of_one),
                (reads.scan(3, 100, 200, columns=STORED), among(of_one, 100, 200)),
            ):
                count, scanned_rows = count_and_rows(scanned)
                assert scanned_rows == expected
                assert count <= BATCHES_MAX


def among(rows, start, end):
    return [row for row in rows if start <= row["primary"] <= end]


def test_a_scan_in_order_of_time_takes_many_small_commits_at_once(one_by_one):
    rows = one_by_one.rows_block_by_block(STORED)
    request = ReadRequest(0, order="time", columns=STORED)
    count, scanned_rows = count_and_rows(one_by_one.shard.scan(request))
    assert scanned_rows == sorted(rows, key=lambda row: (row["primary"], row["secondary"]))
    assert count <= BATCHES_MAX


def test_small_commits_of_every_kind_are_shown_as_their_blocks_have_them(make_small, clock):
    for codec in ("none", "lz4", "zstd"):
        bench = make_small(codec=codec)
        for number in range(200):
            clock.advance(number % 2)
            first = 3 * number
            addresses = [first, first + 1] if number % 3 else [first, first + 2]
            primaries = [number, number - 5 * (number % 7 == 6)]
            kind = KINDS[number % len(KINDS)]
            bench.keep(primaries, secondary=[number % 4, 2], addresses=addresses, **kind)
        rows = bench.rows_block_by_block(STORED)
        assert rows_of(bench.stream.tail(0, columns=STORED)) == rows
        assert rows_of(bench.stream.scan(2, columns=STORED)) == [
            row for row in rows if row["secondary"] == 2
        ]
        by_primary = sorted(
            rows, key=lambda row: (row["secondary"], row["primary"], row["address"])
        )
        assert rows_of(bench.stream.read(columns=STORED)) == by_primary


def test_headers_and_versions_of_small_commits_are_their_own(make_small):
    bench = make_small()
    headers = [None, [], [{"key": "name", "value": b"value"}], [{"key": "none", "value": None}]]
    for number in range(80):
        column = pa.array([headers[number % 4]], TYPES["headers"])
        batch = batch_of([number], version=number % 5)
        bench.stream.append_batch(batch.append_column("headers", column) if number % 3 else batch)
        bench.commit()
    rows = bench.rows_block_by_block(STORED)
    assert rows_of(bench.stream.tail(0, columns=STORED)) == rows
    some = [row for row in rows if row["version"] == 3]
    assert rows_of(bench.stream.scan(versions=[3], columns=STORED)) == some


def test_the_newest_of_many_ids_are_read_from_small_commits_together(make_small, clock):
    bench = make_small()
    for number in range(300):
        clock.advance(1)
        bench.keep([number], secondary=number % 150, payload=b"%d" % number)
    newest = bench.stream.latest()
    assert {number: record.payload for number, record in newest.items()} == {
        number: b"%d" % (150 + number) for number in range(150)
    }
    assert bench.stream.latest([7, 9]) == {one: newest[one] for one in (7, 9)}


def test_rows_before_a_damaged_small_block_are_shown_and_its_addresses_told(one_by_one):
    one_by_one.close()
    one_by_one.damage_block(300)
    one_by_one.open()
    seen: list[int] = []

    def look():
        for batch in one_by_one.stream.tail(0):
            seen.extend(column_of([batch], "address"))

    with pytest.raises(CorruptionError, match="a block cannot be read") as refused:
        look()
    assert seen == [*range(300)]
    assert (refused.value.start, refused.value.end) == (300, 301)


def test_verify_tells_of_the_damaged_one_among_small_blocks(one_by_one):
    assert one_by_one.stream.verify().blocks == COMMITS
    one_by_one.close()
    one_by_one.damage_block(300)
    one_by_one.open()
    report = one_by_one.stream.verify()
    assert [(one.kind, one.start, one.end) for one in report.problems] == [("block", 300, 301)]
    assert report.blocks == COMMITS - 1


def test_verify_compares_the_small_blocks_that_are_read_before_a_zone_that_is_missing(one_by_one):
    one_by_one.close()
    one_by_one.remove_zone(300)
    one_by_one.open()
    seen: list[int] = []

    def look():
        for batch in one_by_one.stream.tail(0):
            seen.extend(column_of([batch], "address"))

    with pytest.raises(CorruptionError):
        look()
    assert len(seen) > 200
    report = one_by_one.stream.verify()
    assert report.blocks == len(seen)
    assert not report.is_clean


@pytest.mark.parametrize(
    ("codec", "payload_bytes", "commits"), [("none", 15_000, 400), ("zstd", 2**20, 64)]
)
def test_a_scan_holds_few_mebibytes_of_small_commits(make_small, codec, payload_bytes, commits):
    bench = make_small(codec=codec)
    for number in range(commits):
        # Compressed they are as small as any.
        bench.keep([number], payload=bytes(payload_bytes))
    batches = list(bench.stream.tail(0, columns=["address", "payload"]))
    assert column_of(batches, "address") == [*range(commits)]
    assert max(batch.nbytes for batch in batches) < 10 * 2**20
