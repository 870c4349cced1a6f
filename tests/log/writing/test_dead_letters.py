"""Dead letters: kept raw beside the rows, durable with them, shown once committed."""

import shutil

import pytest

from storage_core import AppendReport, InvalidRequestError, LostRangeError
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.on_disk import ADDRESS_MAX
from tests.log.topics import TopicCopy
from tests.log.workbench import batch_of


def dead_letters(copy: TopicCopy, shard: int = 3) -> dict[int, bytes]:
    """Return what a writer shows, once a reader in another process has shown the same."""
    letters = list(copy.stream.dead_letters(shard))
    with copy.read_beside() as reader:
        assert list(reader.dead_letters(shard)) == letters
    return dict(letters)


def test_dead_letters_are_kept_as_they_are_by_address(filled):
    letters = {105: b"\x00raw", 101: b"", 103: b"x" * 1000}
    report = filled.append(3, [100, 102, 104], letters)
    filled.stream.commit()
    assert report == AppendReport(appended=3, dead_letters=3)
    assert list(filled.stream.dead_letters(3)) == sorted(letters.items())
    assert dead_letters(filled) == letters
    assert filled.addresses(3) == [100, 102, 104]


def test_dead_letters_end_before_the_address_asked_for(filled):
    filled.append(3, [100, 102], {101: b"first", 103: b"second"})
    filled.stream.commit()
    with filled.read_beside() as reader:
        for reads in (filled.stream, reader):
            assert list(reads.dead_letters(3, end=103)) == [(101, b"first")]
            assert list(reads.dead_letters(3, start=103, end=103)) == []


def test_dead_letter_moves_the_tail_like_a_row(filled):
    filled.append(3, [100], {107: b"raw"})
    assert filled.stream.commit() == {3: 108}
    filled.append(3, [], {110: b"raw"})
    assert filled.stream.commit() == {3: 111}
    filled.append(3, [111])
    filled.stream.commit()
    assert filled.addresses(3) == [100, 111]
    assert filled.stream.verify().is_clean


def test_dead_letters_may_come_first(filled):
    filled.append(3, [], {100: b"raw", 101: b"raw"})
    filled.append(3, [102])
    filled.stream.commit()
    assert (filled.addresses(3), list(dead_letters(filled))) == ([102], [100, 101])


def test_dead_letter_is_shown_once_it_is_committed(filled):
    filled.append(3, [], {100: b"raw"})
    with filled.read_beside() as reader:
        assert list(reader.dead_letters(3)) == []
        assert list(filled.stream.dead_letters(3)) == []
        filled.stream.commit()
        assert [*reader.dead_letters(3), *filled.stream.dead_letters(3)] == 2 * [(100, b"raw")]


def test_reader_shows_the_dead_letters_of_a_range(filled):
    filled.append(3, [100], {101: b"a", 103: b"b", 105: b"c"})
    filled.stream.commit()
    with filled.read_beside() as reader:
        assert [address for address, _ in reader.dead_letters(3, 102)] == [103, 105]
        assert [address for address, _ in reader.dead_letters(3, 101, 105)] == [101, 103]
        assert list(reader.dead_letters(3, 106, 10**6)) == []


def test_dead_letter_that_was_there_is_skipped_and_counted(filled):
    filled.append(3, [100], {101: b"first"})
    report = filled.append(3, [100, 102], {101: b"second", 103: b"raw"})
    filled.stream.commit()
    assert report == AppendReport(appended=1, duplicates=2, dead_letters=1)
    assert dead_letters(filled) == {101: b"first", 103: b"raw"}


def test_row_in_the_place_of_a_dead_letter_counts_as_there(filled):
    filled.append(3, [], {100: b"raw"})
    assert filled.append(3, [100, 101]) == AppendReport(appended=1, duplicates=1)


def test_dead_letter_in_the_place_of_a_row_counts_as_there(filled):
    filled.append(3, [100])
    assert filled.append(3, [], {100: b"raw"}) == AppendReport(duplicates=1)


