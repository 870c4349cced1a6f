"""Opening: what a crash left is adopted or told, and no address is ever used twice."""

import shutil

import pytest

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    ReadRequest,
    ShardlogError,
    Stream,
    StreamOptions,
)
from tests.descriptors import descriptors_left
from tests.log.on_disk import flip_bit, forge_marker, newest, slots
from tests.log.workbench import column_of

# --- generations ------------------------------------------------------------------------------


def test_each_open_raises_the_generation_and_none_comes_twice(bench):
    seen = [newest(bench.marker).generation]
    for end in (bench.close, bench.crash, bench.close):
        end()
        bench.open()
        seen.append(newest(bench.marker).generation)
    assert seen == sorted(set(seen))
    assert all(generation % 2 == 0 for generation in seen)


def test_open_close_and_reopen_leave_both_slots_whole(bench):
    for step in (bench.reopen, bench.close, bench.open, bench.crash):
        step()
        assert None not in slots(bench.marker)


# --- tail above the marker --------------------------------------------------------------------


def test_rows_above_the_marker_are_adopted(bench):
    bench.keep([1])
    bench.append([2, 3])
    bench.crash()
    assert bench.open().committed() == {0: 3}
    assert bench.primaries() == [1, 2, 3]


def test_torn_end_that_nobody_was_told_of_is_no_loss(bench):
    bench.keep([1])
    bench.append([2])
    bench.crash()
    bench.cut_log(1)
    bench.open()
    assert (bench.primaries(), bench.stream.lost_ranges()) == ([1], {0: []})
    assert bench.append([5]).appended == 1
    assert bench.commit() == {0: 2}


# --- tail below the marker --------------------------------------------------------------------


def test_adopted_rows_are_told_apart_by_address_on_a_retry(bench):
    bench.append([1, 2], addresses=[0, 1])
    bench.crash()
    bench.open()
    assert bench.append([1, 2, 3], addresses=[0, 1, 2]).duplicates == 2
    bench.commit()
    assert bench.primaries() == [1, 2, 3]


@pytest.fixture
def shortened(bench):
    """A stream of which the last two of three committed rows are gone."""
    bench.keep([1])
    bench.keep([2, 3])
    bench.crash()
    bench.cut_log(1)
    bench.open()
    return bench


def test_lost_rows_are_told_as_a_range(shortened):
    assert shortened.stream.lost_ranges() == {0: [(1, 3)]}
    assert shortened.stream.committed() == {0: 3}


def test_lost_range_is_told_again_after_each_reopen(shortened):
    for _ in range(2):
        shortened.reopen()
        assert shortened.stream.lost_ranges() == {0: [(1, 3)]}


@pytest.mark.parametrize(
    "read",
    [
        lambda stream: stream.read(),
        lambda stream: list(stream.scan()),
        lambda stream: list(stream.tail(0)),
        lambda stream: list(stream.tail(0, 2, 3)),
        lambda stream: stream.latest(),
        lambda stream: stream.earliest(None, 0),
        lambda stream: stream.available(1, 0, 5),
        lambda stream: stream.for_each(1, None, None, lambda _: None),
    ],
)
def test_read_that_touches_a_lost_range_raises_and_names_it(shortened, read):
    with pytest.raises(LostRangeError, match=r"shard 0, addresses \[1, 3\)") as error:
        read(shortened.stream)
    assert (error.value.shard, error.value.start, error.value.end) == (0, 1, 3)
    with shortened.read_beside() as reader, pytest.raises(LostRangeError, match=r"\[1, 3\)"):
        read(reader)


def test_tail_beside_a_lost_range_is_whole(shortened):
    shortened.keep([9])
    assert shortened.tail("primary", 0, 1) == [1]
    assert shortened.tail("primary", 3) == [9]


def test_lost_addresses_are_never_used_again(shortened):
    shortened.keep([9])
    assert shortened.tail("address", 3) == [3]
    with pytest.raises(LostRangeError, match=r"\[1, 3\)"):
        shortened.append([2, 3], addresses=[1, 2])


