"""Things done side by side: each once, and all of them though no thread can be had."""

import _thread
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from weakref import ref

import pytest

from storage_core.platform.threads import Threads
from tests.log.disks import STALL_MAX_S
from tests.log.writing.interruptions import interrupted_everywhere

AT_THE_END = """
import sys, threading
import pyarrow as pa
from storage_core import Stream, StreamOptions

stream = Stream.create(sys.argv[1], "s", StreamOptions(shards=2, unit="sequence"))
stream.append(1, 0, b"")
stream.append(1, 1, b"")

def go_on():
    threading.main_thread().join()
    print(stream.commit(), stream.read().num_rows)
    stream.close()

threading.Thread(target=go_on).start()
"""


@pytest.fixture
def threads():
    return Threads(4)


@pytest.fixture
def no_threads():
    """Threads of which none can be had: the caller's own is all."""
    return Threads(1)


@pytest.fixture
def helpers(monkeypatch):
    """All threads that are started to help, as ones that can be joined."""
    started: list[threading.Thread] = []

    def start(work: Callable[..., None], arguments: tuple[object, ...]) -> None:
        started.append(threading.Thread(target=work, args=arguments))
        started[-1].start()

    monkeypatch.setattr(_thread, "start_new_thread", start)
    return started


def test_answers_come_in_the_order_of_the_things(threads):
    assert threads.map(str, range(100)) == [str(number) for number in range(100)]


@pytest.mark.parametrize("things", [[], [5]])
def test_caller_does_one_thing_without_threads(threads, things):
    assert set(threads.map(lambda _: threading.get_ident(), things)) <= {threading.get_ident()}


def test_as_many_as_asked_are_done_at_once():
    meeting = threading.Barrier(3)
    assert len(set(Threads(3).map(lambda _: meeting.wait(STALL_MAX_S), range(9)))) == 3


def test_no_more_than_asked_are_done_at_once():
    assert len(set(Threads(2).map(lambda _: threading.get_ident(), range(50)))) <= 2


def test_caller_does_all_where_no_thread_can_be_had(no_threads):
    caller = threading.get_ident()
    assert no_threads.map(lambda _: threading.get_ident(), range(3)) == [caller] * 3


def test_caller_does_all_where_the_system_gives_no_thread(threads, monkeypatch):
    def refuse(*_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert threads.map(str, range(3)) == ["0", "1", "2"]
    monkeypatch.undo()
    meeting = threading.Barrier(4)
    assert len(threads.map(lambda _: meeting.wait(STALL_MAX_S), range(4))) == 4


def test_caller_goes_on_while_others_keep_all_threads_busy(threads):
    waiting, all_busy = threading.Event(), threading.Barrier(5)

    def be_busy(_: int) -> None:
        all_busy.wait(STALL_MAX_S)
        waiting.wait(STALL_MAX_S)

    other = threading.Thread(target=threads.map, args=(be_busy, range(4)))
    other.start()
    all_busy.wait(STALL_MAX_S)
    caller = threading.get_ident()
    assert threads.map(lambda _: threading.get_ident(), range(3)) == [caller] * 3
    waiting.set()
    other.join()


def test_first_failure_in_order_is_raised_once_nothing_is_under_way(threads):
    meeting, ended = threading.Barrier(2), []

    def fail(number: int) -> None:
        meeting.wait(STALL_MAX_S)
        ended.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        threads.map(fail, range(2))
    assert sorted(ended) == [0, 1]


def test_failure_in_a_thread_is_raised(threads):
    meeting, caller = threading.Barrier(2), threading.get_ident()
    failed: list[int] = []

    def fail(number: int) -> None:
        meeting.wait(STALL_MAX_S)
        if threading.get_ident() != caller:
            # Whichever it came to have: it may have begun before the caller.
            failed.append(number)
            raise ValueError(number)

    with pytest.raises(ValueError, match=r"0|1") as raised:
        threads.map(fail, range(2))
    assert raised.value.args == (failed[0],)


def test_nothing_is_begun_behind_a_failure(no_threads):
    begun = []

    def fail(number: int) -> None:
        begun.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        no_threads.map(fail, range(5))
    assert begun == [0]


def test_nothing_is_begun_behind_a_failure_in_another_thread(helpers):
    begun, meeting, caller = [], threading.Barrier(2), threading.get_ident()

    def fail(number: int) -> None:
        begun.append(number)
        meeting.wait(STALL_MAX_S)
        if threading.get_ident() != caller:
            raise ValueError(number)
        helpers[0].join(STALL_MAX_S)

    with pytest.raises(ValueError, match=r"0|1"):
        Threads(2).map(fail, range(30))
    assert sorted(begun) == [0, 1]


def test_thread_that_comes_once_the_call_is_left_does_nothing(threads, monkeypatch):
    late: list[Callable[[], None]] = []
    done: list[int] = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda work, _: late.append(work))
    threads.map(done.append, range(5))
    for work in late:
        work()
    assert (len(late), done) == (3, [0, 1, 2, 3, 4])


def test_call_that_is_interrupted_anywhere_leaves_nothing_under_way_and_all_threads(threads):
    under_way: set[int] = set()

    def do(number: int) -> None:
        under_way.add(number)
        # No signal to wait for: long enough that others are at it when the caller is cut.
        threading.Event().wait(0.002)
        under_way.discard(number)

    def call(_: int) -> None:
        under_way.clear()
        threads.map(do, range(4))

    for _ in interrupted_everywhere(call):
        assert not under_way
        assert len(threads.map(str, range(4))) == 4


def test_interruption_goes_before_an_error(threads):
    meeting, caller = threading.Barrier(2), threading.get_ident()

    def fail(_: int) -> None:
        meeting.wait(STALL_MAX_S)
        raise KeyboardInterrupt if threading.get_ident() == caller else ValueError

    with pytest.raises(KeyboardInterrupt):
        threads.map(fail, range(2))


class Held:
    """Something that is under way."""


def test_what_was_under_way_ends_with_the_failure_that_tells_of_it(threads):
    def fail(held: Held) -> None:
        raise ValueError(held)

    things = [Held(), Held(), Held()]
    left = [ref(thing) for thing in things]
    gc.disable()
    try:
        with pytest.raises(ValueError, match="Held"):
            threads.map(fail, things)
        things.clear()
        assert [one() for one in left] == [None] * 3
    finally:
        gc.enable()


def test_threads_are_gone_afterwards(threads, helpers):
    threads.map(str, range(20))
    for helper in helpers:
        helper.join(STALL_MAX_S)
    assert not any(helper.is_alive() for helper in helpers)


def test_stream_goes_on_in_a_thread_that_outlives_the_main_one(root):
    command = [sys.executable, "-c", AT_THE_END, os.fspath(root)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ran.stdout.strip(), ran.stderr) == ("{0: 1, 1: 1} 2", "")
