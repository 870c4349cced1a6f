"""Pauses under a root: they hold until they are removed, whatever becomes of their files."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from connectors.group import (
    Outcome,
    Pause,
    Pauses,
    QuarantineNote,
    QuarantineNotes,
    RetryRequests,
    pause,
    resume,
    retry,
)
from connectors.kafka import Partition
from storage_core import InvalidRequestError, Stream, drop_stream
from tests.unit.connectors.writers import TOPIC, make_stream
from tests.waiting import await_that

A = Partition(TOPIC, 0)


def texts(outcomes: list[Outcome]) -> list[str]:
    return [outcome.text for outcome in outcomes]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"', b'{"stream": 1}', b"\xff"])
def test_pause_whose_file_cannot_be_read_holds(tmp_path, content):
    pauses = Pauses(tmp_path)
    pauses.write(Pause(TOPIC, 0, 1))
    (tmp_path / "~paused" / f"{TOPIC}~0.json").write_bytes(content)
    held = pauses.of(A)
    assert held is not None
    assert "its file cannot be read" in held.reason
    assert pauses.remove(A)


def test_without_a_worker_each_outcome_says_so_and_pausing_again_changes_nothing(tmp_path):
    make_stream(tmp_path, 2)
    (first,) = texts(pause(tmp_path, TOPIC, [1], reason="a\nreason", wait_s=0))
    assert "nobody had its shard open" in first
    (again,) = texts(pause(tmp_path, TOPIC, [1], wait_s=0))
    assert again.startswith("was paused already, since")
    assert again.endswith(": a reason")
    said = texts(resume(tmp_path, TOPIC, wait_s=0))
    assert said == ["was not paused", "resumed; no worker has opened its shard within 0 s"]


def test_resume_of_one_partition_leaves_the_rest_of_its_stream_paused(tmp_path):
    make_stream(tmp_path, 2)
    pause(tmp_path, TOPIC, wait_s=0)
    resume(tmp_path, TOPIC, [0], wait_s=0)
    assert Pauses(tmp_path).of_stream(TOPIC).keys() == {1}


def test_shard_that_is_open_is_named_with_its_process(tmp_path):
    make_stream(tmp_path, 1)
    with Stream.open(tmp_path, TOPIC, shards=[0]):
        (outcome,) = pause(tmp_path, TOPIC, wait_s=0)
        assert (outcome.is_done, "still has its shard open" in outcome.text) == (False, True)
        assert outcome.owner is not None
        (said,) = texts(resume(tmp_path, TOPIC, wait_s=0))
        assert "had its shard open before, and still has" in said


def test_stream_that_is_not_there_can_be_resumed_if_it_is_paused(tmp_path):
    make_stream(tmp_path, 1)
    pause(tmp_path, TOPIC, wait_s=0)
    drop_stream(tmp_path, TOPIC)
    assert texts(resume(tmp_path, TOPIC, wait_s=0)) == ["resumed; nothing is stored of it yet"]
    with pytest.raises(InvalidRequestError, match="no such stream"):
        resume(tmp_path, TOPIC, wait_s=0)


@pytest.mark.parametrize("operation", [pause, resume])
def test_partition_that_is_not_there_is_refused_and_nothing_changes(tmp_path, operation):
    make_stream(tmp_path, 2)
    with pytest.raises(InvalidRequestError, match="there is no partition 7"):
        operation(tmp_path, TOPIC, [0, 7], wait_s=0)
    assert Pauses(tmp_path).read() == []


def test_partition_that_nobody_holds_is_tried_without_a_note(tmp_path):
    make_stream(tmp_path, 2)
    with Stream.open(tmp_path, TOPIC, shards=[0]):
        assert texts(retry(tmp_path, TOPIC, wait_s=0)) == [
            "no worker that has quarantined it took the request within 0 s"
        ]
        with pytest.raises(InvalidRequestError, match="partition 0 is not quarantined"):
            retry(tmp_path, TOPIC, [0], wait_s=0)
    pause(tmp_path, TOPIC, wait_s=0)
    assert texts(retry(tmp_path, TOPIC, [0], wait_s=0)) == [
        "is paused; it is tried once it is resumed"
    ]
    with pytest.raises(InvalidRequestError, match="no partition is quarantined"):
        retry(tmp_path, TOPIC, wait_s=0)


def test_retry_without_a_note_is_over_once_the_shard_is_open(tmp_path):
    make_stream(tmp_path, 1)
    with ThreadPoolExecutor(1) as worker:
        opened = worker.submit(take_and_open, tmp_path)
        (outcome,) = retry(tmp_path, TOPIC, [0], wait_s=60)
        opened.result().close()
    assert (outcome.is_done, "goes on" in outcome.text) == (True, True)


def test_fault_that_was_found_before_the_retry_is_not_what_came_of_it(tmp_path):
    make_stream(tmp_path, 1)
    notes = QuarantineNotes(tmp_path)

    def note(reason, tried_ns=None):
        notes.write(QuarantineNote(TOPIC, 0, 1, "damage", reason), tried_ns)

    def take():
        await_that(lambda: RetryRequests(tmp_path).taken([A], 0) == [A], "a request")
        # What a worker notes late of a try that was over when the request came; then of its own.
        for _ in range(100):
            note("torn", tried_ns=2)
        note("torn still")

    note("torn", tried_ns=1)
    with ThreadPoolExecutor(1) as worker:
        noted = worker.submit(take)
        (outcome,) = retry(tmp_path, TOPIC, [0], wait_s=60)
        noted.result()
    assert outcome.text == "tried again; still damage: torn still"


def take_and_open(root):
    """Do what a worker does that has quarantined the partition."""
    await_that(lambda: RetryRequests(root).taken([A], 0) == [A], "a request")
    return Stream.open(root, TOPIC)
