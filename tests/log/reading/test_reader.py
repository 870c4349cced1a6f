"""A reader beside a writer: it shows what is committed, all of it, and never anything else."""

import json
import threading
from pathlib import Path

import pytest

from storage_core import (
    ClosedError,
    CorruptionError,
    Environment,
    ForeignDataError,
    InvalidRequestError,
    Position,
    StreamReader,
    UnavailableError,
)
from storage_core.testing import ManualClock
from tests.descriptors import open_files
from tests.log.disks import BesideThread
from tests.log.on_disk import flip_bit, forge_marker
from tests.log.readers import (
    close_during_next_read,
    look_through,
    private_folder,
    store_behind,
)
from tests.log.served import DOORS, opened_by
from tests.log.workbench import Workbench, column_of
from tests.log.writing.interruptions import interrupted_everywhere


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def reader(bench, clock, door):
    """A reader of the workbench's stream; by path its pauses take no time."""
    how = {"environment": Environment(clock=clock)} if door == "path" else {}
    with opened_by(door, bench.root, bench.name, **how) as reader:
        yield reader


by_each_door = pytest.mark.parametrize("door", DOORS)


def primaries_of(reader: StreamReader) -> list[int]:
    return column_of(reader.read(), "primary")


# --- what it shows ----------------------------------------------------------------------------


@by_each_door
def test_each_read_shows_what_is_committed_when_it_begins(bench, reader):
    for primary in range(3):
        bench.keep([primary])
        assert primaries_of(reader) == list(range(primary + 1))


@by_each_door
def test_rows_that_are_not_committed_are_never_shown(bench, reader):
    bench.keep([10])
    bench.append([20, 5])
    reader.refresh()
    assert (primaries_of(reader), reader.committed()) == ([10], {0: 1})
    assert reader.latest()[1].primary == 10
    assert reader.earliest(None, 0) == 10
    assert column_of(reader.tail(0, 0, 3), "primary") == [10]


@by_each_door
def test_rows_of_a_transaction_are_shown_at_its_end_together(bench, reader):
    with bench.stream.transaction("t", 2) as transaction:
        transaction.append(1, 1, b"")
        transaction.append(2, 1, b"")
        assert (primaries_of(reader), reader.latest()) == ([], {})
    assert (primaries_of(reader), reader.latest()[1].primary) == ([1, 2], 2)


@by_each_door
@pytest.mark.parametrize("quiet", ["flush", "close", "idle"])
def test_rewritten_state_is_seen_though_the_writer_is_quiet_after_it(bench, reader, quiet):
    bench.keep([1])
    assert reader.refresh() == {0: 1}
    bench.keep(range(2, 100))
    if quiet == "flush":
        bench.flush_state()
    elif quiet == "close":
        bench.close()
    assert (reader.refresh(), len(primaries_of(reader))) == ({0: 99}, 99)
    assert reader.latest()[1].primary == 99


def test_reader_follows_the_next_writer_to_a_new_generation(bench, reader):
    bench.keep([1])
    before = store_behind(reader) if primaries_of(reader) else None
    bench.append([2])
    bench.crash()
    bench.open()
    assert primaries_of(reader) == [1, 2]
    assert store_behind(reader) is not before


def test_instance_stays_while_the_generation_does(bench, reader):
    bench.keep([1])
    before = store_behind(reader) if primaries_of(reader) else None
    bench.keep([2])
    assert (primaries_of(reader), store_behind(reader) is before) == ([1, 2], True)


def test_reader_catches_up_twice_for_each_new_marker_and_not_without(bench, reader, hooked):
    bench.keep([1])
    reader.refresh()
    look_through(reader, hooked)
    reader.refresh()
    assert hooked.calls.count("catch_up") == 0
    bench.keep([2])
    reader.refresh()
    assert hooked.calls.count("catch_up") == 2


@by_each_door
def test_reader_of_a_stream_without_a_writer(bench, read_beside):
    bench.append([2, 1])
    bench.close()
    with read_beside(bench) as reader:
        assert (primaries_of(reader), reader.committed()) == ([1, 2], {0: 2})


@by_each_door
def test_reader_of_a_stream_that_was_never_written(bench, read_beside):
    with read_beside(bench) as reader:
        assert (primaries_of(reader), reader.refresh()) == ([], {0: 0})


@by_each_door
def test_many_readers_and_threads_read_side_by_side(bench, read_beside):
    bench.keep(range(100))
    with read_beside(bench) as first, read_beside(bench) as second:
        counts: list[int] = []
        asks = [
            lambda reads=reads: counts.append(len(primaries_of(reads)))
            for reads in (first, second) * 2
        ]
        with BesideThread(asks[0]), BesideThread(asks[1]), BesideThread(asks[2]):
            asks[3]()
    assert counts == [100] * 4


