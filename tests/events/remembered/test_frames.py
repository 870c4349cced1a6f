"""Goal: what frames have is not evaluated again, and is right whatever becomes of files and rows.

Method: files are counted, damaged and deleted; the stream is sealed, expires, loses rows, is made
anew; types get versions; the answer is compared with the numbers that were stored.
"""

import threading
from datetime import timedelta

import pytest

from storage_core import drop_stream
from tests.events.remembered.memory import Memory
from tests.events.store.bench import rows_of
from typed_events.remembered.frame_list import FrameDirectory, FrameList
from typed_events.remembered.showing import Showing

HOUR = timedelta(hours=1)


def test_show_of_nothing_new_writes_nothing(memory):
    memory.store(5)
    memory.remember()
    memory.numbers()
    before = {path: path.stat().st_mtime_ns for path in memory.files()}
    assert memory.numbers() == [*range(5)]
    assert {path: path.stat().st_mtime_ns for path in memory.files()} == before


@pytest.fixture
def begun(monkeypatch):
    """Where each SHOW has begun to evaluate its query."""
    places = []
    usual = Showing.begins

    def begins(showing, snapshot, side):
        places.append(usual(showing, snapshot, side))
        return places[-1]

    monkeypatch.setattr(Showing, "begins", begins)
    return places


def test_rows_of_frames_are_not_evaluated_again(memory, begun):
    memory.store(5)
    memory.remember("WHERE n < 4")
    memory.numbers()
    memory.store(2)
    memory.numbers()
    memory.seal()
    memory.numbers()
    memory.bench.reopen()
    memory.numbers()
    assert begun == [{0: 0}, {0: 5}, {0: 7}, {0: 7}]


def test_rows_of_frames_are_not_evaluated_again_where_an_empty_shard_gets_its_first(
    make_bench, begun
):
    memory = Memory(make_bench(shards=8))
    memory.store(1)
    memory.remember()
    memory.numbers()
    memory.store(11)
    memory.numbers()
    assert sum(begun[0].values()) == 0
    assert sum(begun[1].values()) == 1


def test_show_answers_with_rows_of_frames_of_another_process(memory):
    memory.store(5)
    memory.remember("WHERE n < 3")
    assert memory.numbers() == [0, 1, 2]
    memory.bench.reopen()
    memory.store(2)
    assert memory.numbers() == [0, 1, 2]
    assert len(memory.frames()) == len(memory.lists()) == 1


def test_small_frames_are_merged(memory):
    memory.remember()
    for turn in range(1, 33):
        memory.store()
        assert memory.numbers() == [*range(turn)]
        assert len(memory.frames()) <= 6
        assert len(memory.lists()) == 1


def test_large_answers_are_written_while_they_are_made(make_bench, monkeypatch):
    monkeypatch.setattr("typed_events.remembered.showing.MERGED_ROWS_MAX", 50)
    memory = Memory(make_bench(shards=2))
    memory.remember()
    for count, frames in ((60, 1), (40, 2), (3, 3), (100, 4)):
        memory.store_many(count)
        assert memory.rows() == rows_of(memory.do("QUERY order"))
        assert sorted(memory.numbers()) == [*range(memory.count)]
        assert len(memory.frames()) == frames


