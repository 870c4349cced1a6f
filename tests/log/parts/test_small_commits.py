"""Goal: rows that came in commits of one cost, once trimmed, what rows of one commit cost.

Method: small commits beside a clock that moves, trimmed at once or bit by bit; the blocks that the
log tells of are few, and each read shows each row as before, with the time of its own commit.
"""

from datetime import timedelta

import numpy as np
import pytest

from storage_core import CorruptionError, Environment, Stream, StreamOptions, StreamReader
from storage_core.testing import ManualClock
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab

COLUMNS = ["address", "primary", "secondary", "state", "payload", "committed_at_ms"]
DAY_MS = 86_400_000


class OneByOne:
    """A shard whose rows come in commits of one, five seconds apart."""

    def __init__(self, root, **options):
        self.root, self.clock, self.count = root, ManualClock(), 0
        environment = Environment(clock=self.clock)
        self.stream = Stream.create(
            root, NAME, StreamOptions(shards=1, **options), environment=environment
        )

    def append(self, count, *, step_ms=1000, back_ms=0):
        for _ in range(count):
            time = FIRST_MS + self.count * step_ms - back_ms
            self.stream.append(time, self.count % 7, b"%d" % self.count)
            self.stream.commit()
            self.clock.advance(5)
            self.count += 1

    def trim(self):
        self.stream.seal()
        return self.stream.trim()

    def reopen(self):
        self.stream.close()
        self.stream = Stream.open(self.root, NAME, environment=Environment(clock=self.clock))

    @property
    def facts(self):
        with StreamReader.open(self.root, NAME) as reader:
            return reader.shard(0).state()

    @property
    def blocks(self):
        """As many as would go if all did."""
        self.stream.alter(retention=timedelta(days=1))
        blocks = self.stream.expire(now=FIRST_MS + 9999 * DAY_MS, dry_run=True).blocks
        self.stream.alter(retention=None)
        return blocks


@pytest.fixture
def shard(tmp_path):
    shard = OneByOne(tmp_path)
    yield shard
    shard.stream.close()


def rows_of(reads, start=0):
    return [row for some in reads.tail(0, start, columns=COLUMNS) for row in some.to_pylist()]


def answers(reads):
    """Return what a stream answers, whichever way it is asked."""
    return (
        rows_of(reads),
        rows_of(reads, 57),
        reads.read(3, columns=COLUMNS).to_pylist(),
        [row for some in reads.scan(columns=COLUMNS) for row in some.to_pylist()],
        sorted(map(str, reads.latest().items())),
        reads.read(ids=[1, 2], start=FIRST_MS + 9000, columns=COLUMNS).to_pylist(),
    )


def test_rows_of_small_commits_become_few_blocks_and_are_shown_as_before(shard):
    shard.append(100)
    shard.append(20, back_ms=30_000)
    assert shard.blocks == 120
    with StreamReader.open(shard.root, NAME) as reader:
        before = answers(shard.stream)
        assert answers(reader) == before
        assert shard.trim().blocks == 120
        assert shard.blocks == 1
        assert answers(shard.stream) == before
        assert answers(reader) == before
        shard.reopen()
        assert answers(shard.stream) == before
        report = shard.stream.verify()
        assert report.is_clean, report.problems
        shard.append(3)
        assert answers(reader) == answers(shard.stream)


def test_trims_of_a_few_rows_each_leave_few_blocks_too(shard):
    for _ in range(12):
        shard.append(3)
        shard.trim()
    assert shard.blocks == 1
    assert [row["payload"] for row in rows_of(shard.stream)] == [b"%d" % at for at in range(36)]
    assert shard.stream.verify().is_clean


def test_a_block_has_no_more_rows_than_one_that_was_written_at_once(tmp_path):
    shard = OneByOne(tmp_path, block_records=10)
    shard.append(35)
    shard.trim()
    assert shard.blocks == 4
    shard.append(7)
    shard.trim()
    assert shard.blocks == 5
    assert shard.stream.verify().is_clean
    shard.stream.close()


