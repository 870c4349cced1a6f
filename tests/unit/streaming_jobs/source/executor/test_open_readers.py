"""Readers are shared by tasks of one process, few at a time, and not for ever."""

from dataclasses import replace

import pytest

from storage_core import ClosedError, LostRangeError
from storage_core.testing import ManualClock
from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.source.executor.open_readers import OpenReaders
from tests.unit.forks import in_fork
from tests.unit.streaming_jobs.source.source_lab import NAME, SourceLab


def place_of(lab):
    """Return the place of the stream that a lab has made."""
    from storage_core import StreamReader, root_id  # noqa: PLC0415 - only here

    with StreamReader.open(lab.root, lab.name) as reader:
        incarnation = reader.position().incarnation
    return StreamLocation(str(lab.root), lab.name, root_id(lab.root), incarnation)


@pytest.fixture
def place(lab):
    lab.create(shards=1)
    lab.append(3)
    return place_of(lab)


def test_tasks_share_a_reader(place):
    readers = OpenReaders()
    with readers.of(place, 0) as first:
        pass
    with readers.of(place, 0) as second:
        assert second is first


def test_reader_that_is_lent_is_not_lent_again(place):
    readers = OpenReaders()
    with readers.of(place, 0) as first, readers.of(place, 0) as second:
        assert second is not first
    assert len(readers) == 1
    with pytest.raises(ClosedError):
        first.committed()


def test_reader_that_was_idle_for_long_is_closed(place, tmp_path):
    clock = ManualClock()
    readers = OpenReaders(clock)
    with readers.of(place, 0) as first:
        pass
    clock.advance(61)
    other = SourceLab(tmp_path / "other")
    other.create(shards=1)
    with readers.of(place_of(other), 0):
        assert len(readers) == 0
    with pytest.raises(ClosedError):
        first.committed()
    other.close()


def test_no_more_stay_open_than_the_bound(place, tmp_path):
    readers = OpenReaders(most=1, shards=1)
    other = SourceLab(tmp_path / "other")
    other.create(shards=1)
    with readers.of(place, 0) as first, readers.of(place_of(other), 0) as second:
        assert first.committed() != second.committed()
    assert len(readers) == 1
    with pytest.raises(ClosedError):
        second.committed()
    other.close()


def test_many_readers_stay_open_while_few_shards_are_read_through_them(tmp_path):
    readers = OpenReaders(most=2, shards=5)
    for number in range(6):
        lab = SourceLab(tmp_path / "root", f"s{number}")
        lab.create(shards=2)
        lab.close()
        for shard in (0, 1) if number == 0 else (0,):
            with readers.of(place_of(lab), shard):
                pass
    # The oldest went: two of its shards were read.
    assert len(readers) == 5
    with readers.of(place_of(SourceLab(tmp_path / "root", "s0")), 0):
        assert len(readers) == 5


def test_shard_added_later_is_found(lab):
    lab.create_topic({0: 0})
    readers = OpenReaders()
    with readers.of(place_of(lab), 0):
        pass
    lab.add_shards({1: 0})
    with readers.of(place_of(lab), 1) as reader:
        assert sorted(reader.committed()) == [0, 1]


def test_reader_that_met_damage_is_not_used_again(place):
    readers = OpenReaders()
    error = LostRangeError("gone")
    with pytest.raises(LostRangeError), readers.of(place, 0):
        raise error
    assert len(readers) == 0


def test_stream_made_anew_has_a_reader_of_its_own(lab, place, tmp_path):
    readers = OpenReaders()
    with readers.of(place, 0) as old:
        pass
    lab.close()
    (lab.root / NAME).rename(tmp_path / "away")
    lab.create(shards=1)
    anew = place_of(lab)
    assert replace(anew, incarnation=place.incarnation) == place
    with readers.of(anew, 0) as reader:
        assert reader is not old


def test_fork_has_readers_of_its_own(place):
    def read() -> tuple[int, ...]:
        with readers.of(place, 0) as reader:
            return tuple(reader.refresh().values())

    readers = OpenReaders()
    with readers.of(place, 0) as first:
        first.refresh()
        # Whoever has the lock is not in the fork.
        with readers._lock:
            assert in_fork(read) == (3,)
    with readers.of(place, 0) as second:
        assert second is first


def test_fork_that_leaves_a_lease_of_its_parent_changes_nothing(place):
    readers = OpenReaders(most=0, shards=0)
    lease = readers.of(place, 0)
    reader = lease.__enter__()
    error = LostRangeError("gone")
    assert in_fork(lambda: lease.__exit__(LostRangeError, error, None)) is False
    assert reader.refresh() == {0: 3}
    lease.__exit__(None, None, None)
    assert len(readers) == 0
