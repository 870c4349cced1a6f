"""Goal: whatever an operator's commands do at once, each record is there once.

Method: before each step of one call the other runs whole, in the same process, whose locks refuse
each other as those of two do. A reset makes the topic bring all its records again: then no row of
them may be in force. The steps of both:

    retry    list the shards, open the partition's own, make the retry shard, close, list, open
             both, list again, store, commit, clear, close
    reset    archive: lock the stream, list the shards, lock them, replace
    worker   list the shards, open them, list again
"""

from contextlib import suppress
from threading import Event, Thread

import pytest

from connectors.group import partition_shards
from storage_core import Stream
from storage_core.catalog import archived_shards as archiving
from tests.unit.connectors.kept_letters import OFFSETS, KeptLetters, Step, before, refusal_of
from tests.waiting import WAIT_MAX_S

RETRY_STEPS = {
    "list the shards": Step(partition_shards, "describe_stream"),
    "open its own shard": Step(Stream, "open"),
    "make the retry shard": Step(Stream, "add_shards"),
    "list again": Step(partition_shards, "describe_stream", 2),
    "open both": Step(Stream, "open", 2),
    "see that these are all": Step(partition_shards, "describe_stream", 3),
    "store": Step(Stream, "append_batch"),
    "commit": Step(Stream, "commit"),
    "clear": Step(Stream, "clear_dead_letters"),
}
RESET_STEPS = {
    "begin": Step(Stream, "archive_shards"),
    "lock the stream": Step(archiving, "locked"),
}
OPEN_STEPS = {
    "list the shards": Step(partition_shards, "describe_stream"),
    "open them": Step(Stream, "open"),
    "see that these are all": Step(partition_shards, "describe_stream", 2),
}
LOCKED = ("", "ShardLockedError", "ForeignDataError")


@pytest.fixture
def letters(tmp_path):
    return KeptLetters(tmp_path)


def expect_told(*outcomes):
    """Expect each call done, or refused in one line that says why."""
    for outcome in outcomes:
        assert outcome.partition(":")[0] in LOCKED, outcome
        assert len(outcome.splitlines()) <= 1


@pytest.mark.parametrize("step", RETRY_STEPS)
def test_reset_before_a_step_of_the_first_retry_leaves_no_row_that_comes_again(letters, step):
    with before(RETRY_STEPS[step], letters.resets) as outcomes:
        retried = refusal_of(letters.retries)
    assert len(outcomes) == 1
    expect_told(retried, *outcomes)
    letters.expect_each_once()


@pytest.mark.parametrize("step", RESET_STEPS)
def test_first_retry_before_a_step_of_a_reset_leaves_no_row_that_comes_again(letters, step):
    with before(RESET_STEPS[step], letters.retries) as outcomes:
        reset = refusal_of(letters.resets)
    assert len(outcomes) == 1
    expect_told(reset, *outcomes)
    letters.expect_each_once()


def test_retry_that_has_the_partition_and_waits_for_the_stream_has_the_reset_refused(letters):
    makes_shard = Event()
    retry = Thread(target=letters.retries)

    def begin_retry():
        retry.start()
        assert makes_shard.wait(WAIT_MAX_S)

    under_lock = Step(archiving, "clear_away")
    with before(Step(Stream, "add_shards"), makes_shard.set), before(under_lock, begin_retry):
        reset = refusal_of(letters.resets)
    retry.join()
    assert reset.startswith("ShardLockedError")
    assert len(letters.rows) == len(OFFSETS)
    letters.expect_each_once()


def dying(letters):
    """A retry that ends before it clears what it has stored."""

    def die(*_, **__):
        raise KeyboardInterrupt

    def retries_in_part():
        with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(Stream, "clear_dead_letters", die)
            letters.retries()
        assert len(letters.rows) == len(letters.waiting), "it was to die with both"

    return retries_in_part


@pytest.mark.parametrize("call", ["opens", "discards", "retries"])
@pytest.mark.parametrize("step", ["list the shards", "open them"])
def test_retry_that_died_while_others_opened_the_partition_is_finished(letters, step, call):
    with before(OPEN_STEPS[step], dying(letters)) as outcomes:
        done = refusal_of(getattr(letters, call))
    assert (outcomes, done) == ([""], "")
    letters.expect_each_once()
    assert letters.waiting == []


@pytest.mark.parametrize("step", OPEN_STEPS)
def test_worker_that_opens_the_partition_beside_the_first_retry_has_all_of_it(letters, step):
    with before(OPEN_STEPS[step], letters.retries) as outcomes:
        opened = refusal_of(letters.opens)
    expect_told(opened, *outcomes)
    letters.expect_each_once()
