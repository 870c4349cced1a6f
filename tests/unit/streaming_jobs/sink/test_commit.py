"""The sink without Spark: whatever runs twice, fails or dies, a batch lands once or not at all."""

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import pyarrow as pa
import pytest
from typing_extensions import override

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    Stream,
    StreamOrigin,
    StreamReader,
    UnavailableError,
)
from storage_core.transactions import merge_sorted
from storage_core.transactions.series import CONTENTS_KEPT_MAX
from storage_core.transactions.staged_rows import BATCH_BYTES_TARGET
from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.sink.options import parse_batch_options
from streaming_jobs.sink.target import find_or_make
from streaming_jobs.sink.task import StagedMessage, stage
from streaming_jobs.sink.writer import ShardStreamWriter
from tests.snapshots import snapshot
from tests.unit.forks import in_fork
from tests.unit.streaming_jobs.sink.sink_lab import MAPPING, SinkLab, batch_of
from tests.waiting import WAIT_MAX_S, await_that

TOPIC = StreamOrigin("kafka", "clicks", "id-1", "integer", "timestamp")


@pytest.fixture
def lab(tmp_path):
    return SinkLab(tmp_path / "root")


@pytest.fixture
def kept_lab(lab):
    """A lab whose commits keep the stream open."""
    lab.writers = type(lab.writers)(60)
    yield lab
    lab.writers.close()


# --- a batch lands once -----------------------------------------------------------------------


def test_rows_of_all_tasks_land_and_staging_is_cleared(lab):
    lab.commit(0, lab.task(0, [1, 2], [3]), lab.task(0, [4]))
    assert (lab.stored, lab.staged) == ([1, 2, 3, 4], [])


def test_commit_of_the_same_batch_again_is_a_no_op(lab):
    message = lab.task(0, [1])
    lab.commit(0, message)
    lab.commit(0, message)
    assert lab.stored == [1]


def test_replayed_batch_is_neither_staged_nor_written(lab):
    lab.run(0, [1])
    replay = lab.task(0, [1])
    assert (replay.is_replay, replay.parts, lab.staged) == (True, {}, [])
    lab.commit(0, replay)
    assert lab.stored == [1]


def test_twin_of_a_task_that_is_not_reported_leaves_nothing(lab):
    lab.task(0, [1, 2])
    lab.commit(0, lab.task(0, [1, 2]))
    assert (lab.stored, lab.staged) == ([1, 2], [])


def test_twin_that_finds_the_batch_decided_does_no_harm(lab):
    first, second = lab.task(0, [1]), lab.task(0, [2])
    lab.commit(0, first, second)
    lab.commit(0, lab.task(0, [1]), second)
    assert lab.stored == [1, 2]


def test_failed_task_leaves_nothing_staged(lab):
    with pytest.raises(InvalidRequestError, match="column 'primary' holds nulls"):
        lab.task(0, [1], [None])
    assert lab.staged == []
    lab.run(0, [1])
    assert lab.stored == [1]


def test_task_whose_input_fails_leaves_nothing_staged(lab):
    def failing():
        yield batch_of([1])
        yield batch_of([2]).append_column("key", pa.array([b"another schema"]))
        raise KeyError

    with pytest.raises(KeyError):
        stage(lab.target, MAPPING, lab.batch(0), failing())
    assert lab.staged == []


def test_older_driver_that_wakes_late_writes_nothing(lab):
    late = lab.task(0, [1])
    lab.run(0, [1])
    lab.run(1, [2])
    lab.commit(0, late)
    assert lab.stored == [1, 2]


def test_empty_batch_counts_and_opens_nothing(lab):
    with Stream.open(lab.root, "s"):
        lab.commit(0, lab.task(0, []))
    assert lab.task(0, [1]).is_replay
    lab.run(1, [1])
    assert lab.stored == [1]


def test_commit_without_all_messages_is_refused(lab):
    with pytest.raises(InvalidRequestError, match="1 of 2 tasks sent nothing"):
        lab.commit(0, lab.task(0, [1]), None)
    with pytest.raises(InvalidRequestError, match="tasks sent nothing"):
        lab.commit(0)


def test_tasks_that_saw_a_decision_which_is_gone_are_run_again(lab):
    seen = lab.task(0, [])
    lab.run(0, [1])
    replay = lab.task(0, [1])
    shutil.rmtree(lab.root / "s" / "series")
    with pytest.raises(UnavailableError, match="run it again"):
        lab.commit(0, replay, seen)