@pytest.mark.parametrize("damage", ["bit", "half", "empty", "gone"])
@pytest.mark.parametrize("index", [0, 1])
def test_damaged_frame_is_told_and_made_again(memory, damage, index):
    memory.store(8)
    memory.remember()
    memory.numbers()
    memory.store()
    memory.numbers()
    assert len(memory.frames()) == 2
    path = memory.frames()[index]
    data = path.read_bytes()
    flipped = bytes([data[len(data) // 2] ^ 4])
    if damage == "gone":
        path.unlink()
    else:
        middle = len(data) // 2
        damaged = {"bit": data[:middle] + flipped + data[middle + 1 :], "half": data[:middle]}
        path.write_bytes(damaged.get(damage, b""))
    memory.store()
    answer = memory.do("SHOW mine")
    assert [row["n"] for row in rows_of(answer)] == [*range(10)]
    assert "a frame was damaged and is made again from the log" in answer.message
    assert memory.message() == "OK"
    assert memory.numbers() == [*range(10)]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\x00"])
def test_damaged_list_is_made_again(memory, data):
    memory.store(4)
    memory.remember()
    memory.numbers()
    memory.lists()[0].write_bytes(data)
    assert memory.numbers() == [*range(4)]
    memory.store()
    assert memory.numbers() == [*range(5)]
    assert (len(memory.frames()), len(memory.lists())) == (2, 1), "that of the list is deleted"


def test_new_versions_show_absent_fields_as_null(memory):
    memory.store(2)
    memory.remember("WHERE n >= 1")
    memory.numbers()
    memory.bench.define("order", n="int", note="string | null")
    assert [(row["n"], row["note"], row["version"]) for row in memory.rows()] == [(1, None, 1)]
    memory.store(note="new")
    rows = [(row["n"], row["note"], row["version"]) for row in memory.rows()]
    assert rows == [(1, None, 1), (2, "new", 2)]
    memory.bench.define("order", n="float")
    memory.bench.must("order", "c", n=2.5)
    rows = [(row["n"], row["note"], row["version"]) for row in memory.rows()]
    assert rows == [(1.0, None, 1), (2.0, "new", 2), (2.5, None, 3)]
    assert rows_of(memory.do("QUERY order WHERE n >= 1")) == memory.rows()


def test_rows_that_expired_are_shown_no_more(memory):
    memory.store(3)
    memory.remember()
    assert memory.numbers() == [0, 1, 2]
    memory.bench.clock.advance(7200)
    memory.store(2)
    assert memory.numbers() == [0, 1, 2, 3, 4]
    memory.expire(HOUR)
    assert memory.numbers() == [3, 4]
    memory.store()
    assert memory.numbers() == [3, 4, 5]
    assert len(memory.frames()) == 2, "a frame of expired rows alone is deleted"


def test_rows_that_were_given_up_are_shown_no_more(memory):
    memory.store(6)
    memory.remember()
    memory.numbers()
    memory.give_up_rows()
    left = [row["n"] for row in rows_of(memory.do("QUERY order"))]
    assert 0 < len(left) < 6
    assert memory.numbers() == left
    memory.store()
    assert memory.numbers() == [*left, 6]


@pytest.mark.parametrize("is_longer", [True, False])
def test_stream_that_is_made_anew_has_none_of_the_rows_before(memory, is_longer):
    make_anew(memory)
    if is_longer:
        memory.store(6)
        assert memory.numbers() == [4, 5, 6, 7, 8, 9]
    else:
        assert memory.numbers() == []
        memory.store()
        assert memory.numbers() == [4]


def test_stream_that_is_made_anew_has_none_of_the_rows_before_though_it_ends_as_they_did(memory):
    make_anew(memory)
    memory.count = 9
    memory.store(3)
    memory.count = 3
    memory.store()
    assert memory.numbers() == [9, 10, 11, 3]


def make_anew(memory: Memory) -> None:
    """Remember four rows, and drop their stream for one without any."""
    memory.store(4)
    memory.remember()
    assert memory.numbers() == [0, 1, 2, 3]
    memory.bench.close()
    for name in ("order", "_types"):
        drop_stream(memory.root, name)
    memory.bench.reopen()
    memory.bench.define("order", n="int")


def test_newest_rows_are_kept(make_bench):
    memory = Memory(make_bench(remembered_rows_max=3, shards=4))
    memory.remember("WHERE n != 4")
    for _ in range(9):
        memory.store()
        expected = [n for n in range(memory.count) if n != 4][-3:]
        assert sorted(memory.numbers()) == expected
    assert len(memory.frames()) <= 3


def test_young_rows_are_kept(make_bench):
    memory = Memory(make_bench(remembered_age_max=HOUR))
    memory.remember()
    memory.store(2)
    assert memory.numbers() == [0, 1]
    memory.bench.clock.advance(3000)
    memory.store()
    assert memory.numbers() == [0, 1, 2]
    memory.bench.clock.advance(1000)
    assert memory.numbers() == [2]
    memory.store()
    assert memory.numbers() == [2, 3]


def test_several_shards_are_shown_in_order_of_places(make_bench):
    memory = Memory(make_bench(shards=4))
    memory.remember()
    for count in (5, 1, 7, 2):
        memory.store(count)
        assert memory.rows() == rows_of(memory.do("QUERY order"))
        assert sorted(memory.numbers()) == [*range(memory.count)]


def test_two_shows_at_once_are_both_right(memory):
    memory.store(20)
    memory.remember()
    answers: list[list[int]] = []
    threads = [threading.Thread(target=lambda: answers.append(memory.numbers())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[*range(20)]] * 4
    assert len(memory.frames()) == len(memory.lists()) == 1


def test_list_that_came_late_is_refused(tmp_path):
    """Two publish after the same list; the list of the first is deleted before the second comes."""
    directory = FrameDirectory(tmp_path)
    for generation in (1, 2, 3):
        assert directory.publish(FrameList(generation))
    assert not directory.publish(FrameList(2))
    assert not directory.publish(FrameList(3))
    assert directory.current() == FrameList(3)
    assert [path.name for path in tmp_path.iterdir()] == ["list-000000000003.json"]


def test_show_that_loses_its_race_is_right_and_leaves_nothing(memory, monkeypatch):
    """Another SHOW publishes just before: while the frame of the first is already written."""
    memory.store(6)
    memory.remember()
    memory.numbers()
    memory.store()
    usual, is_first = FrameDirectory.publish, [True]

    def publish(directory, listed):
        if is_first:
            is_first.clear()
            memory.store(5)
            assert memory.numbers() == [*range(12)]
        return usual(directory, listed)

    monkeypatch.setattr(FrameDirectory, "publish", publish)
    assert memory.numbers() == [*range(7)]
    assert memory.numbers() == [*range(12)]
    memory.store()
    assert memory.numbers() == [*range(13)]
    assert len(memory.lists()) == 1
