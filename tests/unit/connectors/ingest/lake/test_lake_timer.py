"""A worker publishes what it has sealed: in its time, beside all else, whatever its store does.

Method: real processes publish to tables in a directory. A store that is away is a file where the
directory of the table is to be.
"""

import os
import signal
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from structlog.testing import CapturingLogger

from connectors.ingest.lake.lake_timer import LakeTimer
from connectors.ingest.lake.last_publish import LastPublish
from connectors.ingest.maintenance_timer import MaintenanceTimer
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from connectors.settings.lake_settings import LakeSettings
from storage_core import StreamReader
from storage_core.lake import lake_target
from storage_core.lake.app_id import stream_of
from storage_core.lake.table import LakeTable
from storage_core.testing import ManualClock
from tests.log.workbench import batch_of
from tests.unit.connectors.writers import TOPIC, open_writers
from tests.waiting import WAIT_MAX_S

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)
EVERY_S = 60.0
# A process that gives way to all others loads a table and writes to it.
SETTLE_MAX_S = 5 * WAIT_MAX_S


class LakeBench:
    """Two shards of a stream with a lake, what publishes them, and what it has told."""

    def __init__(self, writers, root, lake):
        self.writers, self.root, self.lake = writers, root, lake
        for writer in writers.values():
            writer.stream.alter(lake=lake.as_uri())
            self.keep(writer, 0, 5)
        self.clock, self.counts, self.log = ManualClock(), WorkerCounts(), CapturingLogger()
        self.now_s = 0.0
        self.timer = self.begin()
        self.timer.tick(writers, self.now_s)

    def begin(self, every_s=EVERY_S):
        """Return what publishes, as a worker that has just begun has it."""
        return LakeTimer(self.root, LakeSettings(), every_s, self.counts, self.clock, self.log)

    def keep(self, writer, first, end):
        number, rows = writer.partition.number, range(first, end)
        writer.stream.append_batch(batch_of(rows), shard=number, addresses=rows)
        writer.commit()

    def seal(self):
        for writer in self.writers.values():
            writer.stream.seal()

    def turn(self):
        """Let the next pass come, and wait until it is over."""
        self.now_s += EVERY_S
        self.clock.advance(EVERY_S)
        self.timer.tick(self.writers, self.now_s)
        self.timer.settle(SETTLE_MAX_S)

    def states(self):
        return [
            (state.shard.number, state.published, state.unpublished)
            for state in self.timer.states_of(self.writers)
        ]

    def lines(self, *names):
        return [
            (call.args[0], call.kwargs.get("shard"))
            for call in self.log.calls
            if call.args[0] in names
        ]

    def published_rows(self):
        """Return shard and address of each row of the table."""
        table = DeltaTable(self.lake.as_uri()).to_pyarrow_table(columns=["shard", "address"])
        return sorted((row["shard"], row["address"]) for row in table.to_pylist())

    def commits(self):
        """Return how many commits of the table have published something."""
        history = DeltaTable(self.lake.as_uri()).history()
        return sum("published" in commit for commit in history)

    def last_publish(self, wait_s):
        maintenance = MaintenanceTimer(self.root, 0, 100, self.counts, self.log)
        try:
            LastPublish(maintenance, self.timer, wait_s, self.clock, self.log).publish(self.writers)
        finally:
            maintenance.close(SETTLE_MAX_S)


def name_other_owner(bench, shard):
    """Let the table say that another log publishes a shard, as one in another root does."""
    with StreamReader.open(bench.root, TOPIC) as reader:
        table = LakeTable.open(lake_target(bench.lake.as_uri()), stream_of(reader))
    assert table is not None
    table.commit(shard, [], [], table.published(shard) or 0, owner=1)


def rows_of(*ends):
    return [(shard, address) for shard, end in enumerate(ends) for address in range(end)]


@pytest.fixture
def bench(tmp_path):
    with open_writers(tmp_path / "root", 2) as writers:
        bench = LakeBench(writers, tmp_path / "root", tmp_path / "lake")
        yield bench
        bench.timer.close(SETTLE_MAX_S)


def test_what_is_sealed_is_published_and_what_is_not_waits(bench):
    bench.seal()
    bench.keep(bench.writers[A], 5, 7)
    assert bench.states() == [(0, None, 2), (1, None, 0)]
    bench.turn()
    assert sorted(bench.lines("published")) == [("published", 0), ("published", 1)]
    assert bench.published_rows() == rows_of(5, 5)
    assert bench.states() == [(0, 5, 2), (1, 5, 0)]
    assert bench.timer.counts_of(bench.writers)[TOPIC].rows == 10


