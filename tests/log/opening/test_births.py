"""Adding shards: each is born once, at its start, whoever else is at it and wherever it stops."""

import shutil
import subprocess
import sys

import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    LostRangeError,
    Stream,
    StreamReader,
)
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.disks import BesideThread
from tests.log.on_disk import ADDRESS_MAX, SHARD_NUMBERS_MAX, document, make_shard, rewrite
from tests.log.readers import known_files
from tests.log.topics import NAME, TopicCopy

ADD_EIGHT = """
import sys
from storage_core import Stream
Stream.add_shards(sys.argv[1], sys.argv[2], {n: int(sys.argv[3]) + n for n in range(8)})
"""


def test_shard_is_empty_at_its_start(filled):
    assert filled.stream.committed() == {3: 100}
    assert filled.addresses(3) == []
    assert filled.stream.read(1).num_rows == 0
    assert filled.stream.available(1, 0, 10)[0] is None
    assert filled.stream.verify().is_clean


def test_first_row_lies_at_the_start(filled):
    filled.append(3, [100])
    assert filled.stream.commit() == {3: 101}
    assert filled.addresses(3) == [100]


def test_first_row_may_lie_above_the_start(filled):
    filled.append(3, [107])
    filled.stream.commit()
    assert filled.addresses(3) == [107]
    assert filled.stream.verify().is_clean


@pytest.mark.parametrize("addresses", [[99], [0, 100], [99, 100, 101]])
def test_row_below_the_start_is_refused_and_nothing_is_taken(filled, addresses):
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="lies below 100, the first"):
            filled.append(3, addresses)
        assert filled.stream.commit() == {3: 100}
    filled.append(3, [100])
    with pytest.raises(InvalidRequestError, match="lies below 100, the first"):
        filled.append(3, addresses)


def test_shard_that_is_there_is_left_alone_whatever_start_is_given(filled):
    lineage = filled.stream.lineage(3)
    filled.append(3, [100])
    filled.add({3: 5, 4: 7})
    assert filled.open().committed() == {3: 101, 4: 7}
    assert filled.stream.lineage(3) == lineage


def test_adding_nothing_rewrites_nothing(filled):
    before = (filled.directory / "options.json").stat().st_ino
    filled.add({})
    filled.add({3: 100})
    assert (filled.directory / "options.json").stat().st_ino == before


def test_birth_is_kept_in_the_store_and_in_the_options(filled):
    filled.stream.close()
    assert document(filled.directory / "options.json")["births"] == {"3": 100}
    assert filled.keeps_birth(3, 100)


def test_birth_and_shards_survive_changed_options(filled):
    filled.stream.alter(codec="zstd")
    filled.add({9: 4})
    filled.stream.alter(codec="lz4")
    assert filled.open().committed() == {3: 100, 9: 4}


@pytest.mark.parametrize("crash_at", range(1, 7))
def test_birth_survives_a_crash_at_any_call_of_the_first_opening(root, crash_at):
    disk = FaultyDisk()
    copy = TopicCopy(root)
    copy.add({3: 100})
    disk.crash_at = crash_at
    with pytest.raises(SimulatedCrash):
        Stream.open(root, NAME, environment=disk.environment(ManualClock()))
    disk.bury()
    assert copy.open(3).committed() == {3: 100}
    copy.append(3, [100])
    copy.stream.commit()
    assert copy.addresses(3) == [100]
    copy.release()


def test_directory_without_a_marker_left_by_a_crash_is_made_anew(copy):
    (copy.directory / "shard-0003").mkdir()
    copy.add({3: 100})
    assert copy.open(3).committed() == {3: 100}


def test_shard_left_unlisted_by_a_crash_is_made_anew(copy):
    lineage = make_shard(copy.directory / "shard-0003", 50)
    assert copy.open().committed() == {}
    copy.add({3: 100})
    assert copy.open(3).committed() == {3: 100}
    assert copy.stream.lineage(3) != lineage.hex()


def test_draft_of_the_options_left_by_a_crash_counts_for_nothing(filled):
    (filled.directory / "options.json.0123456789abcdef.draft").write_bytes(b"{")
    filled.add({4: 7})
    assert filled.open().committed() == {3: 100, 4: 7}


