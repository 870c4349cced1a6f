"""Verify: a clean store is told clean, and each kind of damage is named with its place."""

import errno
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from storage_core import ClosedError, CorruptionError, UnavailableError
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    FAMILY_LOG,
    zone_key,
)
from storage_core.format.zone import Zone, decode_zone, encode_secondaries, encode_zone
from storage_core.testing import FaultyDisk, ManualClock
from tests.log.on_disk import flip_bit
from tests.log.workbench import Workbench
from tests.unit.storage_core.strategies import int32_array


@pytest.fixture
def filled(bench):
    """Blocks [0, 3) and [3, 5), the latter with a late row."""
    bench.append([1, 2, 30])
    bench.append([40, 7])
    bench.close()
    return bench


def zone_of(bench: Workbench, first: int) -> Zone:
    store = bench.store()
    item = store.snapshot().at_or_after(FAMILY_DEFAULT, zone_key(first))
    store.close()
    assert item is not None
    return decode_zone(first, item[1], 0)


def problems(bench: Workbench) -> list[tuple[int | None, int | None, str]]:
    """Return where verify found what; every line names shard and file."""
    stream = bench.open()
    with bench.read_beside() as reader:
        beside = reader.verify()
    report = stream.verify()
    assert [one.message for one in beside.problems] == [one.message for one in report.problems]
    assert report.is_clean == (not report.problems)
    assert {(one.shard, one.file) for one in report.problems} <= {(0, str(bench.database))}
    return [(one.start, one.end, one.message) for one in report.problems]


def test_clean_store_is_told_clean_with_what_was_read(filled):
    report = filled.open().verify()
    assert report.is_clean
    assert (report.blocks, report.rows, report.late_rows) == (2, 5, 1)


def test_report_covers_all_shards(make_bench):
    bench = make_bench(shards=4)
    bench.keep(range(8), secondary=list(range(8)))
    report = bench.stream.verify()
    assert (report.is_clean, report.blocks, report.rows) == (True, 4, 8)


def test_rows_that_are_written_and_not_committed_are_verified_too(bench):
    bench.append([1, 20, 3])
    report = bench.stream.verify()
    assert (report.is_clean, report.blocks, report.late_rows) == (True, 1, 1)


def test_reader_verifies_beside_a_writer_whatever_that_has_done(make_bench):
    bench = make_bench(records_max=40)
    with bench.read_beside() as reader:
        for step in range(4):
            bench.keep([20 * step + place for place in (1, 9, 4, 16)] * 3)
            bench.append([20 * step])
            bench.stream.seal()
            assert reader.verify().is_clean
            bench.stream.trim()
            bench.stream.expire()
            report = reader.verify()
            assert (report.is_clean, report.parts > 0) == (True, True)
            assert "without its writer's lock" in report.unchecked[-1]


def test_damaged_block_is_told_as_lost(filled):
    filled.damage_block(3)
    assert problems(filled) == [(3, 5, "acknowledged rows are lost")]


def test_block_that_went_bad_under_an_open_stream_is_told_and_noted(filled):
    filled.call_heads_written(through=5)
    filled.damage_block(0)
    start, end, message = problems(filled)[0]
    assert (start, end) == (0, 3)
    assert "cannot be read" in message
    assert filled.stream.lost_ranges() == {0: [(0, 3)]}


def in_segments(make_bench: Callable[..., Workbench]) -> tuple[Workbench, Path]:
    """Return an open stream of three blocks in a segment, [0, 2), [2, 4) and [4, 5)."""
    bench = make_bench(environment=FaultyDisk(apart_bytes_min=1).environment(ManualClock()))
    for primaries in ([1, 2], [3, 4], [5]):
        bench.keep(primaries)
    return bench, bench.database / "segments/00000001"


def test_bad_block_in_a_segment_is_told_by_verify_with_its_place(make_bench):
    bench, segment = in_segments(make_bench)
    offset = segment.read_bytes().index(b"SLBK", 1)
    flip_bit(segment, offset + 100)
    (problem,) = (one for one in bench.stream.verify().problems if one.kind == "block")
    assert (problem.start, problem.end) == (2, 4)
    assert re.search(
        rf"checksum in its zone.*, bytes \[{offset}, \d+\) of {segment}", problem.message
    )
    assert bench.stream.lost_ranges() == {0: [(2, 4)]}


def test_bad_block_in_a_segment_is_told_by_reads_with_its_place(make_bench):
    bench, segment = in_segments(make_bench)
    flip_bit(segment, 100)
    place = rf"checksum in its zone.*, bytes \[0, \d+\) of {segment}"
    with pytest.raises(CorruptionError, match=place):
        bench.tail("primary")
    assert bench.stream.lost_ranges() == {0: [(0, 2)]}


def test_rows_that_the_disk_cannot_read_now_are_there_once_it_can(make_bench, monkeypatch):
    bench, segment = in_segments(make_bench)
    pread, bad = os.pread, segment.read_bytes().index(b"SLBK", 1)

    def failing_pread(descriptor: int, wanted: int, offset: int) -> bytes:
        if offset == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, wanted, offset)

    def is_told_by(look: Callable[[], object]) -> None:
        with monkeypatch.context() as failing:
            failing.setattr(os, "pread", failing_pread)
            with pytest.raises(UnavailableError, match=rf"Input/output error.*at {segment}"):
                look()

    bench.close()
    is_told_by(bench.open)
    bench.open()
    is_told_by(bench.primaries)
    is_told_by(bench.stream.verify)
    assert bench.stream.lost_ranges() == {0: []}
    assert bench.stream.verify().is_clean
    assert bench.primaries() == [1, 2, 3, 4, 5]


def test_block_swapped_with_another_is_told(filled):
    store = filled.store()
    blocks = dict(store.snapshot().items(FAMILY_LOG, b"", None))
    store.close()
    (first, block), (second, two) = blocks.items()
    filled.change((FAMILY_LOG, first, two), (FAMILY_LOG, second, block))
    assert [place[:2] for place in problems(filled)] == [(0, 3), (3, 5)]


def test_missing_block_is_told(filled):
    filled.change(deleted_blocks=[3])
    assert [place[:2] for place in problems(filled)] == [(3, 5)]


def test_missing_zone_is_told_as_a_broken_chain(filled):
    filled.call_heads_written(through=5)
    filled.change(deletes=[zone_key(0)])
    ((start, end, message),) = problems(filled)
    assert (start, end, message.split(" (")[0]) == (0, 3, "the chain of zones is broken")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"primary_min": 2}, "primaries differ"),
        ({"out_of_order_max": 8}, "primaries differ"),
        ({"late": 0}, "counts differ"),
        ({"tombstones": 1}, "counts differ"),
        ({"committed_at_ms": 5}, "time of storing"),
        ({"sections": encode_secondaries(int32_array([9]))}, "set of secondaries"),
    ],
)
def test_zone_that_differs_from_its_block_is_told(filled, changes, expected):
    zone = replace(zone_of(filled, 3), **changes)
    filled.change((FAMILY_DEFAULT, zone_key(3), encode_zone(zone)))
    ((start, end, message),) = problems(filled)
    assert (start, end) == (3, 5)
    assert expected in message


def test_one_problem_does_not_hide_the_next(filled):
    filled.damage_block(0)
    filled.damage_block(3)
    assert [place[:2] for place in problems(filled)] == [(0, 3), (3, 5)]


def test_closed_stream_cannot_be_verified(bench):
    bench.close()
    with pytest.raises(ClosedError):
        bench.stream.verify()
