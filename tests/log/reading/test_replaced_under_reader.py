"""A reader under which something is replaced: it says so, and shows nothing of the other."""

import shutil
from collections.abc import Callable

import pytest

from storage_core import (
    CorruptionError,
    Environment,
    ForeignDataError,
    ReadRequest,
    Stream,
    StreamOptions,
    StreamReader,
    UnavailableError,
)
from storage_core.testing import ManualClock
from tests.log.served import DOORS, opened_by
from tests.log.topics import NAME, TOPIC
from tests.log.workbench import Workbench, column_of

CALLS: dict[str, Callable[[StreamReader], object]] = {
    "refresh": lambda reader: reader.refresh(),
    "committed": lambda reader: reader.committed(),
    "read": lambda reader: reader.read(),
    "latest": lambda reader: reader.latest(1),
    "tail": lambda reader: list(reader.tail(0)),
    "wait": lambda reader: reader.wait(0, 5, 10),
    "position": lambda reader: reader.position(),
}


by_each_door = pytest.mark.parametrize("door", DOORS)


@pytest.fixture
def reader(bench, door):
    """A reader that has read a row; by path its pauses take no time."""
    bench.keep([1])
    how = {"environment": Environment(clock=ManualClock())} if door == "path" else {}
    with opened_by(door, bench.root, bench.name, **how) as reader:
        assert reader.read().num_rows == 1
        yield reader


def drop(bench: Workbench) -> None:
    bench.close()
    shutil.rmtree(bench.directory)


@by_each_door
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_stream_made_anew_is_told_in_every_call(bench, reader, call):
    drop(bench)
    with Stream.create(bench.root, bench.name, StreamOptions(shards=1)) as anew:
        anew.append(2, 1, b"new")
        anew.commit()
        for _ in range(2):
            with pytest.raises(ForeignDataError, match=r"made anew.*stream 'stream-0'"):
                call(reader)


@by_each_door
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_dropped_stream_is_told_in_every_call(bench, reader, call):
    drop(bench)
    with pytest.raises(CorruptionError, match=r"dropped|missing"):
        call(reader)


def test_stream_without_shards_made_anew_is_told(copy):
    with StreamReader.open(copy.root, NAME) as reader:
        reader.refresh()
        shutil.rmtree(copy.root / NAME)
        Stream.create(copy.root, NAME, StreamOptions(), origin=TOPIC).close()
        with pytest.raises(ForeignDataError, match="made anew"):
            reader.refresh()


def replace_by_its_copy(bench: Workbench) -> None:
    """Put a copy in the marker's place, as a restore does."""
    copy = bench.marker.with_name("copy")
    copy.write_bytes(bench.marker.read_bytes())
    copy.rename(bench.marker)


def test_marker_put_in_place_by_rename_is_followed(bench, reader):
    bench.close()
    replace_by_its_copy(bench)
    bench.open()
    bench.keep([2])
    assert reader.committed() == bench.stream.committed() == {0: 2}
    assert column_of(reader.read(), "primary") == [1, 2]


def test_marker_that_the_system_refuses_later_is_told_by_its_path(bench, reader):
    whole = bench.marker.rename(bench.marker.with_name("whole"))
    bench.marker.symlink_to(bench.marker)
    with pytest.raises(UnavailableError, match=r"reading the marker: .*symbolic links.*marker"):
        reader.committed()
    whole.replace(bench.marker)
    assert reader.committed() == {0: 1}


def test_marker_set_back_under_one_generation_is_told_until_it_goes_on(bench, reader):
    older = bench.marker.read_bytes()
    bench.append([2])
    bench.append([3])
    for _ in range(3):
        bench.commit()
    assert reader.committed() == {0: 3}
    with bench.marker.open("r+b") as marker:
        marker.write(older)
    for call in (reader.committed, reader.refresh, reader.read, lambda: reader.wait(0, 5, 1)):
        with pytest.raises(CorruptionError, match=r"went back.*addresses \[1, 3\).*marker"):
            call()
    bench.keep([4])
    bench.keep([5])
    assert column_of(reader.read(), "primary") == [1, 2, 3, 4, 5]


def test_store_of_another_shard_is_foreign_to_a_reader(make_bench):
    bench = make_bench(shards=2)
    bench.append([10, 1], secondary=1, shard=0, source={"of": 0})
    bench.append([10, 1], secondary=1, shard=1, source={"of": 1})
    bench.close()
    shutil.rmtree(bench.directory / "shard-0001" / "db")
    shutil.copytree(bench.database, bench.directory / "shard-0001" / "db")
    with bench.read_beside() as reader:
        late = ReadRequest(1, start=1, end=1, order="primary")
        for call in (lambda: reader.source(1), lambda: list(reader.shard(1).scan(late))):
            with pytest.raises(ForeignDataError, match=r"store.*another lineage.*shard 1"):
                call()
        assert reader.source(0) == {"of": 0}
