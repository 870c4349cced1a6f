"""A pause that ends with its command, however that ends, and never one that somebody else made."""

import json
import os

import pytest

from connectors.group import Outcome, Pause, Pauses, pause, resume
from connectors.group.pause_of_command import paused_for_command
from connectors.group.pauses import PauseWatch
from connectors.kafka import Partition
from storage_core import Stream, SystemClock, UnavailableError
from tests.unit.connectors.writers import TOPIC, make_stream

A = Partition(TOPIC, 0)
SECOND_NS = 10**9


@pytest.fixture
def root(tmp_path):
    make_stream(tmp_path, 2)
    return tmp_path


def paused(root, *numbers):
    return paused_for_command(root, TOPIC, numbers or (0,), "a test", wait_s=0)


def killed_over_its_pause(root):
    """Have a command pause partition 0 and end at once."""
    child = os.fork()
    if child == 0:
        Pauses(root).hold(Pause(TOPIC, 0, 1, "for a test"))
        os._exit(9)
    os.waitpid(child, 0)


def is_paused(root):
    return Pauses(root).of(A) is not None


def test_pause_holds_while_the_command_runs_and_tells_of_it(root):
    with paused(root, 0, 1) as numbers:
        assert numbers == [0, 1]
        held = Pauses(root).of(A)
        assert held is not None
        assert (held.ends_with_command, held.reason) == (
            True,
            f"for a test, process {os.getpid()} on {os.uname().nodename}",
        )
    assert Pauses(root).read() == []


def test_interrupted_command_lets_its_partition_go_on(root):
    with pytest.raises(KeyboardInterrupt), paused(root):
        raise KeyboardInterrupt
    assert not is_paused(root)


def test_shard_that_stays_open_is_told_and_the_pause_is_taken_back(root):
    with (
        Stream.open(root, TOPIC, shards=[0]),
        pytest.raises(UnavailableError, match=f"process {os.getpid()} .*still has the shard open"),
        paused(root),
    ):
        pytest.fail("the body is to wait for its owner")
    assert not is_paused(root)


@pytest.mark.parametrize("numbers", [[0], []], ids=["the partition", "the whole stream"])
def test_what_an_operator_has_paused_stays_paused(root, numbers):
    pause(root, TOPIC, numbers, reason="mine", wait_s=0)
    with paused(root) as made:
        assert made == []
    held = Pauses(root).of(A)
    assert held is not None
    assert held.reason == "mine"


def test_operators_pause_in_the_midst_outlives_the_command(root):
    with paused(root):
        pause(root, TOPIC, [0], reason="mine", wait_s=0)
        held = Pauses(root).of(A)
        assert held is not None
        assert held.ends_with_command is False
    assert is_paused(root)


def test_resumed_in_the_midst_and_paused_again_it_is_the_operators(root):
    with paused(root):
        outcomes: list[Outcome] = resume(root, TOPIC, [0], wait_s=0)
        assert outcomes[0].is_done
        assert not is_paused(root)
        pause(root, TOPIC, [0], wait_s=0)
    assert is_paused(root)


def test_pause_that_a_killed_command_left_is_told_and_ended_by_a_worker(root):
    watch, now_ns = PauseWatch(root), SystemClock().now_ns()
    killed_over_its_pause(root)
    held = Pauses(root).of(A)
    assert held is not None
    assert "that command has ended" in held.reason
    watch.look(now_ns)
    assert watch.of(A) is not None
    watch.look(now_ns + 2 * SECOND_NS)
    assert (watch.of(A), is_paused(root)) == (None, False)


def test_worker_ends_no_pause_of_a_command_that_lives(root):
    watch, now_ns = PauseWatch(root), SystemClock().now_ns()
    with paused(root):
        for second in range(5):
            watch.look(now_ns + second * 2 * SECOND_NS)
            assert watch.of(A) is not None


def test_pause_that_a_killed_command_left_is_taken_over_by_the_next_one(root):
    killed_over_its_pause(root)
    with paused(root) as made:
        assert made == [0]
    assert not is_paused(root)


def test_pause_that_a_killed_command_left_is_resumed_or_paused_by_an_operator(root):
    killed_over_its_pause(root)
    resume(root, TOPIC, [0], wait_s=0)
    assert not is_paused(root)
    killed_over_its_pause(root)
    pause(root, TOPIC, [0], reason="mine", wait_s=0)
    watch, now_ns = PauseWatch(root), SystemClock().now_ns()
    for second in range(3):
        watch.look(now_ns + second * 2 * SECOND_NS)
    held = watch.of(A)
    assert held is not None
    assert held.reason == "mine"


def test_pause_without_the_field_lasts(root):
    pause(root, TOPIC, [0], wait_s=0)
    place = root / "~paused" / f"{TOPIC}~0.json"
    fields = json.loads(place.read_text())
    del fields["ends_with_command"]
    place.write_text(json.dumps(fields))
    held = Pauses(root).of(A)
    assert held is not None
    assert held.ends_with_command is False


def test_second_command_leaves_the_pause_of_the_first(root):
    with paused(root):
        with paused(root) as made:
            assert made == []
        assert is_paused(root)
