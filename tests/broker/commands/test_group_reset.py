"""Goal: an operator lets partitions go on from another offset, and no log is short or doubled.

Method: `shardlog group reset` on streams of a real topic, with no worker, beside one, and beside
one that is paused. The ledger of each lineage is compared with the broker, offset by offset.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_FOREIGN, EXIT_UNAVAILABLE, EXIT_USAGE
from connectors.group.home_mark import decode_home_mark
from connectors.group.reset import planned_resets, run_reset
from connectors.group.reset_target import Target
from connectors.group.retry_shards import retry_shard_of
from connectors.kafka import Consumer, OffsetAdmin, Partition, Place
from storage_core import ForeignDataError, Stream, StreamReader, archived_shards
from tests.broker.support.cluster import Transactions
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.broker.worker.test_quarantine import recreate
from tests.unit.connectors.command import Ran, Shardlog, runner
from tests.waiting import WAIT_MAX_S, await_that


class Operator:
    """Who runs `shardlog group` on the streams of a lab."""

    def __init__(self, lab: Lab, shardlog: Shardlog) -> None:
        self.lab = lab
        self._shardlog = shardlog

    def resets(self, topic: Topic, *arguments: object) -> Ran:
        return self._shardlog(
            *("group", "reset", self.lab.root, topic.name),
            *(f"--bootstrap={self.lab.bootstrap}", *arguments),
        )

    def has_reset(self, topic: Topic, *arguments: object) -> list[Any]:
        """Reset, which must be done; return what it says of each partition."""
        ran = self.resets(topic, "--execute", "--json", *arguments)
        assert ran.code == 0, ran
        partitions: list[Any] = json.loads(ran.out)
        return partitions

    def tries(self, verb: str, topic: Topic, *arguments: object) -> Ran:
        waits = f"--wait={WAIT_MAX_S}"
        return self._shardlog("group", verb, self.lab.root, topic.name, waits, *arguments)

    def does(self, verb: str, topic: Topic, *arguments: object) -> Ran:
        ran = self.tries(verb, topic, *arguments)
        assert ran.code == 0, ran
        return ran


@pytest.fixture
def operator(lab: Lab, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(lab, runner(capsys))


def stored_topic(lab: Lab, records: int = 100, **settings: Any) -> tuple[Topic, WorkerProcess]:
    """A topic of two partitions, each with so many records, all of them stored."""
    topic = lab.topic(partitions=2)
    for partition in (0, 1):
        lab.produce(topic, records, partition=partition)
    worker = lab.worker(topic, **settings)
    lab.await_no_lag(topic)
    return topic, worker


def stopped_topic(lab: Lab) -> Topic:
    topic, worker = stored_topic(lab)
    assert worker.stop() == 0, worker.said()
    return topic


def group_place(lab: Lab, topic: Topic, number: int) -> Place:
    """Return the group's offset as another client of Kafka sees it."""
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": topic.name})
    try:
        return consumer.group_places([Partition(topic.name, number)])[Partition(topic.name, number)]
    finally:
        consumer.close()


def gaps(lab: Lab, topic: Topic) -> dict[int, list[tuple[int, int]]]:
    with StreamReader.open(lab.root, topic.name) as reader:
        return reader.gaps()


def expect_all_but(lab: Lab, topic: Topic, shard: int, start: int, end: int) -> None:
    """Expect all that the broker holds, once, but for a range of one partition."""
    lab.await_no_lag(topic)
    held = topic.holds()
    held[shard] = [row for row in held[shard] if not start <= row[0] < end]
    assert lab.stored(topic) == held


def archived_rows(lab: Lab, topic: Topic) -> list[list[int | None]]:
    """Return the offsets in each archived log."""
    logs: list[list[int | None]] = []
    for archived in archived_shards(lab.root, topic.name):
        with StreamReader.open(lab.root, topic.name, archived=archived.lineage) as reader:
            batches = reader.tail(archived.shard, columns=["address"])
            logs.append([at for batch in batches for at in batch["address"].to_pylist()])
    return logs


def test_rows_of_retried_dead_letters_are_archived_with_the_log(
    lab: Lab, operator: Operator
) -> None:
    topic = stopped_topic(lab)
    Stream.add_shards(lab.root, topic.name, {retry_shard_of(1): 0})
    outcomes = operator.has_reset(topic, "--to-offset=40")
    assert [outcome["partition"] for outcome in outcomes] == [0, 1]
    archived = [log.shard for log in archived_shards(lab.root, topic.name)]
    assert archived == [0, 1, retry_shard_of(1)]
    assert lab.committed(topic) == {0: 40, 1: 40}
    assert lab.stored(topic) == {0: [], 1: [], retry_shard_of(1): []}


