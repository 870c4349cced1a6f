"""Gaps of a source: what it no longer has is passed over, told and counted; nothing is lost."""

import shutil
from dataclasses import replace

import pytest

from storage_core import AppendReport, ClosedError, InvalidRequestError
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.on_disk import ADDRESS_MAX
from tests.log.topics import TopicCopy


@pytest.fixture
def passed(filled: TopicCopy) -> TopicCopy:
    """A row at 100, a gap to 150, a row there."""
    filled.append(3, [100])
    filled.stream.skip(3, 150, source={"next": 150, "leader_epoch": 4})
    filled.append(3, [150])
    filled.stream.commit()
    return filled


def test_passing_over_is_durable_on_return(filled):
    filled.append(3, [100])
    assert filled.stream.skip(3, 150, source={"next": 150}) is None
    filled.release()
    filled.open(3)
    assert filled.stream.committed() == {3: 150}
    assert filled.stream.source(3) == {"next": 150}
    assert filled.stream.gaps() == {3: [(101, 150)]}


def test_gap_is_told_by_writers_and_readers(passed):
    with passed.read_beside() as reader:
        assert passed.stream.gaps() == reader.gaps() == {3: [(101, 150)]}


def test_gap_is_counted_by_its_addresses(passed):
    with passed.read_beside() as reader:
        for stats in (passed.stream.stats(), reader.stats()):
            assert (stats.skipped, stats.records) == (49, 2)


def test_reads_find_nothing_in_a_gap_and_no_loss(passed):
    assert passed.addresses(3, 0) == [100, 150]
    assert passed.addresses(3, 110, 140) == []
    assert passed.stream.read(1)["address"].to_pylist() == [100, 150]
    assert passed.stream.lost_ranges() == {3: []}
    assert passed.stream.verify().is_clean


def test_source_stays_where_it_was_unless_it_is_given(passed):
    passed.stream.skip(3, 160)
    assert passed.stream.source(3) == {"next": 150, "leader_epoch": 4}


def test_shard_may_begin_with_a_gap(filled):
    filled.stream.skip(3, 120)
    assert filled.stream.committed() == {3: 120}
    assert filled.stream.gaps() == {3: [(100, 120)]}


def test_passing_over_to_the_tail_records_no_gap(passed):
    passed.stream.skip(3, 151, source={"next": 151})
    assert passed.stream.gaps() == {3: [(101, 150)]}
    assert passed.stream.source(3) == {"next": 151}


def test_passing_over_what_is_there_is_refused(passed):
    with pytest.raises(InvalidRequestError, match=r"cannot skip to 150: the shard is at 151"):
        passed.stream.skip(3, 150)


def test_row_in_a_gap_counts_as_there(passed):
    assert passed.append(3, [120, 151]) == AppendReport(appended=1, duplicates=1)


def test_gap_of_the_source_is_no_accepted_loss(filled):
    filled.append(3, [100, 101])
    filled.stream.close()
    shutil.rmtree(filled.directory / "shard-0003/db")
    filled.open(3)
    filled.stream.accept_loss(3, 100, 102)
    filled.stream.skip(3, 110)
    filled.open(3)
    assert filled.stream.gaps() == {3: [(102, 110)]}


@pytest.mark.parametrize("crash_at", range(1, 4))
def test_gap_tail_and_source_are_there_together_or_not_at_all(root, crash_at):
    disk = FaultyDisk()
    copy = TopicCopy(root, disk.environment(ManualClock()))
    copy.add({3: 100})
    copy.open(3)
    disk.crash_at = disk.calls + crash_at
    with pytest.raises(SimulatedCrash):
        copy.stream.skip(3, 150, source={"next": 150})
    copy.release()
    disk.bury()
    disk.crash_at = None
    copy.open(3)
    is_in = copy.stream.source(3) is not None
    assert copy.stream.committed() == {3: 150 if is_in else 100}
    assert copy.stream.gaps() == {3: [(100, 150)] if is_in else []}
    copy.release()


@pytest.mark.parametrize("end", [-1, ADDRESS_MAX + 1, "5", None, True, 5.0])
def test_end_that_is_no_address_is_refused(filled, end):
    with pytest.raises(InvalidRequestError, match="is not an address"):
        filled.stream.skip(3, end)


def test_source_that_does_not_fit_is_refused_and_nothing_moves(filled):
    with pytest.raises(InvalidRequestError, match="source"):
        filled.stream.skip(3, 150, source={"next": "soon"})
    assert filled.stream.committed() == {3: 100}


def test_shard_that_is_not_open_passes_nothing_over(filled):
    with pytest.raises(InvalidRequestError, match="shard 4 is not open here"):
        filled.stream.skip(4, 150)


def test_closed_stream_passes_nothing_over(filled):
    filled.stream.close()
    with pytest.raises(ClosedError):
        filled.stream.skip(3, 150)


def test_source_is_seen_by_readers(passed):
    with passed.read_beside() as reader:
        assert reader.source(3) == passed.stream.source(3) == {"next": 150, "leader_epoch": 4}


def test_counts_are_seen_by_readers(passed):
    passed.append(3, [150, 151], secondary=[1, 1])
    passed.append(3, [160], timestamp=5)
    passed.stream.commit()
    passed.stream.index.drain()
    with passed.read_beside() as reader:
        assert reader.stats() == replace(passed.stream.stats(), index_queue=0)
        assert reader.stats().duplicates == 1


def test_source_kept_is_the_one_given_at_that_moment(filled):
    source = {"next": 105}
    filled.append(3, [100], source=source)
    source["next"] = 999
    filled.stream.commit()
    assert filled.stream.source(3) == {"next": 105}