def test_rows_of_several_windows_stay_apart_and_expire_by_themselves(tmp_path):
    shard = OneByOne(tmp_path, retention=timedelta(minutes=15))
    shard.append(90, step_ms=20_000)
    shard.trim()
    reported = []
    for minutes in range(14, 50, 4):
        shard.stream.expire(now=FIRST_MS + minutes * 60_000)
        reported.append(len(rows_of(shard.stream, shard.facts.start)))
    twin = OneByOne(tmp_path / "twin", retention=timedelta(minutes=15))
    twin.append(90, step_ms=20_000)
    for minutes, rows in zip(range(14, 50, 4), reported, strict=True):
        twin.stream.expire(now=FIRST_MS + minutes * 60_000)
        assert len(rows_of(twin.stream, twin.facts.start)) == rows
    assert reported[0] > reported[-1] == 0
    shard.stream.close()
    twin.stream.close()


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_cap_keeps_the_newest_records_though_blocks_were_joined_since(tmp_path, is_reopened):
    shard = OneByOne(tmp_path, records_max=30)
    for _ in range(9):
        shard.append(4)
        shard.stream.expire()
        shard.trim()
        if is_reopened:
            shard.reopen()
        shard.append(1)
        shard.stream.expire()
        remaining = [b"%d" % at for at in range(max(0, shard.count - 30), shard.count)]
        rows = shard.stream.read(columns=["address", "payload"]).sort_by("address")
        assert rows.column("payload").to_pylist() == remaining
        assert shard.stream.verify().is_clean
    shard.stream.close()


def test_a_cap_counts_each_row_once_where_one_zone_has_rows_it_counted_and_later_ones(tmp_path):
    shard = OneByOne(tmp_path, records_max=30)
    for _ in range(8):
        shard.append(3)
        shard.stream.expire()
        shard.append(3)
        shard.trim()
        shard.stream.expire()
        remaining = [b"%d" % at for at in range(max(0, shard.count - 30), shard.count)]
        rows = shard.stream.read(columns=["address", "payload"]).sort_by("address")
        assert rows.column("payload").to_pylist() == remaining
    shard.stream.close()


def test_rows_that_are_lost_with_their_part_stay_apart(shard):
    shard.append(20)
    shard.trim()
    for part in shard.stream.parts():
        part.path.unlink()
    shard.append(5)
    with pytest.raises(CorruptionError):
        shard.stream.seal(rebuild=True)
    for lost in shard.facts.lost:
        shard.stream.accept_loss(0, lost.start, lost.end)
    shard.append(5)
    assert shard.trim().rows == 10
    assert [row["address"] for row in rows_of(shard.stream)] == list(range(20, 30))
    assert shard.blocks == 1


def test_rows_are_joined_with_none_that_were_lost_before_them(shard):
    shard.append(20)
    shard.trim()
    for part in shard.stream.parts():
        part.path.unlink()
    with pytest.raises(CorruptionError):
        shard.stream.seal(rebuild=True)
    shard.append(5)
    assert shard.trim().rows == 5
    assert [row["address"] for row in rows_of(shard.stream, 20)] == list(range(20, 25))
    for lost in shard.facts.lost:
        shard.stream.accept_loss(0, lost.start, lost.end)
    assert [row["address"] for row in rows_of(shard.stream)] == list(range(20, 25))


def test_small_commits_of_every_kind_of_row_are_shown_as_they_came(tmp_path):
    lab = PartsLab(tmp_path, Environment(clock=ManualClock()), block_records=64)
    rng = np.random.default_rng(3)
    lab.append(rng, 200)
    for _ in range(40):
        lab.append(rng, int(rng.integers(1, 4)))
    rows = lab.rows()
    lab.stream.seal()
    assert lab.rows_of_parts() == rows
    assert lab.stream.trim().rows == len(rows)
    assert lab.rows() == rows
    assert lab.stream.verify().is_clean
    lab.stream.close()