def test_shards_of_a_topic_that_were_sealed_come_in_one_commit(bench):
    for end in (5, 6, 7):
        for writer in bench.writers.values():
            bench.keep(writer, end, end + 1)
        bench.seal()
        bench.turn()
    assert bench.published_rows() == rows_of(8, 8)
    assert bench.commits() == 3


def test_what_is_given_back_comes_in_one_commit(bench):
    bench.last_publish(SETTLE_MAX_S)
    assert bench.commits() == 1


def test_what_was_built_waits_a_moment_for_what_is_being_built_and_no_longer(bench):
    bench.seal()
    bench.timer.built()
    lag_s = bench.writers[A].stream.options.lake_lag.total_seconds()
    for wait_s, is_begun in ((0, False), (lag_s / 20, False), (lag_s / 10, True)):
        bench.timer.tick(bench.writers, wait_s, is_building=True)
        assert bench.timer.is_under_way == is_begun
    bench.timer.settle(SETTLE_MAX_S)
    assert bench.published_rows() == rows_of(5, 5)


def test_what_was_built_is_published_at_once_where_nothing_is_being_built(bench):
    bench.seal()
    bench.timer.built()
    bench.timer.tick(bench.writers, 0.0)
    assert bench.timer.is_under_way


def test_store_is_not_asked_where_nothing_was_sealed_since(bench):
    bench.seal()
    bench.turn()
    # Whoever asks makes it known.
    bench.lake.rename(bench.lake.with_name("elsewhere"))
    bench.turn()
    assert len(bench.lines("published", "publishing failed")) == 2


def test_it_never_comes_where_it_is_set_to_0(bench):
    bench.timer.close(SETTLE_MAX_S)
    bench.timer = bench.begin(every_s=0)
    bench.seal()
    bench.turn()
    assert bench.lines("published") == []


def test_store_that_is_away_is_told_once_and_costs_nothing(bench):
    bench.lake.write_bytes(b"no directory")
    bench.seal()
    for _ in range(3):
        bench.turn()
    assert bench.lines("published", "publishing failed") == [("publishing failed", None)]
    assert bench.timer.counts_of(bench.writers)[TOPIC].failures >= 2
    bench.lake.unlink()
    bench.turn()
    bench.turn()
    assert bench.published_rows() == rows_of(5, 5)


def test_worker_makes_no_table_in_the_place_of_one_that_is_away(bench):
    bench.seal()
    bench.turn()
    away = bench.lake.rename(bench.lake.with_name("elsewhere"))
    bench.keep(bench.writers[A], 5, 7)
    bench.seal()
    for _ in range(3):
        bench.turn()
    assert bench.lines("publishing failed") == [("publishing failed", None)]
    assert not bench.lake.exists()
    away.rename(bench.lake)
    bench.turn()
    assert bench.published_rows() == rows_of(7, 5)


def test_damaged_part_keeps_no_other_shard_from_the_lake(bench):
    bench.seal()
    (part,) = bench.writers[A].stream.parts()
    part.path.write_bytes(b"no part")
    bench.turn()
    assert sorted(bench.lines("published", "publishing failed")) == [
        ("published", 1),
        ("publishing failed", 0),
    ]
    assert bench.published_rows() == [(1, address) for address in range(5)]


def test_what_lies_before_a_damaged_part_counts_as_published(bench):
    first_seal, second_seal = 5, 8
    bench.seal()
    bench.keep(bench.writers[A], first_seal, second_seal)
    bench.seal()
    parts = bench.writers[A].stream.parts()
    max(parts, key=lambda part: part.entry.first).path.write_bytes(b"no part")
    bench.turn()
    assert bench.published_rows() == rows_of(first_seal, first_seal)
    assert sorted(bench.lines("published", "publishing failed")) == [
        ("published", 0),
        ("published", 1),
        ("publishing failed", 0),
    ]
    assert bench.timer.counts_of(bench.writers)[TOPIC].rows == 2 * first_seal
    assert bench.states() == [(0, first_seal, second_seal - first_seal), (1, first_seal, 0)]
    # So says the note of whoever published last.
    bench.timer.close(SETTLE_MAX_S)
    bench.timer = bench.begin()
    assert bench.states() == [(0, first_seal, second_seal - first_seal), (1, first_seal, 0)]


def test_damaged_part_behind_what_was_published_calls_for_no_other_pass(bench):
    bench.seal()
    bench.keep(bench.writers[A], 5, 8)
    bench.seal()
    max(bench.writers[A].stream.parts(), key=lambda part: part.entry.first).path.unlink()
    streams = {partition: writer.stream for partition, writer in bench.writers.items()}
    published = bench.timer.publish(TOPIC, streams)
    assert len(published.outcomes) == 3
    assert published.is_whole