# --- a batch that comes again -----------------------------------------------------------------


def test_batch_that_comes_again_with_other_rows_is_refused(lab):
    lab.run(0, [1])
    lab.run(1, [2])
    said = (
        r"batch 1 of query q1 comes with 2 rows and is in the stream with 1 other rows: .* set back"
    )
    for _ in range(2):
        with pytest.raises(ForeignDataError, match=said):
            lab.run(1, [2, 3])
    with pytest.raises(ForeignDataError, match="comes with 1 rows and is in the stream with 1 oth"):
        lab.run(0, [9])
    assert (lab.stored, lab.staged) == ([1, 2], [])


def test_batch_that_was_planned_anew_before_it_was_finished_is_refused(lab):
    message = lab.task(0, [1, 2])
    lab.target.area().publish(lab.batch(0), message.parts, message.contents)
    with pytest.raises(ForeignDataError, match="in the stream with 2 other rows"):
        lab.run(0, [1, 2, 3])


def test_rows_of_a_batch_may_come_again_in_other_tasks_and_another_order(lab):
    lab.commit(0, lab.task(0, [1, 2], [3]), lab.task(0, [4]))
    lab.commit(0, lab.task(0, [], [4]), lab.task(0, [1, 2]), lab.task(0, [3]))
    assert lab.stored == [1, 2, 3, 4]


def test_skipped_batch_is_counted_and_logged(lab, caplog):
    for _ in range(3):
        lab.run(0, [1])
    assert caplog.messages == [
        f"batch 0 of query q1 is in stream 's' already; its 1 rows are not written again "
        f"({before} such before)"
        for before in range(2)
    ]


def test_batch_too_old_to_be_compared_is_refused(lab):
    for number in range(CONTENTS_KEPT_MAX + 1):
        lab.run(number, [])
    with pytest.raises(ForeignDataError, match="with rows that are not remembered any more"):
        lab.run(0, [])


def test_batch_of_a_store_that_kept_no_contents_is_skipped_as_it_was(lab):
    area = lab.target.area()
    area.publish(lab.batch(0), {})
    lab.run(0, [1])
    assert lab.stored == []


def test_job_that_never_gives_the_same_rows_may_let_them_go(lab, caplog):
    lab.run(0, [1])
    skipping = SinkLab(lab.root, onchangedbatch="skip")
    skipping.run(0, [8, 9])
    skipping.run(1, [2])
    assert lab.stored == [1, 2]
    assert "batch 0 of query q1 has 2 rows, and is in stream 's' with 1 other rows" in caplog.text


def test_batch_is_not_decided_before_its_plan_is_durable(lab, tmp_path):
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").symlink_to("0")
    with_checkpoint = SinkLab(lab.root, checkpointlocation=str(tmp_path / "checkpoint"))
    message = with_checkpoint.task(0, [1])
    writer = ShardStreamWriter(with_checkpoint.options, with_checkpoint.target, MAPPING)
    with pytest.raises(UnavailableError, match="cannot be made durable"):
        writer.commit([message], 0)
    assert not with_checkpoint.target.area().is_decided(with_checkpoint.batch(0))


def test_epoch_of_a_continuous_query_is_refused_and_logged(lab, caplog):
    """Spark asks no task of one to write, and ignores what its commit raises."""
    writer = ShardStreamWriter(lab.options, lab.target, MAPPING)
    with pytest.raises(
        InvalidRequestError, match="lands no row; stop the query, and start it with"
    ):
        writer.commit([None, None], 0)
    assert "trigger(continuous=…) lands no row" in caplog.text


# --- abort ------------------------------------------------------------------------------------


def test_abort_clears_what_was_staged(lab):
    lab.abort(lab.task(0, [1]), None)
    assert (lab.stored, lab.staged) == ([], [])


def test_abort_never_undoes_what_was_committed(lab):
    message = lab.task(0, [1])
    lab.commit(0, message)
    lab.abort(message, None)
    assert lab.stored == [1]


def test_abort_spares_a_batch_that_is_decided_and_not_finished(lab):
    message = lab.task(0, [1, 2])
    lab.target.area().publish(lab.batch(0), message.parts)
    lab.abort(message)
    Stream.open(lab.root, "s").close()
    assert (lab.stored, lab.staged) == ([1, 2], [])


