"""A lock between processes has one holder, and ends with it."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from storage_core import DirectoryLock, SystemClock, UnavailableError
from storage_core.testing import ManualClock
from tests.descriptors import open_files
from tests.log.writing.interruptions import interrupted_everywhere


@pytest.fixture
def replaced_before_lock(root, monkeypatch):
    """A directory that is moved away, and made anew, each so many times just before a lock."""
    path, flock = root / "shard", fcntl.flock
    path.mkdir()
    times = [0]

    def replace_and_lock(descriptor: int, operation: int) -> None:
        if times[0] and operation & fcntl.LOCK_EX:
            times[0] -= 1
            path.rename(root / f"moved-{times[0]}")
            path.mkdir()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", replace_and_lock)
    return path, times


def held(path) -> DirectoryLock:
    lock = DirectoryLock.if_free(path)
    assert lock is not None
    return lock


def is_locked(path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_second_holder_is_refused_until_the_first_lets_go(root):
    with held(root):
        assert DirectoryLock.if_free(root) is None
    held(root).release()


def test_lock_is_on_what_the_path_names_though_that_was_replaced_meanwhile(replaced_before_lock):
    path, times = replaced_before_lock
    times[0] = 2
    with held(path):
        assert is_locked(path)
    assert not is_locked(path)


def test_directory_that_is_replaced_without_end_is_told_and_costs_no_descriptor(
    replaced_before_lock,
):
    path, times = replaced_before_lock
    before = open_files(path.parent)
    times[0] = 1000
    with pytest.raises(UnavailableError, match=r"keeps replacing the directory.*shard"):
        held(path)
    assert open_files(path.parent) == before


def test_file_system_without_flock_costs_no_descriptor(root, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    before = open_files(root)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="not supported"):
        held(root)
    assert open_files(root) == before


def test_interruption_behind_the_lock_leaves_nobody_locked_out(root, monkeypatch):
    flock = fcntl.flock

    def lock_and_interrupt(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        raise KeyboardInterrupt

    before = open_files(root)
    monkeypatch.setattr(fcntl, "flock", lock_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        held(root)
    monkeypatch.undo()
    assert open_files(root) == before
    held(root).release()


def test_interruption_of_a_lock_in_use_leaves_nobody_locked_out_and_nothing_open(root):
    before = open_files(root)

    def use(_: int) -> None:
        lock = DirectoryLock.within(root, SystemClock(), 0)
        assert lock is not None
        with lock:
            pass

    for _ in interrupted_everywhere(use):
        assert not is_locked(root)
        assert open_files(root) == before


def test_lock_that_nobody_holds_any_more_is_free(root):
    held(root)
    assert not is_locked(root)


def test_wait_for_a_lock_ends_in_time(root):
    clock = ManualClock()
    with held(root):
        assert DirectoryLock.within(root, clock, 2.0) is None
    assert clock.elapsed_s == pytest.approx(2.0, abs=0.1)


class ClockOfAnother(ManualClock):
    """A clock by which another lets go of its lock while the third sleep lasts."""

    def __init__(self, lock: DirectoryLock) -> None:
        super().__init__()
        self.lock = lock
        self.sleeps = 0

    def sleep(self, seconds: float) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        super().sleep(seconds)
        self.sleeps += 1
        if self.sleeps == 3:
            self.lock.release()


def test_wait_for_a_lock_ends_once_it_is_free(root):
    clock = ClockOfAnother(held(root))
    taken = DirectoryLock.within(root, clock, 60.0)
    assert taken is not None
    assert clock.sleeps == 3
    taken.release()


def test_lock_that_is_free_is_had_without_time_to_wait(root):
    lock = DirectoryLock.within(root, SystemClock(), 0)
    assert lock is not None
    lock.release()
    lock.release()


def test_released_lock_can_be_had_though_a_forked_child_keeps_its_descriptor(root):
    lock = held(root)
    assert lock._owner is not None
    of_the_child = os.dup(lock._owner.fileno())
    lock.release()
    held(root).release()
    os.close(of_the_child)


FORKED_INSIDE = """
import os, sys
from pathlib import Path
from storage_core import DirectoryLock

path = Path(sys.argv[1])
child_waits, ours = os.pipe()
lock = DirectoryLock.if_free(path)
child = os.fork()
if not child:
    os.close(ours)
    lock.release()
    os.read(child_waits, 1)
    os._exit(0)
print(DirectoryLock.if_free(path) is None)
lock.release()
print(DirectoryLock.if_free(path) is not None)
os.close(ours)
os.waitpid(child, 0)
"""


def test_forked_child_neither_lets_go_nor_keeps_others_out(root):
    command = [sys.executable, "-c", FORKED_INSIDE, os.fspath(root)]
    ran = subprocess.run(command, capture_output=True, check=True)
    assert ran.stdout == b"True\nTrue\n"


KILLED_BESIDE_ITS_CHILD = """
import os, signal, sys
from pathlib import Path
from storage_core import DirectoryLock

lock = DirectoryLock.if_free(Path(sys.argv[1]))
forked, in_child = os.pipe()
child = os.fork()
if not child:
    os.write(in_child, b"!")
    signal.pause()
os.read(forked, 1)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_lock_ends_with_a_killed_holder_though_its_child_lives_on(root):
    command = [sys.executable, "-c", KILLED_BESIDE_ITS_CHILD, os.fspath(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        holder.wait()
        try:
            held(root).release()
        finally:
            os.kill(child, 9)