def test_shard_that_gets_another_lake_is_published_there_though_nothing_is_new(bench, tmp_path):
    bench.seal()
    bench.turn()
    bench.lake = tmp_path / "other"
    for writer in bench.writers.values():
        writer.stream.alter(lake=bench.lake.as_uri())
    bench.turn()
    assert bench.published_rows() == rows_of(5, 5)


def test_shard_that_another_log_publishes_is_told_once_and_keeps_no_other_from_the_lake(bench):
    bench.seal()
    bench.turn()
    name_other_owner(bench, 0)
    for shard in (A, B):
        bench.keep(bench.writers[shard], 5, 7)
    bench.seal()
    for _ in range(3):
        bench.turn()
    assert bench.lines("publishing failed") == [("publishing failed", 0)]
    assert bench.published_rows() == rows_of(5, 7)
    states = bench.timer.states_of(bench.writers)
    assert [state.has_other_owner for state in states] == [True, False]
    assert bench.counts.publishers_died == 0


def test_age_of_what_waits_grows_until_it_is_published_and_makes_it_urgent(bench):
    stream = bench.writers[A].stream
    first_ms = stream.first_committed_ms(0, 0)
    bench.clock.wall_ns = (first_ms + 100_000) * 10**6
    (state, _) = bench.timer.states_of(bench.writers)
    assert state.age_s == 100
    assert not bench.timer.is_urgent(A, stream)
    bench.clock.advance(1000)
    assert bench.timer.is_urgent(A, stream)
    bench.seal()
    bench.turn()
    (state, _) = bench.timer.states_of(bench.writers)
    assert (state.published, state.age_s) == (5, 0)
    assert not bench.timer.is_urgent(A, stream)


def test_next_worker_knows_what_was_published_without_the_store(bench):
    bench.seal()
    bench.turn()
    bench.keep(bench.writers[A], 5, 7)
    bench.lake.rename(bench.lake.with_name("elsewhere"))
    bench.timer.close(SETTLE_MAX_S)
    bench.timer = bench.begin()
    assert bench.states() == [(0, 5, 2), (1, 5, 0)]


def test_what_is_given_back_is_sealed_and_published_before(bench):
    bench.last_publish(SETTLE_MAX_S)
    assert bench.published_rows() == rows_of(5, 5)
    (line,) = [call.kwargs for call in bench.log.calls if "giving back" in call.args[0]]
    assert (line["shards"], line["left"]) == (2, 0)


def test_giving_back_waits_for_a_store_that_hangs_no_longer_than_it_may(bench):
    bench.seal()
    bench.turn()
    bench.keep(bench.writers[A], 5, 7)
    process_id = bench.timer.publisher_id
    os.kill(process_id, signal.SIGSTOP)
    try:
        bench.last_publish(0.1)
    finally:
        os.kill(process_id, signal.SIGCONT)
    (line,) = [call.kwargs for call in bench.log.calls if "giving back" in call.args[0]]
    assert (line["shards"], line["left"]) == (0, 1)


def test_publisher_that_is_killed_is_counted_and_what_it_left_comes_later(bench):
    bench.seal()
    bench.turn()
    bench.keep(bench.writers[A], 5, 7)
    bench.seal()
    os.kill(bench.timer.publisher_id, signal.SIGKILL)
    bench.turn()
    assert bench.counts.publishers_died == 1
    bench.turn()
    assert bench.published_rows() == rows_of(7, 5)


def test_what_becomes_of_a_shard_that_is_closed_meanwhile_is_no_failure(bench):
    bench.seal()
    bench.turn()
    bench.keep(bench.writers[A], 5, 7)
    bench.seal()
    process_id = bench.timer.publisher_id
    os.kill(process_id, signal.SIGSTOP)
    bench.now_s += EVERY_S
    bench.timer.tick(bench.writers, bench.now_s)
    bench.writers[A].stream.close()
    os.kill(process_id, signal.SIGKILL)
    bench.timer.settle(SETTLE_MAX_S)
    assert bench.lines("publishing failed") == []
    assert bench.timer.counts_of({})[TOPIC].failures == 0


def test_files_go_by_their_age_though_nothing_is_new(bench):
    bench.seal()
    bench.turn()
    streams = [writer.stream for writer in bench.writers.values()]
    for stream in streams:
        stream.alter(keep_local=timedelta(0))
    assert all(part.path.exists() for stream in streams for part in stream.parts())
    bench.turn()
    assert not any(part.path.exists() for stream in streams for part in stream.parts())
