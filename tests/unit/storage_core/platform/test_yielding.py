"""Goal: a process rests as far as another one waits for processors, and goes on all the same.

Method: a real process, two threads of which have one processor between them. Both have the work of
some twentieths of a second and begin together, so that each waits for the other.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from storage_core.platform import yielding as giving_way
from storage_core.platform.yielding import Yielding, sleep_s, waited_s
from storage_core.testing import ManualClock

TWO_ON_ONE = """
import hashlib, os, sys, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
together, done = threading.Barrier(2), threading.Barrier(3)
data = bytes(2**22)

def hash_it():
    together.wait()
    for _ in range(50):
        hashlib.sha256(data)
    done.wait()
    # One that has ended is counted no more.
    threading.Event().wait()

print("begun", flush=True)
sys.stdin.readline()
for _ in range(2):
    threading.Thread(target=hash_it, daemon=True).start()
done.wait()
print("waited", flush=True)
sys.stdin.readline()
"""


def waits_are_counted() -> bool:
    """Tell whether the system counts; one that does not may say that nothing ever ran."""
    try:
        return int(Path("/proc/self/schedstat").read_bytes().split()[0]) > 0
    except (OSError, IndexError):
        return False


@pytest.fixture
def owner():
    """A process whose threads wait once they are told to go on."""
    process = subprocess.Popen(
        [sys.executable, "-c", TWO_ON_ONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.skipif(
    not waits_are_counted(),
    reason="this system does not say how long threads waited",
)
def test_it_rests_where_the_other_waited(owner):
    worked = iter([0.0, 0.0, 0.5, 0.5, 0.5])
    assert line_of(owner) == "begun"
    clock = ManualClock()
    way = Yielding(owner.pid, clock, lambda: next(worked))
    before = clock.monotonic_s()
    owner.stdin.write("\n")
    owner.stdin.flush()
    assert line_of(owner) == "waited"
    way.step()
    assert clock.monotonic_s() > before


def test_it_does_not_look_before_it_has_worked():
    worked = iter([0.0, 0.0, 0.009])
    clock = ManualClock()
    way = Yielding(0, clock, lambda: next(worked))
    before = clock.monotonic_s()
    way.step()
    assert clock.monotonic_s() == before


def test_looks_take_a_small_share_of_what_is_worked(monkeypatch):
    now_s, looks = 0.0, 0

    def look(_process):
        # As of an owner with a thousand threads.
        nonlocal now_s, looks
        now_s += 0.014
        looks += 1
        return 0.0

    monkeypatch.setattr(giving_way, "waited_s", look)
    way = Yielding(0, ManualClock(), lambda: now_s)
    looks = 0
    for _ in range(1000):
        now_s += 0.01
        way.step()
    assert 0 < looks * 0.014 <= 0.06 * 1000 * 0.01


def test_one_that_has_ended_waits_for_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert waited_s(process.pid) == 0.0
    worked = iter([0.0, 0.0, 1.0, 1.0, 1.0])
    clock = ManualClock()
    way = Yielding(process.pid, clock, lambda: next(worked))
    before = clock.monotonic_s()
    way.step()
    assert clock.monotonic_s() == before


@pytest.mark.parametrize(
    ("waited", "worked", "rest"),
    [
        (0.0, 1.0, 0.0),
        (0.2, 1.0, 0.4),
        # However long the other waits, a quarter of its time remains for work.
        (60.0, 1.0, 3.0),
        # Threads that waited have ended since.
        (-5.0, 1.0, 0.0),
    ],
)
def test_a_rest_is_bounded_by_what_was_worked(waited, worked, rest):
    assert sleep_s(waited, worked) == pytest.approx(rest)
