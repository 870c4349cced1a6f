"""The source over servers in the place of a path: same rows, same offsets, same errors."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    Stream,
    UnavailableError,
)
from streaming_jobs.sink.options import parse_batch_options
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.driver.snapshot import snapshot
from streaming_jobs.source.executor.open_readers import OPEN_READERS
from streaming_jobs.source.options import parse_source_options
from tests.log.served import AT_ONCE, served
from tests.unit.streaming_jobs.source.source_lab import NAME, SourceLab, rows_of


@pytest.fixture
def lab(tmp_path) -> Iterator[SourceLab]:
    """A lab of two shards with ten rows, which a server shows."""
    lab = SourceLab(tmp_path)
    lab.create(shards=2)
    lab.append(10)
    with served(tmp_path) as address:
        lab.servers = address.removeprefix("shardlog://")
        yield lab
        OPEN_READERS.close()
    lab.close()


def batch(lab: SourceLab, **options: object) -> list[dict]:
    """Return the rows of a batch read, whose reader and tasks travel as Spark sends them."""
    reader = RangeReader(parse_source_options(lab.options(**options), "batch"))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))  # noqa: S301 - our own
    return rows_of(pickle.loads(pickle.dumps(reader)), partitions)  # noqa: S301 - as above


def by_path(lab: SourceLab) -> SourceLab:
    return SourceLab(lab.root)


OPTIONS: list[dict[str, object]] = [
    {},
    {"ids": "1,2"},
    {"startPrimary": 0, "columns": "value,offset"},
    {"startingOffsets": {NAME: {"0": 2, "1": 3}}},
    {"minPartitions": 4},
    {"subscribePattern": f"{NAME[:2]}.*"},
    {"includeHeaders": "true", "endingTimestamp": 10**15},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batch_is_that_of_a_path(lab, options):
    rows = batch(lab, **options)
    assert rows == batch(by_path(lab), **options)
    assert rows


def test_stream_goes_on_from_its_offsets_over_either_door(lab):
    tail = lab.tail(startingOffsets="earliest")
    start = tail.initialOffset()
    middle = tail.latestOffset(start, None)
    assert len(rows_of(tail, tail.partitions(start, middle))) == 10
    lab.append(5, first=10)
    end = tail.latestOffset(middle, None)
    assert by_path(lab).tail(startingOffsets="earliest").latestOffset(middle, None) == end
    assert len(rows_of(tail, tail.partitions(middle, end))) == 5


def test_snapshot_is_that_of_a_path(lab):
    assert snapshot(f"shardlog://{lab.servers}", NAME) == snapshot(lab.root, NAME)


def test_loss_is_told_as_by_path(lab):
    lab.close()
    lab.lose(0, 1, 3)
    said = []
    for place in (lab, by_path(lab)):
        with pytest.raises(LostRangeError) as raised:
            batch(place)
        said.append(str(raised.value))
        assert len(batch(place, failOnDataLoss="false")) == 8
    assert said[0] == said[1]


def test_stream_made_anew_is_not_read_by_tasks_of_the_old_one(lab, tmp_path_factory):
    reader = RangeReader(parse_source_options(lab.options(), "batch"))
    partitions: list[Any] = [*reader.partitions()]
    other = SourceLab(tmp_path_factory.mktemp("other"))
    other.create(shards=2)
    with served(other.root) as address:
        moved = [
            replace(
                task,
                ranges=tuple(
                    replace(offsets, place=replace(offsets.place, path=address))
                    for offsets in task.ranges
                ),
            )
            for task in partitions
        ]
        with pytest.raises(ForeignDataError, match="another root"):
            rows_of(reader, moved)
        OPEN_READERS.close()
    other.close()


def test_nobody_who_answers_is_told_by_address(lab, monkeypatch):
    for module in ("remote.served_root", "owners_reader"):
        monkeypatch.setattr(f"storage_core.{module}.ServerOptions", lambda: AT_ONCE)
    lab.servers = "127.0.0.1:9,127.0.0.1:10"
    with pytest.raises(UnavailableError, match=r"none of 2 servers .*:9: .*:10"):
        batch(lab)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/data"}, "options path and server name two roots"),
        ({"server": "http://a:1"}, "no address of a server"),
        ({"server": "user:secret@a:1"}, "neither user nor token"),
    ],
)
def test_mistake_in_naming_servers_is_told(lab, options, said):
    with pytest.raises(InvalidRequestError, match=said) as raised:
        parse_source_options(lab.options(**options), "batch")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("named", [{"server": "a:1"}, {"path": "shardlog://a:1"}])
def test_sink_takes_servers_in_either_option(named):
    assert parse_batch_options({"stream": "events", **named}).path == "shardlog://a:1"
    with pytest.raises(InvalidRequestError, match="options path and server name two roots"):
        parse_batch_options({"stream": "events", "path": "/data", "server": "a:1"})


def test_writer_refuses_servers_and_makes_no_directory_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for opened in (Stream.create, Stream.open):
        with pytest.raises(InvalidRequestError, match="can only be read"):
            opened("shardlog://a:1", "events")
    assert list(tmp_path.iterdir()) == []