def test_unlisted_shard_with_data_is_never_cleared(copy):
    make_shard(copy.directory / "shard-0003", 50)
    (copy.directory / "shard-0003/db").mkdir()
    (copy.directory / "shard-0003/db/CURRENT").touch()
    with pytest.raises(CorruptionError, match=r"not listed in options\.json"):
        copy.add({3: 100})
    assert (copy.directory / "shard-0003/db").is_dir()


def test_listed_shard_whose_directory_is_gone_is_damage(filled):
    filled.stream.close()
    (filled.directory / "shard-0003").rename(filled.directory / "elsewhere")
    with pytest.raises(CorruptionError, match=r"missing .*shard 3"):
        Stream.open(filled.root, NAME)


def test_threads_adding_the_same_shards_agree(copy):
    with BesideThread(lambda: copy.add(dict.fromkeys(range(5), 10))):
        copy.add(dict.fromkeys(range(5), 20))
    assert set(copy.open().committed().values()) in ({10}, {20})


def test_processes_adding_the_same_shards_agree(copy):
    command = [sys.executable, "-c", ADD_EIGHT, str(copy.root), NAME]
    starts = ("1000", "2000")
    adding = [subprocess.Popen([*command, start]) for start in starts]
    assert [process.wait(60) for process in adding] == [0, 0]
    births = copy.open().committed()
    assert births in [{n: int(start) + n for n in range(8)} for start in starts]
    listed = document(copy.directory / "options.json")["births"]
    assert listed == {str(number): start for number, start in births.items()}


@pytest.mark.parametrize(
    "starts",
    [
        {SHARD_NUMBERS_MAX: 0},
        {-1: 0},
        {"3": 0},
        {True: 0},
        {1.0: 0},
        {3: -1},
        {3: ADDRESS_MAX},
        {3: None},
        {3: True},
        {3: "5"},
        [3],
        None,
        5,
    ],
)
def test_starts_that_do_not_fit_are_refused_and_nothing_is_made(copy, starts):
    with pytest.raises(InvalidRequestError, match=r"shard|start"):
        copy.add(starts)
    assert sorted(copy.directory.glob("shard-*")) == []


def test_last_number_and_last_start_are_taken(copy):
    copy.add({SHARD_NUMBERS_MAX - 1: ADDRESS_MAX - 1})
    assert copy.open().committed() == {SHARD_NUMBERS_MAX - 1: ADDRESS_MAX - 1}


def test_plain_stream_takes_no_more_shards(bench):
    with pytest.raises(InvalidRequestError, match="its shards are fixed when it is created"):
        Stream.add_shards(bench.root, bench.name, {7: 0})


def test_stream_that_is_not_there_takes_no_shards(copy):
    with pytest.raises(InvalidRequestError, match="no such stream"):
        Stream.add_shards(copy.root, "views", {7: 0})


@pytest.mark.parametrize(("start", "end"), [(0, None), (0, 101), (99, 102), (100, 101)])
def test_replay_from_below_the_start_begins_there(filled, start, end):
    filled.append(3, [100, 101])
    filled.stream.commit()
    expected = list(range(100, min(102, end or 102)))
    assert filled.addresses(3, start, end) == expected
    with filled.read_beside() as reader:
        batches = reader.tail(3, start, end, columns=("address",))
        assert [row for batch in batches for row in batch.column(0).to_pylist()] == expected


@pytest.mark.parametrize("end", [0, 50, 100])
def test_replay_wholly_below_the_start_is_empty(filled, end):
    filled.append(3, [100])
    filled.stream.commit()
    assert filled.addresses(3, 0, end) == []


def test_replay_between_birth_and_log_start_is_lost(filled):
    filled.append(3, [100])
    filled.append(3, [110, 111])
    filled.stream.close()
    filled.start_at(3, 110)
    filled.stream = Stream.open(filled.root, NAME)
    for start in (0, 100, 109):
        with pytest.raises(LostRangeError, match=rf"\[{max(start, 100)}, 110\)"):
            filled.addresses(3, start)
    assert filled.addresses(3, 110) == [110, 111]


