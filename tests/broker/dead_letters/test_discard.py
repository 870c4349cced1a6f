"""Goal: discarded dead letters are gone for good and counted, others stay, and nobody is disturbed.

Method: a worker keeps records with keys that are no ids; `shardlog dlq discard` chooses among them,
beside the worker, with the partition paused, and killed on the way.
"""

import os
from collections.abc import Callable
from typing import Any

from connectors.cli.exit_codes import EXIT_UNAVAILABLE, EXIT_USAGE
from connectors.group import Pauses
from connectors.group.operations import pause, resume
from connectors.kafka import Partition
from storage_core import Stream, StreamReader, StreamStats
from tests.broker.support.dlq_process import DIED, dlq
from tests.broker.support.lab import CLOCK, Lab, Topic, WorkerProcess
from tests.waiting import WAIT_MAX_S, await_that

# Two batches of the command.
MANY = 700
BASE_MS = CLOCK.now_ns() // 10**6 - 10_000


def stats(lab: Lab, topic: Topic) -> StreamStats:
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        return reader.stats(0)


def keeping(lab: Lab, count: int) -> tuple[Topic, WorkerProcess]:
    """Return a topic of records that cannot be rows, and the worker that keeps them."""
    topic = lab.topic(partitions=1)
    with lab.producer() as producer:
        for number in range(count):
            producer.send(topic.name, b"user-%d" % number, b"v", BASE_MS + number, None, 0)
    worker = lab.worker(topic, dead_letters_only_max=0)
    await_that(
        lambda: bool(lab.committed(topic)) and stats(lab, topic).dead_letters_waiting == count,
        "dead letters",
    )
    return topic, worker


def test_paused_partition_lets_chosen_ones_be_discarded_and_goes_on(lab: Lab) -> None:
    topic, worker = keeping(lab, 30)
    code, _, err = dlq("discard", lab.root, topic.name, "--all", "--execute")
    assert code == EXIT_UNAVAILABLE
    assert f"shardlog group pause {lab.root} {topic.name} --partition 0" in err
    pause(lab.root, topic.name, [0], wait_s=WAIT_MAX_S)
    code, out, err = dlq("discard", lab.root, topic.name, "--offsets", "5..9", "--execute")
    assert (code, out, err) == (0, "partition 0: 5 dead letters discarded\n", "")
    until = str(BASE_MS + 4)
    code, out, _ = dlq(
        "discard", lab.root, topic.name, "--until", until, "--reason", "key", "--execute"
    )
    assert out == "partition 0: 5 dead letters discarded\n"
    resume(lab.root, topic.name, [0])
    assert Pauses(lab.root).of(Partition(topic.name, 0)) is None
    lab.produce(topic, 10)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    counted = stats(lab, topic)
    assert counted.dead_letters_discarded == 10
    assert counted.dead_letters_waiting == 20
    assert counted.dead_letters_forwarded == counted.dead_letters_dropped == 0


def test_killed_discard_leaves_the_rest_and_the_next_one_goes_on(lab: Lab) -> None:
    topic, worker = keeping(lab, MANY)
    worker.stop()
    code, _, _ = dlq(
        "discard", lab.root, topic.name, "--all", "--execute", first=die_at_the_second_batch
    )
    assert code == DIED
    left = stats(lab, topic)
    assert 0 < left.dead_letters_waiting < MANY
    code, _, err = dlq("discard", lab.root, topic.name, "--all", "--execute")
    assert (code, err) == (0, "")
    assert stats(lab, topic).dead_letters_discarded == MANY


def test_pause_of_the_command_frees_the_shard_and_the_worker_goes_on(lab: Lab) -> None:
    topic, worker = keeping(lab, 30)
    code, out, err = dlq("discard", lab.root, topic.name, "--all", "--pause", "--execute")
    assert (code, out, err) == (0, "partition 0: 30 dead letters discarded\n", "")
    assert Pauses(lab.root).read() == []
    worker.await_event("resumed")
    lab.produce(topic, 10)
    lab.await_no_lag(topic)
    pause(lab.root, topic.name, [0])
    code, _, err = dlq("discard", lab.root, topic.name, "--all", "--pause", "--execute")
    assert (code, err) == (0, "")
    assert Pauses(lab.root).of(Partition(topic.name, 0)) is not None
    assert worker.stop() == 0


def test_worker_goes_on_where_a_command_was_killed_over_its_pause(lab: Lab) -> None:
    topic, worker = keeping(lab, MANY)
    options = lab.root, topic.name, "--all", "--pause", "--execute"
    code, _, _ = dlq("discard", *options, first=die_at_the_second_batch)
    assert code == DIED
    worker.await_event("resumed")
    lab.produce(topic, 10)
    lab.await_no_lag(topic)
    assert Pauses(lab.root).read() == []
    code, _, err = dlq("discard", *options)
    assert (code, err) == (0, "")
    assert stats(lab, topic).dead_letters_discarded == MANY
    assert worker.stop() == 0


def test_wrong_filters_are_refused_in_a_line_and_change_nothing(lab: Lab) -> None:
    topic, worker = keeping(lab, 3)
    worker.stop()
    for options in (
        ("--execute",),
        ("--offsets", "9..1"),
        ("--offsets", "x"),
        ("--reason", "bad"),
        ("--since", "yesterday"),
        ("--partition", "7"),
        ("--partition", "7", "--execute"),
    ):
        code, _, err = dlq("discard", lab.root, topic.name, *options)
        assert (code, len(err.splitlines())) == (EXIT_USAGE, 1), (options, err)
    assert stats(lab, topic).dead_letters_waiting == 3


def die_at_the_second_batch() -> None:
    usual: Callable[..., int] = Stream.clear_dead_letters
    calls = 0

    def call(*arguments: Any, **named: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            os._exit(DIED)
        return usual(*arguments, **named)

    Stream.clear_dead_letters = call
