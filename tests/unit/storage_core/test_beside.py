"""Things done beside each other: each once, and all of them though no thread can be had."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from storage_core.ground.beside import beside_each_other
from tests.unit.storage_core.disks import STALL_MAX_S

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


def no_thread(_work: object) -> bool:
    return False


def test_answers_come_in_the_order_of_the_things():
    assert beside_each_other(str, range(100), 4) == [str(number) for number in range(100)]


@pytest.mark.parametrize("things", [[], [5]])
def test_caller_does_one_thing_without_threads(things):
    idents = beside_each_other(lambda _: threading.get_ident(), things, 4)
    assert set(idents) <= {threading.get_ident()}


def test_as_many_as_asked_are_done_at_once():
    meeting = threading.Barrier(3)
    assert len(set(beside_each_other(lambda _: meeting.wait(STALL_MAX_S), range(9), 3))) == 3


def test_no_more_than_asked_are_done_at_once():
    idents = beside_each_other(lambda _: threading.get_ident(), range(50), 2)
    assert len(set(idents)) <= 2


def test_caller_does_all_where_no_thread_can_be_had():
    caller = threading.get_ident()
    assert (
        beside_each_other(lambda _: threading.get_ident(), range(3), 4, no_thread) == [caller] * 3
    )


def test_first_failure_in_order_is_raised_once_nothing_is_under_way():
    meeting, ended = threading.Barrier(2), []

    def fail(number: int) -> None:
        meeting.wait(STALL_MAX_S)
        ended.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        beside_each_other(fail, range(2), 2)
    assert sorted(ended) == [0, 1]


def test_nothing_is_begun_behind_a_failure():
    begun = []

    def fail(number: int) -> None:
        begun.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        beside_each_other(fail, range(5), 4, no_thread)
    assert begun == [0]


def test_thread_that_comes_late_begins_nothing_behind_a_failure():
    begun, late = [], []

    def fail(number: int) -> None:
        begun.append(number)
        raise ValueError(number)

    def come_late(work: Callable[[], None]) -> bool:
        late.append(work)
        return True

    with pytest.raises(ValueError, match="0"):
        beside_each_other(fail, range(5), 2, come_late)
    late[0]()
    assert begun == [0]


def test_interruption_goes_before_an_error():
    meeting, caller = threading.Barrier(2), threading.get_ident()

    def fail(_: int) -> None:
        meeting.wait(STALL_MAX_S)
        raise KeyboardInterrupt if threading.get_ident() == caller else ValueError

    with pytest.raises(KeyboardInterrupt):
        beside_each_other(fail, range(2), 2)


def test_threads_are_gone_afterwards():
    before = set(threading.enumerate())
    beside_each_other(str, range(20), 4)
    for thread in set(threading.enumerate()) - before:
        thread.join(STALL_MAX_S)
    assert set(threading.enumerate()) <= before


def test_stream_goes_on_in_a_thread_that_outlives_the_main_one(root):
    command = [sys.executable, "-c", AT_THE_END, os.fspath(root)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (told.stdout.strip(), told.stderr) == ("{0: 1, 1: 1} 2", "")