def test_without_execute_the_table_is_printed_and_nothing_is_changed(
    lab: Lab, operator: Operator
) -> None:
    topic = stopped_topic(lab)
    ran = operator.resets(topic, "--to-offset=40", "--partition=1", "--group=g")
    assert ran.code == 0, ran
    head, row, advice = ran.lines
    assert head.split()[:4] == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert row.split()[:5] == ["g", topic.name, "1", "40", "100"]
    assert "archives the log and its 100 rows" in row
    assert "--execute" in advice
    assert lab.committed(topic) == {0: 100, 1: 100}
    assert list(archived_shards(lab.root, topic.name)) == []


def test_backward_each_log_has_each_record_once(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    (outcome,) = operator.has_reset(topic, "--to-offset=40", "--partition=1")
    assert (outcome["effect"], outcome["archived_rows"], outcome["new_offset"]) == (
        "archive",
        100,
        40,
    )
    assert lab.committed(topic) == {0: 100, 1: 40}
    worker = lab.worker(topic)
    lab.produce(topic, 30, partition=1)
    expect_all_but(lab, topic, 1, 0, 40)
    assert archived_rows(lab, topic) == [list(range(100))]
    assert worker.stop() == 0, worker.said()
    assert not worker.events("group offset is ahead of the shard")


def test_to_earliest_stores_the_whole_topic_anew(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    assert len(operator.has_reset(topic, "--to-earliest")) == 2
    lab.worker(topic)
    lab.expect_ledger(topic)
    assert archived_rows(lab, topic) == [list(range(100))] * 2


def test_forward_leaves_a_gap_that_is_told(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    lab.produce(topic, 50, partition=0)
    (outcome,) = operator.has_reset(topic, "--to-offset=130", "--partition=0")
    assert outcome["effect"] == "gap"
    lab.worker(topic)
    expect_all_but(lab, topic, 0, 100, 130)
    assert gaps(lab, topic)[0] == [(100, 130)]
    assert list(archived_shards(lab.root, topic.name)) == []


def test_to_latest_and_a_shift_forward_skip_what_waits(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    for partition in (0, 1):
        lab.produce(topic, 50, partition=partition)
    operator.has_reset(topic, "--shift-by=20", "--partition=0")
    operator.has_reset(topic, "--to-latest", "--partition=1")
    assert lab.committed(topic) == {0: 120, 1: 150}
    assert gaps(lab, topic) == {0: [(100, 120)], 1: [(100, 150)]}


def test_a_time_names_the_first_record_at_or_after_it(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    rows = topic.holds()[0]
    stamp = rows[60][3]
    expected = next(row[0] for row in rows if row[3] >= stamp)
    text = datetime.fromtimestamp(stamp / 1000, UTC).isoformat(timespec="milliseconds")
    (outcome,) = operator.has_reset(topic, f"--to-datetime={text}", "--partition=0")
    assert outcome["new_offset"] == expected
    (outcome,) = operator.has_reset(topic, "--by-duration=P1D", "--partition=0")
    assert outcome["new_offset"] == 0
    (outcome,) = operator.has_reset(topic, "--to-datetime=2100-01-01T00:00:00Z", "--partition=0")
    assert outcome["new_offset"] == 100


def test_offsets_that_the_topic_does_not_have_are_clamped_and_said(
    lab: Lab, operator: Operator
) -> None:
    topic = stopped_topic(lab)
    above = operator.resets(topic, "--to-offset=5000", "--partition=0")
    assert "offset 5000 is above the log's end; 100 is taken" in above.out
    below = operator.resets(topic, "--shift-by=-500", "--partition=0")
    assert "offset -400 is below the log's start; 0 is taken" in below.out
    (outcome,) = operator.has_reset(topic, "--shift-by=-500", "--partition=0")
    assert outcome["new_offset"] == 0


def test_repeated_it_does_nothing_more(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    operator.has_reset(topic, "--to-offset=40")
    assert {outcome["effect"] for outcome in operator.has_reset(topic, "--to-offset=40")} == {
        "nothing"
    }
    assert len(archived_shards(lab.root, topic.name)) == 2


def test_refused_while_a_worker_holds_the_shard_and_done_once_it_is_paused(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    refused = operator.resets(topic, "--to-offset=40", "--partition=1", "--execute")
    assert refused.code == EXIT_UNAVAILABLE, refused
    assert f"process {worker.process.pid}" in refused.err
    assert f"shardlog group pause {lab.root} {topic.name} --partition 1" in refused.err
    assert list(archived_shards(lab.root, topic.name)) == []
    operator.does("pause", topic, "--partition=1")
    ran = operator.resets(
        topic, "--to-offset=40", "--partition=1", "--execute", f"--group={topic.name}"
    )
    assert ran.code == 0, ran
    assert "which the worker sets once it opens the shard" in ran.out
    lab.produce(topic, 20, partition=0)
    operator.does("resume", topic, "--partition=1")
    lab.produce(topic, 30, partition=1)
    expect_all_but(lab, topic, 1, 0, 40)
    assert worker.stop() == 0, worker.said()
    assert group_place(lab, topic, 1).offset == 130


def test_paused_partition_is_reset_forward_and_goes_on_behind_the_gap(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    operator.does("pause", topic, "--partition=0")
    lab.produce(topic, 60, partition=0)
    operator.has_reset(topic, "--to-offset=150", "--partition=0")
    operator.does("resume", topic, "--partition=0")
    expect_all_but(lab, topic, 0, 100, 150)
    assert worker.stop() == 0, worker.said()


def test_all_partitions_of_a_paused_stream_are_taken_again(lab: Lab, operator: Operator) -> None:
    topic, worker = stored_topic(lab)
    operator.does("pause", topic)
    operator.has_reset(topic, "--to-earliest")
    operator.does("resume", topic)
    lab.expect_ledger(topic)
    assert worker.stop() == 0, worker.said()


def test_offset_of_a_group_without_members_is_set_with_the_mark_of_the_new_log(
    lab: Lab, operator: Operator
) -> None:
    topic = stopped_topic(lab)
    (outcome,) = operator.has_reset(
        topic, "--to-offset=40", "--partition=1", f"--group={topic.name}"
    )
    assert outcome["group_refusal"] is None
    place = group_place(lab, topic, 1)
    mark = decode_home_mark(place.metadata)
    assert (place.offset, mark and mark.lineage) == (40, lineage_of(lab, topic, 1))
    assert group_place(lab, topic, 0).offset == 100


def lineage_of(lab: Lab, topic: Topic, shard: int) -> str:
    with StreamReader.open(lab.root, topic.name) as reader:
        return reader.lineage(shard)


def test_rows_that_a_killed_worker_had_stored_are_archived_or_kept_never_doubled(
    lab: Lab, operator: Operator
) -> None:
    topic = lab.topic(partitions=1)
    with lab.producing(topic, 5000):
        worker = lab.doomed(topic)
        lab.await_committed(topic, 500)
        worker.kill()
    end = topic.ends()[0]
    operator.has_reset(topic, f"--to-offset={end // 2}")
    lab.worker(topic)
    stored = lab.committed(topic)[0]
    assert stored >= end // 2
    lab.await_no_lag(topic)
    offsets = [row[0] for row in lab.stored(topic)[0]]
    assert offsets == sorted(set(offsets))
    assert set(range(end // 2, end)) <= set(offsets)


def test_reader_that_is_open_is_told(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    with StreamReader.open(lab.root, topic.name) as reader:
        assert reader.read().num_rows == 200
        operator.has_reset(topic, "--to-offset=40", "--partition=1")
        with pytest.raises(ForeignDataError, match="reset"):
            reader.refresh()


def test_partition_below_the_logs_start_goes_on_at_it(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    lab.cluster.delete_records(Partition(topic.name, 0), 70)
    (outcome,) = operator.has_reset(topic, "--to-earliest", "--partition=0")
    assert outcome["new_offset"] == 70
    lab.worker(topic)
    lab.produce(topic, 10, partition=0)
    expect_all_but(lab, topic, 0, 0, 70)


def test_quarantined_partition_is_reset_and_taken_again(lab: Lab, operator: Operator) -> None:
    """Retention has passed what was not stored: forward, to where Kafka begins."""
    topic = stopped_topic(lab)
    lab.produce(topic, 50, partition=0)
    lab.cluster.delete_records(Partition(topic.name, 0), 130)
    worker = lab.worker(topic)
    worker.await_event("quarantined")
    operator.has_reset(topic, "--to-earliest", "--partition=0")
    # The worker tries it by itself, too, and may have it by then.
    assert operator.tries("retry", topic, "--partition=0").code in (0, EXIT_USAGE)
    lab.await_no_lag(topic)
    assert gaps(lab, topic)[0] == [(100, 130)]
    assert worker.stop() == 0, worker.said()


def test_damaged_shard_keeps_no_other_from_being_reset_and_is_archived_itself(
    lab: Lab, operator: Operator
) -> None:
    topic = stopped_topic(lab)
    (current,) = (lab.root / topic.name / "shard-0001").rglob("CURRENT")
    current.unlink()
    (outcome,) = operator.has_reset(topic, "--to-offset=40", "--partition=0")
    assert (outcome["effect"], outcome["archived_rows"]) == ("archive", None)
    (outcome,) = operator.has_reset(topic, "--to-earliest", "--partition=1")
    assert outcome["effect"] == "archive"
    lab.worker(topic)
    expect_all_but(lab, topic, 0, 0, 40)


def test_shard_that_cannot_say_where_it_stands_is_named(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    (lab.root / topic.name / "shard-0001" / "marker").write_bytes(bytes(8192))
    refused = operator.resets(topic, "--to-earliest", "--execute")
    assert (refused.code, refused.err.count("\n")) == (EXIT_DAMAGE, 1), refused
    assert "shard 1" in refused.err
    operator.has_reset(topic, "--to-offset=40", "--partition=0")


def test_shard_that_was_begun_elsewhere_meanwhile_is_not_said_to_be_reset(
    lab: Lab, operator: Operator
) -> None:
    topic = stopped_topic(lab)
    lab.cluster.add_partitions(topic.name, 3)
    await_that(lambda: len(topic.partitions()) == 3, "a third partition")
    lab.produce(topic, 50, partition=2, settings={"client.id": "late"})
    offsets = OffsetAdmin({"bootstrap.servers": lab.bootstrap})
    (planned,) = planned_resets(lab.root, topic.name, Target("offset", 20), offsets, [2])
    assert planned.effect == "new shard"
    Stream.add_shards(lab.root, topic.name, {2: 0})
    groups: list[Place] = []
    outcome = run_reset(lab.root, topic.name, planned, lambda _, place: groups.append(place))
    assert "begins at 0" in str(outcome.error)
    assert groups == []
    (again,) = operator.has_reset(topic, "--to-offset=20", "--partition=2")
    assert again["effect"] == "gap"


def test_topic_made_anew_is_not_reset(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    recreate(lab, topic)
    refused = operator.resets(topic, "--to-earliest", "--execute")
    assert (refused.code, "re-created" in refused.err) == (EXIT_FOREIGN, True), refused
    assert lab.committed(topic) == {0: 100, 1: 100}


BAD_ARGUMENTS = {
    (): "say where to",
    ("--to-earliest", "--to-latest"): "there are 2",
    ("--to-datetime=yesterday",): "--to-datetime 'yesterday'",
    ("--by-duration=2h",): "ISO 8601",
    ("--to-earliest", "--partition=7"): "no partition 7",
    ("--to-earliest", "--group="): "--group is empty",
}


def test_backward_is_refused_where_the_lake_would_undo_it(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    with Stream.open(lab.root, topic.name) as stream:
        stream.alter(lake=f"file://{lab.root}-lake")
    refused = operator.resets(topic, "--to-offset=40", "--execute")
    assert (refused.code, len(refused.err.splitlines())) == (EXIT_USAGE, 1), refused
    assert "lake" in refused.err
    assert lab.committed(topic) == {0: 100, 1: 100}


def test_bad_arguments_are_refused_in_one_line(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    for arguments, says in BAD_ARGUMENTS.items():
        refused = operator.resets(topic, *arguments)
        assert (refused.code, len(refused.err.splitlines())) == (EXIT_USAGE, 1), refused
        assert says in refused.err


def test_to_latest_skips_no_record_of_an_open_transaction(lab: Lab, operator: Operator) -> None:
    topic = stopped_topic(lab)
    open_transaction = Transactions(lab.bootstrap, f"{topic.name}-open")
    open_transaction.leave_open(topic.name, [(None, b"%d" % number) for number in range(10)])
    resets = operator.has_reset(topic, "--to-latest")
    assert {outcome["new_offset"] for outcome in resets} == {100}