def test_lost_store_is_told_from_the_birth_on(filled):
    filled.append(3, [100, 101])
    filled.stream.close()
    shutil.rmtree(filled.directory / "shard-0003/db")
    filled.stream = Stream.open(filled.root, NAME)
    assert filled.stream.lost_ranges() == {3: [(100, 102)]}


def test_lost_marker_of_an_unopened_shard_is_made_at_its_birth(copy):
    copy.add({3: 100})
    (copy.directory / "shard-0003/marker").unlink()
    copy.stream = Stream.open(copy.root, NAME, give_up_marker=True)
    assert copy.stream.committed() == {3: 100}


def test_options_of_shards_born_at_0_have_no_births(bench):
    path = bench.directory / "options.json"
    assert "births" not in document(path)
    rewrite(path)
    assert bench.reopen().committed() == {0: 0}


def test_reader_opens_before_there_is_a_shard(copy):
    with StreamReader.open(copy.root, NAME) as reader:
        assert reader.refresh() == reader.committed() == {}
        assert reader.read().num_rows == 0
        assert list(reader.scan()) == []


def test_shards_added_later_appear_with_a_refresh(copy):
    with copy.read_beside() as reader:
        reader.refresh()
        copy.add({3: 100})
        assert reader.committed() == {}
        assert reader.refresh() == {3: 100}
        copy.open(3)
        copy.append(3, [100])
        copy.stream.commit()
        assert reader.refresh() == reader.committed() == {3: 101}
        assert reader.read(1)["address"].to_pylist() == [100]


def test_refresh_reads_options_only_when_they_were_replaced(copy):
    with copy.read_beside() as reader:
        reader.refresh()
        files = known_files(reader)
        reader.refresh()
        assert known_files(reader) is files
        copy.stream.alter(codec="zstd")
        reader.refresh()
        assert reader.options.codec == "zstd"


def test_refresh_without_options_is_told(copy):
    with copy.read_beside() as reader:
        (copy.directory / "options.json").unlink()
        with pytest.raises(CorruptionError, match=r"options\.json"):
            reader.refresh()


def test_shard_that_no_writer_has_opened_is_empty_to_readers(copy):
    copy.add({3: 100})
    with copy.read_beside() as reader:
        assert reader.refresh() == {3: 100}
        assert reader.read(1).num_rows == 0
        assert reader.available(1, 0, 10)[0] is None
        assert reader.latest() == reader.latest([1]) == {}
        assert list(reader.tail(3, 0)) == list(reader.scan()) == []
        assert (reader.stats().records, reader.source(3), reader.gaps()) == (0, None, {3: []})
        assert list(reader.dead_letters(3)) == []
    assert not (copy.directory / "shard-0003/db").exists()


def test_shard_whose_first_writer_died_over_its_store_is_empty_to_readers(copy):
    copy.add({3: 100})
    database = copy.directory / "shard-0003/db"
    database.mkdir()
    (database / "CURRENT").write_bytes(b"MANIFEST-000001\n")
    with copy.read_beside() as reader:
        assert reader.refresh() == {3: 100}
        assert reader.read(1).num_rows == 0


def test_reader_that_saw_the_shard_unopened_follows_its_writer(copy):
    copy.add({3: 100})
    with copy.read_beside() as reader:
        assert reader.read().num_rows == 0
        copy.open(3)
        copy.append(3, [100, 105], secondary=[4, 5])
        copy.stream.commit()
        assert reader.read()["address"].to_pylist() == [100, 105]
        assert sorted(reader.latest()) == [4, 5]


def test_store_that_is_gone_is_an_error_to_readers_once_something_was_committed(filled):
    filled.append(3, [100])
    filled.stream.close()
    shutil.rmtree(filled.directory / "shard-0003/db")
    environment = FaultyDisk().environment(ManualClock())
    with (
        StreamReader.open(filled.root, NAME, environment=environment) as reader,
        pytest.raises(CorruptionError),
    ):
        reader.read()