def test_dead_letters_survive_a_reopen(filled):
    filled.append(3, [100], {101: b"raw"}, {"next": 105})
    filled.open(3)
    assert dead_letters(filled) == {101: b"raw"}
    assert filled.stream.commit() == {3: 105}


def test_dead_letters_are_counted_for_good(filled):
    filled.append(3, [100], {101: b"raw", 102: b"raw"})
    filled.stream.commit()
    filled.open(3)
    with filled.read_beside() as reader:
        for stats in (filled.stream.stats(), reader.stats()):
            assert (stats.dead_letters, stats.records) == (2, 1)


def test_cleared_dead_letters_are_gone_for_writer_and_reader_and_after_a_reopen(filled):
    filled.append(3, [100, 104], {101: b"a", 102: b"b", 103: b"c"})
    filled.stream.commit()
    assert filled.stream.clear_dead_letters(3, [103, 101]) == 2
    assert dead_letters(filled) == {102: b"b"}
    filled.open(3)
    assert dead_letters(filled) == {102: b"b"}
    assert filled.addresses(3) == [100, 104]
    assert filled.stream.verify().is_clean


def test_cleared_dead_letters_are_counted_once_and_those_written_stay_counted(filled):
    filled.append(3, [100], {101: b"a", 102: b"b"})
    filled.stream.commit()
    cleared = [
        filled.stream.clear_dead_letters(3, addresses)
        for addresses in ([101, 101], [101], [], [100])
    ]
    assert cleared == [1, 0, 0, 0]
    filled.open(3)
    stats = filled.stream.stats(3)
    assert (stats.dead_letters, stats.dead_letters_cleared) == (2, 1)


def test_waiting_forwarded_and_dropped_dead_letters_are_told_apart(filled):
    filled.append(3, [], dict.fromkeys(range(100, 110), b"a"))
    filled.stream.commit()
    filled.stream.clear_dead_letters(3, [100, 101, 102])
    filled.stream.clear_dead_letters(3, [102, 103, 104], dropped=True)
    filled.open(3)
    with filled.read_beside() as reader:
        for stats in (filled.stream.stats(), reader.stats(3)):
            waiting, gone = stats.dead_letters_waiting, stats.dead_letters_forwarded
            assert (waiting, gone, stats.dead_letters_dropped) == (5, 3, 2)
    assert filled.stream.verify().is_clean


def test_clearing_moves_nothing_else(filled):
    filled.append(3, [100], {101: b"a"}, {"next": 105})
    before = filled.stream.commit()
    filled.stream.clear_dead_letters(3, [101])
    assert filled.stream.commit() == before
    assert filled.stream.source(3) == {"next": 105}


@pytest.mark.parametrize("addresses", [[101], [-1], [True], ["100"], [2**63], 101, None])
def test_what_is_no_committed_address_is_not_cleared(filled, addresses):
    filled.append(3, [], {100: b"a"})
    filled.stream.commit()
    filled.append(3, [], {101: b"a"})
    with pytest.raises(InvalidRequestError, match="dead letter"):
        filled.stream.clear_dead_letters(3, addresses)
    filled.stream.commit()
    assert list(dead_letters(filled)) == [100, 101]


@pytest.mark.parametrize("crash_at", range(1, 4))
def test_dead_letters_cleared_as_the_disk_dies_are_all_there_or_all_gone(root, crash_at):
    disk = FaultyDisk()
    copy = TopicCopy(root, disk.environment(ManualClock()))
    copy.add({3: 100})
    copy.open(3)
    copy.append(3, [100, 103], {101: b"raw", 102: b"raw"}, {"next": 104})
    copy.stream.commit()
    disk.crash_at = disk.calls + crash_at
    with pytest.raises(SimulatedCrash):
        clear_and_append(copy)
    copy.release()
    disk.bury()
    disk.crash_at = None
    copy.open(3)
    assert list(dead_letters(copy)) in ([], [101, 102])
    assert copy.addresses(3)[:2] == [100, 103]
    assert copy.stream.verify().is_clean
    copy.release()