@by_each_door
def test_accepted_loss_is_seen_by_an_open_reader(bench, reader):
    bench.append([1])
    bench.append([2])
    bench.close()
    bench.damage_block(1)
    bench.open().accept_loss(0, 1, 2)
    assert primaries_of(reader) == [1]


# --- waiting ----------------------------------------------------------------------------------


def test_wait_ends_at_once_for_what_is_committed(bench, reader, clock):
    bench.keep([1])
    assert reader.wait(0, 0, timeout=60)
    assert clock.elapsed_s == 0


def test_wait_ends_without_it_when_time_is_up(reader, clock):
    assert not reader.wait(0, 0, timeout=60)
    assert clock.elapsed_s == pytest.approx(60)
    assert not reader.wait(0, 0, timeout=0)


@by_each_door
def test_empty_shard_has_reached_its_own_end(reader):
    # Whoever was told that a shard ends at `end` waits for the address before it.
    assert reader.wait(0, reader.committed()[0] - 1, timeout=0)
    assert reader.committed() == {0: 0}


@by_each_door
def test_wait_ends_when_the_writer_commits(bench, read_beside):
    with read_beside(bench) as reader:
        begun = threading.Event()

        def commit() -> None:
            begun.wait()
            bench.keep([1])

        with BesideThread(commit):
            begun.set()
            assert reader.wait(0, 0, timeout=60)


@by_each_door
@pytest.mark.parametrize(("shard", "address", "timeout"), [(1, 0, 1), (0, "0", 1), (0, 0, "1")])
def test_wait_without_meaning_is_refused(reader, shard, address, timeout):
    with pytest.raises(InvalidRequestError):
        reader.wait(shard, address, timeout)


@by_each_door
def test_position_names_incarnation_lineages_and_ends(bench, reader):
    bench.keep([1])
    position = reader.position()
    stream = json.loads((bench.directory / "stream.json").read_text())
    options = json.loads((bench.directory / "options.json").read_text())
    assert position.incarnation == stream["incarnation"]
    assert (position.shards[0].lineage, position.shards[0].address) == (options["shards"]["0"], 1)
    assert Position.from_json(position.to_json()) == position


# --- its end ----------------------------------------------------------------------------------


def test_private_folder_lies_outside_the_root_and_goes_with_the_reader(bench, reader):
    reader.refresh()
    private = private_folder(reader)
    assert private.is_dir()
    assert bench.root not in private.parents
    reader.close()
    assert not private.exists()


CALLS = {
    "read": lambda reader: reader.read(),
    "scan": lambda reader: list(reader.scan()),
    "tail": lambda reader: list(reader.tail(0)),
    "latest": lambda reader: reader.latest(),
    "earliest": lambda reader: reader.earliest(None, 0),
    "available": lambda reader: reader.available(None, 0, 1),
    "refresh": lambda reader: reader.refresh(),
    "committed": lambda reader: reader.committed(),
    "wait": lambda reader: reader.wait(0, 0, 1),
    "position": lambda reader: reader.position(),
}


@by_each_door
@pytest.mark.parametrize("call", CALLS)
def test_closed_reader_refuses_every_call(reader, call):
    reader.close()
    reader.close()
    with pytest.raises(ClosedError, match="the reader is closed"):
        CALLS[call](reader)


def test_close_goes_on_where_another_was_interrupted(bench):
    bench.keep([1])
    opened: list[tuple[StreamReader, Path]] = []

    def open_another() -> None:
        reader = bench.read_beside()
        reader.refresh()
        opened.append((reader, private_folder(reader)))

    open_another()
    for _ in interrupted_everywhere(lambda _: opened[-1][0].close(), every=5):
        reader, private = opened[-1]
        reader.close()
        assert not private.exists()
        open_another()


@by_each_door
def test_scan_begun_before_the_close_ends_with_an_error_not_short(make_bench, read_beside):
    bench = make_bench(block_records=1)
    bench.keep(range(100))
    reader = read_beside(bench)
    scan = reader.scan()
    next(scan)
    reader.close()
    with pytest.raises(ClosedError):
        list(scan)


def test_read_that_a_close_overtakes_says_so_and_leaves_no_threads(make_bench):
    reader, threads = make_bench(shards=2).read_beside(), set(threading.enumerate())
    close_during_next_read(reader)
    with pytest.raises(ClosedError, match="the reader is closed"):
        reader.read()
    assert set(threading.enumerate()) <= threads