def test_accepted_loss_is_passed_over(shortened):
    shortened.stream.accept_loss(0, 1, 3)
    shortened.keep([9])
    for _ in range(2):
        assert (shortened.primaries(), shortened.tail("address")) == ([1, 9], [0, 3])
        assert shortened.stream.verify().is_clean
        shortened.reopen()
    with shortened.read_beside() as reader:
        assert reader.read()["primary"].to_pylist() == [1, 9]


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 2), (2, 3), (0, 2), (3, 9), (3, 1)])
def test_only_what_is_lost_can_be_accepted(shortened, start, end):
    with pytest.raises(InvalidRequestError, match=r"lost are \[\(1, 3\)\]"):
        shortened.stream.accept_loss(0, start, end)
    assert shortened.stream.lost_ranges() == {0: [(1, 3)]}


def test_lost_range_follows_on_another(shortened):
    shortened.keep([8])
    shortened.crash()
    shortened.cut_log(1)
    shortened.open()
    assert shortened.stream.lost_ranges() == {0: [(1, 3), (3, 4)]}
    shortened.stream.accept_loss(0, 1, 4)
    assert shortened.primaries() == [1]


def test_damage_inside_the_log_is_a_lost_range_from_there_on(bench):
    for primary in range(20):
        bench.append([primary], payload=bytes(100))
    bench.commit()
    bench.crash()
    flip_bit(bench.write_ahead_log(), len(bench.write_ahead_log().read_bytes()) // 2)
    bench.open()
    ((start, end),) = bench.stream.lost_ranges()[0]
    assert (0 < start < 20, end) == (True, 20)
    assert bench.tail("primary", 0, start) == list(range(start))


def test_store_that_is_gone_is_told_as_one_lost_range(bench):
    bench.append([1, 2])
    bench.close()
    shutil.rmtree(bench.database)
    assert bench.open().lost_ranges() == {0: [(0, 2)]}
    with pytest.raises(LostRangeError):
        bench.primaries()


# --- blocks that cannot be read ---------------------------------------------------------------


@pytest.fixture
def damaged(bench):
    """A stream of three blocks, the one in the middle damaged."""
    for primaries in ([1, 10], [2, 20], [30]):
        bench.append(primaries)
    bench.close()
    bench.damage_block(2)
    return bench


def test_unreadable_block_becomes_a_lost_range_and_the_shard_opens(damaged):
    assert damaged.open().lost_ranges() == {0: [(2, 4)]}
    assert damaged.append([40]).appended == 1
    assert damaged.tail("primary", 0, 2) == [1, 10]
    assert damaged.tail("primary", 4) == [30]


def test_block_found_unreadable_by_a_read_is_recorded(damaged):
    damaged.call_heads_written(through=5)
    assert damaged.open().lost_ranges() == {0: []}
    with pytest.raises(CorruptionError, match=r"cannot be read.*shard 0, addresses \[2, 4\)"):
        damaged.primaries()
    assert damaged.stream.lost_ranges() == {0: [(2, 4)]}
    assert damaged.reopen().lost_ranges() == {0: [(2, 4)]}


def test_block_given_up_is_passed_over_by_every_read(damaged):
    stream = damaged.open()
    stream.accept_loss(0, 2, 4)
    assert damaged.primaries() == damaged.arrivals() == damaged.tail("primary") == [1, 10, 30]
    assert stream.latest()[1].primary == 30
    assert stream.verify().is_clean


def test_late_rows_of_a_block_given_up_are_gone_from_every_read(damaged):
    stream = damaged.open()
    stream.accept_loss(0, 2, 4)
    with damaged.read_beside() as reader:
        assert reader.read(start=2, end=2).num_rows == 0
        assert sum(batch.num_rows for batch in reader.scan()) == 3


def test_newest_row_of_a_block_given_up_gives_way_to_the_one_before(bench):
    bench.append([1, 5])
    bench.append([9])
    bench.close()
    bench.damage_block(2)
    bench.open().accept_loss(0, 2, 3)
    assert bench.stream.latest()[1].primary == 5
    with bench.read_beside() as reader:
        assert reader.latest()[1].primary == 5


def test_late_row_is_the_newest_once_the_row_before_it_is_given_up(bench):
    bench.keep([1000])
    bench.keep([500])
    bench.crash()
    bench.damage_block(0)
    bench.open().accept_loss(0, 0, 1)
    bench.keep([20])
    bench.stream.index.drain()
    assert bench.stream.stats().late_arrivals == 2
    assert bench.stream.latest()[1].primary == 500
    inside = ReadRequest(0, start=100, end=600, ids=(1,), order="newest")
    assert column_of(bench.shard.scan(inside), "primary") == [500]
    with bench.read_beside() as reader:
        assert reader.latest()[1].primary == 500
        assert column_of(reader.read(1, 100, 600), "primary") == [500]
    assert bench.stream.verify().is_clean


# --- the marker -------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", [0, 4096])
def test_marker_with_one_bad_slot_opens_and_is_mended(bench, slot):
    bench.append([1])
    bench.close()
    flip_bit(bench.marker, slot + 20)
    assert bench.open().committed() == {0: 1}
    assert None not in slots(bench.marker)
    with bench.read_beside() as reader:
        assert reader.committed() == {0: 1}


def ruin(marker) -> None:
    flip_bit(marker, 0)
    flip_bit(marker, 4096)


@pytest.mark.parametrize(
    "damage", [ruin, lambda marker: marker.unlink(), lambda marker: marker.write_bytes(b"")]
)
def test_shard_without_a_whole_slot_is_refused_until_the_marker_is_given_up(bench, damage):
    bench.append([1, 2])
    generation = newest(bench.marker).generation
    bench.close()
    damage(bench.marker)
    with pytest.raises(CorruptionError, match=r"give_up_marker.*shard 0.*marker"):
        bench.open()
    bench.open(give_up_marker=True)
    assert (bench.primaries(), bench.reopen().committed()) == ([1, 2], {0: 2})
    assert newest(bench.marker).generation > generation


def test_giving_up_a_good_marker_changes_nothing(bench):
    bench.keep([1])
    bench.crash()
    bench.cut_log(1)
    assert bench.open(give_up_marker=True).lost_ranges() == {0: [(0, 1)]}


def test_marker_of_another_shard_is_foreign(bench):
    bench.close()
    forge_marker(bench.marker)
    before = bench.marker.read_bytes()
    with pytest.raises(ForeignDataError, match=r"another lineage.*shard 0"):
        bench.open()
    assert bench.marker.read_bytes() == before


def test_store_of_another_stream_is_foreign(make_bench):
    mine, other = make_bench(), make_bench()
    for bench in (mine, other):
        bench.append([1])
        bench.close()
    shutil.rmtree(mine.database)
    shutil.copytree(other.database, mine.database)
    with pytest.raises(ForeignDataError, match=r"another lineage.*'stream-0', shard 0"):
        mine.open()
    mine.marker.unlink()
    with pytest.raises(ForeignDataError, match="another lineage"):
        mine.open(give_up_marker=True)
    assert not mine.marker.exists()


# --- refusals that must not make it worse -----------------------------------------------------


def test_missing_current_is_refused_and_nothing_is_cleared_away(bench):
    bench.append([1])
    bench.close()
    current = (bench.database / "CURRENT").read_bytes()
    (bench.database / "CURRENT").unlink()
    before = sorted(path.name for path in bench.database.iterdir())
    with pytest.raises(CorruptionError, match="CURRENT"):
        bench.open()
    assert sorted(path.name for path in bench.database.iterdir()) == before
    (bench.database / "CURRENT").write_bytes(current)
    bench.open()
    assert bench.primaries() == [1]


def test_open_that_fails_at_one_shard_lets_go_of_the_others(root):
    Stream.create(root, "two", StreamOptions(shards=2)).close()
    ruin(root / "two" / "shard-0001" / "marker")
    with pytest.raises(CorruptionError, match="shard 1"):
        Stream.open(root, "two")
    Stream.open(root, "two", shards=[0]).close()
    Stream.open(root, "two", give_up_marker=True).close()


def test_open_for_reading_changes_nothing(bench):
    bench.append([1])
    bench.close()
    before = {path: path.read_bytes() for path in bench.directory.rglob("*") if path.is_file()}
    with bench.read_beside() as reader:
        assert reader.read().num_rows == 1
    after = {path: path.read_bytes() for path in bench.directory.rglob("*") if path.is_file()}
    assert after == before


def test_stream_opens_or_says_why_however_few_files_it_may_open(make_bench):
    bench = make_bench(shards=2)
    bench.append([1])
    bench.close()
    refusals: list[str] = []
    for count in range(0, 60, 4):
        try:
            with descriptors_left(count):
                bench.open()
        except ShardlogError as error:
            refusals.append(error.message)
        else:
            bench.close()
    assert refusals
    assert all("open files" in refusal for refusal in refusals)
    bench.open()
    assert bench.primaries() == [1]