def clear_and_append(copy: TopicCopy) -> None:
    """Clear until the disk dies."""
    copy.stream.clear_dead_letters(3, [101, 102])
    copy.append(3, [104], source={"next": 105})
    copy.stream.commit()


@pytest.mark.parametrize("crash_at", range(1, 5))
def test_dead_letters_rows_and_source_are_there_together_or_not_at_all(root, crash_at):
    disk = FaultyDisk()
    copy = TopicCopy(root, disk.environment(ManualClock()))
    copy.add({3: 100})
    copy.open(3)
    copy.append(3, [100], {101: b"raw"}, {"next": 102})
    copy.stream.commit()
    disk.crash_at = disk.calls + crash_at
    with pytest.raises(SimulatedCrash):
        append_and_commit(copy)
    copy.release()
    disk.bury()
    disk.crash_at = None
    copy.open(3)
    is_in = copy.stream.source(3) == {"next": 104}
    assert copy.stream.commit() == {3: 104 if is_in else 102}
    assert copy.addresses(3) == ([100, 102] if is_in else [100])
    assert list(dead_letters(copy)) == ([101, 103] if is_in else [101])
    copy.release()


def append_and_commit(copy: TopicCopy) -> None:
    """Append until the disk dies."""
    copy.append(3, [102], {103: b"raw"}, {"next": 104})
    copy.stream.commit()
    copy.append(3, [], source={"next": 104})


@pytest.mark.parametrize(
    "dead",
    [
        {-1: b""},
        {ADDRESS_MAX: b""},
        {"101": b""},
        {True: b""},
        {101.0: b""},
        {101: "raw"},
        {101: None},
        {101: bytearray(b"raw")},
        {104: b"raw"},
        {101: b"raw", 100: b"raw"},
        [(101, b"raw")],
        5,
    ],
)
def test_dead_letters_that_do_not_fit_are_refused_and_nothing_is_taken(filled, dead):
    with pytest.raises(InvalidRequestError, match=r"dead letter"):
        filled.append(3, [100, 104], dead)
    assert filled.stream.commit() == {3: 100}


def test_dead_letter_below_the_birth_is_refused(filled):
    with pytest.raises(InvalidRequestError, match="address 99 lies below 100"):
        filled.append(3, [100], {99: b"raw"})
    assert filled.stream.commit() == {3: 100}


def test_dead_letter_in_a_lost_range_is_refused(filled):
    filled.append(3, [100, 101])
    filled.stream.commit()
    filled.stream.close()
    lose_store(filled)
    filled.open(3)
    with pytest.raises(LostRangeError, match=r"\[100, 102\)"):
        filled.append(3, [], {101: b"raw"})
    filled.append(3, [], {102: b"raw"})


def lose_store(copy: TopicCopy) -> None:
    """Remove the store of shard 3, which its marker remembers."""
    shutil.rmtree(copy.directory / "shard-0003/db")


def test_dead_letters_beside_rows_without_addresses_are_refused(bench):
    with pytest.raises(InvalidRequestError, match="the rows beside them need theirs"):
        bench.stream.append_batch(batch_of([1]), shard=0, dead_letters={5: b"raw"})


def test_dead_letters_need_a_shard_where_there_are_several(make_bench):
    bench = make_bench(shards=2)
    with pytest.raises(InvalidRequestError, match="belong to one shard"):
        bench.stream.append_batch(batch_of([]), dead_letters={5: b"raw"})


def test_plain_stream_of_one_shard_keeps_dead_letters_too(bench):
    bench.append([1], addresses=[5])
    bench.stream.append_batch(batch_of([]), dead_letters={7: b"raw"})
    assert bench.commit() == {0: 8}
    assert list(bench.stream.dead_letters(0)) == [(7, b"raw")]


@pytest.mark.parametrize("shard", [4, "3", None])
def test_dead_letters_of_no_shard_are_refused(filled, shard):
    with filled.read_beside() as reader:
        for reads in (filled.stream, reader):
            with pytest.raises(InvalidRequestError, match="shard"):
                reads.dead_letters(shard)