# --- what it refuses to show ------------------------------------------------------------------


def test_unreadable_block_is_told_after_a_bounded_time(bench, reader, clock):
    bench.append([1])
    bench.append([2])
    bench.close()
    bench.damage_block(1)
    with pytest.raises(CorruptionError, match=r"cannot be read.*shard 0, addresses \[1, 2\)"):
        primaries_of(reader)
    assert 0 < clock.elapsed_s < 10
    assert column_of(reader.tail(0, 0, 1), "primary") == [1]


@by_each_door
def test_hole_in_the_chain_of_zones_is_told_never_passed_over(bench, reader):
    for primary in range(3):
        bench.append([primary])
    bench.close()
    bench.remove_zone(1)
    with pytest.raises(CorruptionError, match=r"chain of zones is broken.*addresses \[1, 2\)"):
        list(reader.scan())


@pytest.mark.parametrize(
    "ask",
    [
        lambda reads: reads.earliest(None, 0),
        lambda reads: reads.read([1], limit=1),
        lambda reads: reads.for_each([1], 0, None, lambda record: record.primary > 0),
    ],
)
def test_bounded_read_asks_for_no_zone_of_later_days(bench, reader, ask):
    day, rows = 86_400_000, 70_000
    for first in (0, day):
        bench.append(range(first, first + rows))
    bench.close()
    bench.remove_zone(rows + rows // 14 * 11)
    ask(reader)
    with pytest.raises(CorruptionError, match="chain of zones is broken"):
        reader.read()


def test_store_that_does_not_reach_the_marker_is_told(bench, reader, clock):
    bench.keep([1])
    bench.keep([2])
    bench.crash()
    bench.cut_log(1)
    with pytest.raises(CorruptionError, match=r"does not reach.*shard 0, addresses \[0, 2\)"):
        primaries_of(reader)
    assert 0 < clock.elapsed_s < 10
    bench.open()
    assert column_of(reader.tail(0, 0, 1), "primary") == [1]


@by_each_door
def test_marker_with_a_bad_slot_is_told_until_a_writer_mends_it(bench, reader):
    bench.append([1])
    bench.close()
    flip_bit(bench.marker, 20)
    with pytest.raises(CorruptionError, match=r"slot.*damaged"):
        reader.committed()
    bench.open()
    assert reader.committed() == {0: 1}


def test_marker_that_went_back_is_told(bench, reader):
    bench.append([1])
    older = bench.marker.read_bytes()
    bench.commit()
    assert reader.committed() == {0: 1}
    bench.release()
    rewrite(bench.marker, older)
    with pytest.raises(CorruptionError, match=r"went back.*addresses \[0, 1\)"):
        in_place_of(bench, reader)


def rewrite(path: Path, data: bytes) -> None:
    """Change a file in place, as those see it who have it open."""
    with path.open("r+b") as file:
        file.write(data)


def in_place_of(bench: Workbench, reader: StreamReader) -> None:
    """Let the shard's marker be of an older generation, then look."""
    forge_marker(bench.marker, bytes.fromhex(reader.lineage(0)))
    reader.committed()


@by_each_door
def test_marker_of_another_lineage_is_foreign(bench, reader):
    bench.close()
    forge_marker(bench.marker)
    with pytest.raises(ForeignDataError, match="another lineage"):
        reader.committed()


def test_store_that_a_reader_may_not_open_is_told_by_its_path(bench, reader):
    bench.append([1])
    bench.close()
    config = bench.database / "rocksdict-config.json"
    config.unlink()
    config.mkdir()
    with pytest.raises(
        UnavailableError, match=r"opening as a reader: .*rocksdict-config\.json.*db"
    ):
        primaries_of(reader)


@by_each_door
def test_missing_marker_is_told_when_the_reader_opens(bench, read_beside):
    bench.close()
    bench.marker.unlink()
    with pytest.raises(CorruptionError, match="marker is missing"):
        read_beside(bench)


def test_reader_that_cannot_open_a_later_shard_keeps_no_descriptor(make_bench):
    bench = make_bench(shards=4)
    (bench.directory / "shard-0003" / "marker").unlink()
    before = open_files(bench.directory)
    with pytest.raises(CorruptionError, match="marker is missing"):
        bench.read_beside()
    assert open_files(bench.directory) == before


def test_marker_that_the_system_refuses_is_told_when_the_reader_opens(bench):
    bench.close()
    bench.marker.unlink()
    bench.marker.symlink_to(bench.marker)
    with pytest.raises(UnavailableError, match=r"opening.*symbolic links"):
        bench.read_beside()
