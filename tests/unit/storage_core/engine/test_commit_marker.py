"""The marker: whatever is torn or damaged, the newest whole slot counts or nobody goes on."""

import errno
import os
from collections.abc import Callable
from itertools import pairwise

import pytest

from storage_core import ClosedError, CorruptionError
from storage_core.engine.commit_marker import MarkerFile, MarkerReader, create_marker, open_marker
from storage_core.engine.open_files import names_open_now
from storage_core.testing import ManualClock
from tests.log.on_disk import flip_bit
from tests.log.writing.interruptions import interrupted_everywhere

LINEAGE = b"lineage of 16 by"
SLOTS = (0, 4096)


@pytest.fixture
def path(root):
    create_marker(root / "marker", 0, LINEAGE)
    return root / "marker"


def opened(path) -> MarkerFile:
    """Open a marker of which a slot is whole."""
    marker, _ = open_marker(path)
    assert marker is not None
    return marker


def publish(path, *ends: int) -> None:
    marker = opened(path)
    for end in ends:
        marker.publish(end)
    marker.close()


def test_publishing_writes_the_slots_in_turn(path):
    images = [path.read_bytes()]
    for end in (5, 6, 7):
        publish(path, end)
        images.append(path.read_bytes())
    changed = [
        [slot for slot in SLOTS if a[slot : slot + 60] != b[slot : slot + 60]]
        for a, b in pairwise(images)
    ]
    assert changed == [[SLOTS[0]], [SLOTS[1]], [SLOTS[0]]]


@pytest.fixture
def system(monkeypatch):
    """What the marker asks of the system, in order; the calls happen."""
    calls: list[str] = []

    def listening(name: str) -> None:
        call = getattr(os, name)

        def listen(*arguments: object) -> object:
            calls.append(name)
            return call(*arguments)

        monkeypatch.setattr(os, name, listen)

    for name in ("pwrite", "write", "fsync", "fdatasync"):
        listening(name)
    return calls


def test_each_slot_is_made_durable_before_anything_else_is_written(path, system):
    marker = opened(path)
    marker.publish(5)
    assert system == ["pwrite", "fdatasync"]
    marker.write_both(marker.state)
    marker.close()
    assert system == ["pwrite", "fdatasync"] * 3


def test_new_marker_is_made_durable(root, system):
    create_marker(root / "another", 0, LINEAGE)
    assert system == ["write", "fsync"]


def test_slot_that_cannot_be_made_durable_is_not_told(path, monkeypatch):
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "no luck")

    marker = opened(path)
    before = marker.state
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="no luck"):
        marker.publish(5)
    assert marker.state == before
    marker.close()


@pytest.mark.parametrize("torn", SLOTS)
def test_opener_goes_on_from_the_whole_slot(path, torn):
    publish(path, 5, 6)
    flip_bit(path, torn + 20)
    marker, valid = open_marker(path)
    assert marker is not None
    assert (valid, marker.state.committed) == (1, 6 if torn == SLOTS[0] else 5)
    marker.close()


def test_writing_both_mends_a_torn_slot(path):
    publish(path, 5, 6)
    flip_bit(path, SLOTS[1] + 20)
    marker = opened(path)
    marker.write_both(marker.state)
    marker.close()
    assert open_marker_count(path) == 2


def open_marker_count(path) -> int:
    marker, valid = open_marker(path)
    if marker is not None:
        marker.close()
    return valid


@pytest.mark.parametrize("size", [0, 1, 55, 4096, 4096 + 55])
def test_cut_marker_has_the_slots_that_are_left(path, size):
    path.write_bytes(path.read_bytes()[:size])
    assert open_marker_count(path) == (size >= 4096)


def open_of(path):
    """Return the descriptors of this file and of those that stood in its place."""
    return [name for name in names_open_now() if name.startswith(str(path))]


def test_marker_that_cannot_be_read_keeps_no_file_open(root):
    path = root / "marker"
    os.mkfifo(path)
    with pytest.raises(OSError, match="Illegal seek"):
        open_marker(path)
    assert not open_of(path)


@pytest.mark.parametrize("torn", SLOTS)
def test_reader_never_trusts_one_slot_alone(path, torn):
    publish(path, 5, 6)
    flip_bit(path, torn + 20)
    clock, reader = ManualClock(), MarkerReader(path, ManualClock())
    with pytest.raises(CorruptionError, match="opening the shard for writing repairs it"):
        MarkerReader(path, clock).read()
    assert 0 < clock.elapsed_s < 1
    reader.close()


def test_reader_waits_once_for_a_slot_that_stays_as_it_is(path):
    publish(path, 5, 6)
    clock = ManualClock()
    reader = MarkerReader(path, clock)
    for slot in SLOTS:
        flip_bit(path, slot + 20)
        before = clock.elapsed_s
        with pytest.raises(CorruptionError, match="damaged"):
            reader.read()
        waited = clock.elapsed_s
        assert waited > before
        with pytest.raises(CorruptionError, match="damaged"):
            reader.read()
        assert clock.elapsed_s == waited
    for slot in SLOTS:
        flip_bit(path, slot + 20)
    assert reader.read().committed == 6
    reader.close()


def test_reader_waits_for_a_slot_that_is_being_written(path):
    whole = path.read_bytes()
    flip_bit(path, SLOTS[1] + 20)
    reader = MarkerReader(path, MendingClock(lambda: path.write_bytes(whole)))
    assert reader.read().committed == 0
    reader.close()


def test_closed_reader_refuses_though_its_descriptor_is_another_files(path):
    reader = MarkerReader(path, ManualClock())
    reader.close()
    other = os.open(path, os.O_RDONLY)
    reader.close()
    with pytest.raises(ClosedError, match=r"the reader is closed.*marker"):
        reader.read()
    os.close(other)


def test_interrupted_reader_keeps_no_descriptor(path):
    def use(_: int) -> None:
        reader = MarkerReader(path, ManualClock())
        reader.read()
        path.with_suffix(".new").write_bytes(path.read_bytes())
        path.with_suffix(".new").rename(path)
        reader.read()
        reader.close()

    for _ in interrupted_everywhere(use):
        assert not open_of(path)


def test_reader_closed_while_it_waits_says_so(path):
    flip_bit(path, SLOTS[1] + 20)
    clock = MendingClock(lambda: None)
    reader = MarkerReader(path, clock)
    clock.happens = reader.close
    with pytest.raises(ClosedError, match="the reader is closed"):
        reader.read()


class MendingClock:
    """A clock during whose third pause something happens."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.happens = happens
        self._pauses = 0

    def now_ns(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0

    def sleep(self, _seconds: float) -> None:
        self._pauses += 1
        if self._pauses == 3:
            self.happens()


def test_sequence_goes_on_after_a_reopen(path):
    publish(path, 5, 6, 7)
    marker = opened(path)
    assert (marker.state.sequence, marker.state.committed) == (4, 7)
    marker.close()