class AwayLocation(StreamLocation):
    """Where a stream is whose servers fall silent once it is opened."""

    @override
    def area(self) -> Any:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def discard(self, *_: object) -> None:
        message = "none of 2 servers answered"
        raise UnavailableError(message)


def test_abort_leaves_to_its_age_what_nobody_can_be_asked_to_clear(lab):
    lab.target = AwayLocation("shardlog://a:1,b:1", "s", "root", "incarnation")
    lab.abort(StagedMessage(lab.target, lab.batch(0), {}))


def test_abort_spares_another_attempt(lab):
    mine, other = lab.task(0, [1]), lab.task(0, [1])
    lab.abort(mine)
    lab.commit(0, other)
    assert lab.stored == [1]


# --- beside other writers ---------------------------------------------------------------------


def test_commit_beside_a_live_writer_is_refused_before_anything_is_decided(lab):
    message = lab.task(0, [1])
    with (
        Stream.open(lab.root, "s"),
        pytest.raises(ShardLockedError, match=r"waited 0 s: another writer .* process \d+ on"),
    ):
        lab.commit(0, message)
    assert not lab.target.area().is_decided(lab.batch(0))
    lab.commit(0, message)
    assert lab.stored == [1]


def test_pooled_stream_is_used_again_and_let_go_when_somebody_waits(kept_lab):
    kept_lab.run(0, [1])
    with pytest.raises(ShardLockedError):
        Stream.open(kept_lab.root, "s", [0])
    kept_lab.run(1, [2])
    kept_lab.target.area().open_shards([0, 1], WAIT_MAX_S).close()
    kept_lab.run(2, [3])
    assert kept_lab.stored == [1, 2, 3]


def test_kept_stream_is_opened_wider_for_more_shards(kept_lab):
    kept_lab.run(0, [1])
    kept_lab.run(1, [2, 3])
    assert kept_lab.stored == [1, 2, 3]


def test_commits_of_two_threads_take_turns(kept_lab):
    second = SinkLab(kept_lab.root, "q2", lockwait="60")
    second.writers, area = kept_lab.writers, kept_lab.target.area()
    with ThreadPoolExecutor(1) as threads:
        with kept_lab.writers.of(area, [0, 1], 0, "the first"):
            landed = threads.submit(second.run, 0, [1])
            await_that(area.somebody_waits, "the second waits for the shards")
        landed.result(WAIT_MAX_S)
    assert kept_lab.stored == [1]


def test_fork_in_the_middle_of_a_commit_is_told_that_it_may_not_write(lab):
    with lab.writers.of(lab.target.area(), [0], 0, "the parent"):
        refused = in_fork(lambda: lab.run(0, [1]))
    assert "start processes that write by spawn" in str(refused)
    lab.run(0, [1])
    assert lab.stored == [1]


def test_idle_stream_is_let_go(lab):
    lab.writers = type(lab.writers)(0.05)
    lab.run(0, [1])
    lab.target.area().open_shards([0, 1], WAIT_MAX_S).close()


# --- the query is known -----------------------------------------------------------------------


def test_deleted_checkpoint_is_refused_unless_asked_for(lab):
    names = {"checkpointlocation": "/c", "queryname": "n"}
    SinkLab(lab.root, "q1", **names).run(0, [1])
    with pytest.raises(InvalidRequestError, match=r"'/c' wrote here as query q1 and is query q2"):
        SinkLab(lab.root, "q2", **names).run(0, [1])
    assert lab.stored == [1]
    SinkLab(lab.root, "q2", resetquery="true", **names).run(0, [1])
    SinkLab(lab.root, "q2", **names).run(1, [2])
    assert lab.stored == [1, 1, 2]


def test_known_query_name_with_another_checkpoint_is_refused(lab):
    SinkLab(lab.root, "q1", checkpointlocation="/c", queryname="n").run(0, [1])
    with pytest.raises(InvalidRequestError, match="query name 'n' wrote here as query q1"):
        SinkLab(lab.root, "q2", checkpointlocation="/d", queryname="n").run(0, [1])


def test_batch_that_does_not_follow_is_refused_unless_asked_for(lab):
    lab.run(0, [1])
    with pytest.raises(InvalidRequestError, match=r"batch 2 .* does not follow.* its batches to 0"):
        lab.run(2, [3])
    with pytest.raises(InvalidRequestError, match=r"batch 7 .* the stream has no batch"):
        SinkLab(lab.root, "q2").run(7, [3])
    SinkLab(lab.root, resetquery="true").run(2, [3])
    assert lab.stored == [1, 3]


# --- the stream is known ----------------------------------------------------------------------


def test_task_on_a_host_without_the_root_names_the_host(lab, tmp_path):
    with pytest.raises(ForeignDataError, match=r"host .* has no stream 's' at .*away"):
        lab.elsewhere(tmp_path / "away").task(0, [1])


def test_task_that_finds_another_root_names_the_host(lab, tmp_path):
    other = SinkLab(tmp_path / "other")
    with pytest.raises(ForeignDataError, match=r"host .* has another root of stream 's'"):
        lab.elsewhere(other.root).task(0, [1])
    assert not (other.root / "s" / "staging").exists()


def test_task_that_finds_a_copy_stages_nothing_there(lab, tmp_path):
    lab.run(0, [1])
    copy, root = tmp_path / "copy", tmp_path / "the root"
    snapshot(lab.root, copy)
    lab.root.rename(root)
    copy.rename(lab.root)
    with pytest.raises(ForeignDataError, match=r"host .* has a copy of stream 's' at"):
        lab.task(1, [2])
    assert lab.staged == []


def test_commit_of_rows_staged_for_a_stream_made_anew_is_refused(lab):
    message = lab.task(0, [1])
    shutil.rmtree(lab.root)
    anew = SinkLab(lab.root)
    with pytest.raises(ForeignDataError, match="for another stream or batch"):
        anew.commit(0, message)
    lab.abort(message)
    assert anew.stored == []


def test_stream_of_a_topic_refuses_the_sink(lab):
    Stream.create(lab.root, "clicks", origin=TOPIC).close()
    options = parse_batch_options({"path": str(lab.root), "stream": "clicks"})
    with pytest.raises(InvalidRequestError, match="'clicks' holds Kafka's topic 'clicks'"):
        find_or_make(options)


def test_stream_that_was_made_otherwise_is_refused(lab):
    with pytest.raises(InvalidRequestError, match="'s' was made with 2, not 8; this never"):
        SinkLab(lab.root, shards="8")
    assert SinkLab(lab.root, retention="1d").stored == []


def test_bad_name_of_a_stream_is_told(tmp_path):
    with pytest.raises(InvalidRequestError, match="bad stream name"):
        find_or_make(parse_batch_options({"path": str(tmp_path), "stream": "a/b"}))


def test_batch_too_large_to_be_sorted_tells_what_became_late(lab, caplog, monkeypatch):
    fit = 5
    monkeypatch.setattr(merge_sorted, "HELD_BYTES_MAX", fit * BATCH_BYTES_TARGET)
    count = fit + 3
    large = pa.array([bytes(BATCH_BYTES_TARGET)])
    rows = [batch_of([time]).set_column(2, "value", large) for time in range(count, 0, -1)]
    staged = [stage(lab.target, MAPPING, lab.batch(0), iter([row])) for row in rows]
    with caplog.at_level(logging.WARNING, "shardlog"):
        lab.commit(0, *staged)
    assert f"3 of {count} rows are late; the batch was too large" in caplog.text
    assert lab.stored == [*range(1, count + 1)]


def test_who_finds_the_shards_locked_is_told_for_which_query(kept_lab):
    writers, root = kept_lab.writers, kept_lab.root
    lab = SinkLab(root, "q1", queryname="alerts", checkpointlocation="/c")
    lab.writers = writers
    lab.run(0, [1])
    said = r"query q1 \(checkpoint '/c', query name 'alerts'\), which releases them 3 s after"
    with pytest.raises(ShardLockedError, match=said):
        Stream.open(root, "s")


def test_rows_of_a_batch_are_tailed_in_the_order_of_time(tmp_path):
    lab = SinkLab(tmp_path / "root", shards="1")
    lab.commit(0, lab.task(0, [1, 4, 7], [9]), lab.task(0, [8, 2, 3]))
    with StreamReader.open(lab.root, "s") as reader:
        tailed = [time for one in reader.tail(0, 0, 7) for time in one["primary"].to_pylist()]
        assert (tailed, reader.stats().late_arrivals) == ([1, 2, 3, 4, 7, 8, 9], 0)
