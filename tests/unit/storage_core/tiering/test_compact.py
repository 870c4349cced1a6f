"""Which neighbouring parts become one, and how often rows are written by it."""

import math
import random
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError
from storage_core.format.part_entry import PartEntry
from storage_core.format.window import WindowScheme
from storage_core.parts import footer
from storage_core.tiering import compact
from storage_core.tiering.build import build_here
from storage_core.tiering.compact import compact_shard, next_parts
from storage_core.tiering.limits import (
    COMPACTED_BYTES_MAX,
    NEIGHBOURS_MAX,
    STEP_BYTES_MAX,
    STEP_ROWS_MAX,
)
from tests.log.parts.parts_lab import FIRST_MS, PartsLab
from tests.thin import thinned

HOUR_MS = 3_600_000
HOURS = WindowScheme("ms", "hour")


def part(index, hours=(0, 0), **other):
    """Return a small part of a thousand addresses, with rows of an hour up to another."""
    first, last = (hour * HOUR_MS for hour in hours)
    place = {"first": 1000 * index, "last": 1000 * index + 999, "number": index}
    usual: dict[str, Any] = {"rows": 100, "size": 1000, "level": 0, "kind": ""}
    usual |= {"is_out_of_order": False, "sealed_at_ms": 0, "digest": bytes(16)}
    usual |= {"footer_bytes": 0, "footer_digest": bytes(16), **other}
    return PartEntry(primary_min=first, primary_max=last, **place, **usual)


def small(_part) -> int:
    return 1


def numbers(parts, decoded=None) -> list[int]:
    return [one.number for one in next_parts(parts, HOURS, decoded or small)]


def test_more_than_four_neighbours_become_one():
    assert numbers([part(at) for at in range(NEIGHBOURS_MAX)]) == []
    assert numbers([part(at) for at in range(NEIGHBOURS_MAX + 1)]) == [0, 1, 2, 3, 4]
    assert numbers([part(at) for at in range(30)]) == list(range(30))


def test_those_of_another_kind_or_flag_stand_between_nobody():
    others = [part(at, kind="a") for at in range(1, 20, 2)]
    late = [part(at, is_out_of_order=True) for at in (4, 8)]
    assert numbers([*(part(at) for at in range(0, 20, 2)), *others, *late]) == list(range(0, 20, 2))


def test_one_of_another_level_stands_between():
    parts = [part(at, level=at == 3) for at in range(9)]
    assert numbers(parts) == [4, 5, 6, 7, 8]


def test_what_would_be_too_large_is_left_alone():
    assert numbers([part(at, rows=STEP_ROWS_MAX // 5) for at in range(9)]) == [0, 1, 2, 3, 4]
    assert numbers([part(at, rows=STEP_ROWS_MAX // 4) for at in range(9)]) == []
    assert numbers([part(at, size=COMPACTED_BYTES_MAX // 4) for at in range(9)]) == []
    large = [part(at, rows=STEP_ROWS_MAX) for at in range(3)]
    assert numbers([*large, *(part(at) for at in range(3, 8))]) == [3, 4, 5, 6, 7]


def test_what_would_take_too_much_memory_is_left_alone():
    few = [part(at) for at in range(9)]
    assert numbers(few, lambda _: STEP_BYTES_MAX // 5) == [0, 1, 2, 3, 4]
    assert numbers(few, lambda _: STEP_BYTES_MAX // 4) == []
    # One that is above it by itself stands between the others.
    alone = {3: STEP_BYTES_MAX + 1}
    assert numbers(few, lambda one: alone.get(one.number, 1)) == [4, 5, 6, 7, 8]


def test_files_are_asked_for_their_memory_only_where_all_else_fits():
    request: list[int] = []

    def large(item):
        request.append(item.number)
        return STEP_BYTES_MAX // 2

    assert numbers([part(at, rows=STEP_ROWS_MAX // 4) for at in range(90)], large) == []
    assert request == []
    assert numbers([part(at) for at in range(90)], large) == []
    # No more than it takes to know that a group is too large.
    assert len(request) == 3 * (90 - NEIGHBOURS_MAX)


def test_joined_part_reaches_over_two_windows_at_most():
    each_hour = [part(at, hours=(at // 3, at // 3)) for at in range(12)]
    assert numbers(each_hour) == [0, 1, 2, 3, 4, 5]
    assert numbers([part(at, hours=(at, at)) for at in range(20)]) == []


def test_rows_in_no_order_of_time_are_joined_too():
    assert numbers([part(at, hours=(0, 50)) for at in range(6)]) == list(range(6))
    late = [part(at, hours=(at, at), is_out_of_order=True) for at in range(6)]
    assert numbers(late) == list(range(6))


@pytest.mark.parametrize("seed", range(20))
def test_there_are_few_parts_and_no_row_is_written_often(seed):
    draw = random.Random(seed)
    parts: list[PartEntry] = []
    fresh, rows, written = count(), 0, 0
    for _ in range(400):
        sealed = part(next(fresh), rows=draw.randint(1, 60_000), size=draw.randint(1, 10**6))
        parts.append(sealed)
        rows += sealed.rows
        while group := next_parts(parts, HOURS, small):
            assert len(group) > NEIGHBOURS_MAX
            assert sum(one.rows for one in group) <= STEP_ROWS_MAX
            assert sum(one.size for one in group) <= COMPACTED_BYTES_MAX
            joined = replace(
                group[0],
                last=group[-1].last,
                rows=sum(one.rows for one in group),
                size=sum(one.size for one in group),
                level=group[0].level + 1,
            )
            written += joined.rows
            parts = sorted({*parts, joined} - set(group), key=lambda one: one.first)
    assert all(one.last < other.first for one, other in pairwise(parts))
    assert sum(one.rows for one in parts) == rows
    # A part has a fifth of what may be in one, or is among the few that wait on its level.
    levels = math.ceil(math.log(STEP_ROWS_MAX, NEIGHBOURS_MAX + 1))
    assert len(parts) <= rows / STEP_ROWS_MAX * (NEIGHBOURS_MAX + 1) * 2 + NEIGHBOURS_MAX * levels
    assert written <= rows * levels


# The one that is tried is between others: of those at an end the addresses tell, too.
@thinned("missing", [0, -1, 2], count=1)
def test_part_that_lacks_rows_of_those_that_it_is_made_of_is_not_published(root, missing):
    # Of trimmed rows nothing else would be left to tell.
    lab = PartsLab(root)
    rng = np.random.default_rng(51)
    for _ in range(NEIGHBOURS_MAX + 1):
        lab.append(rng, 60)
        lab.stream.seal()
    lab.stream.trim()
    before = lab.stream.parts()

    def forgetful(context, view, work):
        parts = list(work.parts)
        del parts[missing]
        return build_here(context, view, replace(work, parts=tuple(parts)))

    for shard in lab.stream._shards.values():
        with pytest.raises(CorruptionError, match="does not have the rows"):
            compact_shard(shard, forgetful)
    assert lab.stream.parts() == before
    assert lab.rows_of_parts() == lab.rows()
    lab.stream.close()


def test_parts_whose_rows_do_not_fit_memory_together_stay(root, monkeypatch):
    lab = PartsLab(root)
    looked: list[str] = []

    def listed(path, proof, opener):
        looked.append(path.name)
        return read(path, proof, opener)

    read = footer.read_footer

    monkeypatch.setattr(compact, "STEP_BYTES_MAX", 2**20)
    monkeypatch.setattr(footer, "read_footer", listed)

    def sealed(turn):
        # Rows that are alike: the file has some kilobytes, and memory 256 KiB of them.
        payloads = pa.array([bytes(2**16)] * 4, pa.binary())
        primaries = pa.array(np.arange(4) + FIRST_MS + 4 * turn)
        ids = pa.array(np.zeros(4, np.int32))
        batch = {"secondary": ids, "primary": primaries, "payload": payloads}
        lab.stream.append_batch(pa.RecordBatch.from_pydict(batch))
        lab.stream.commit()
        lab.stream.seal()

    for turn in range(NEIGHBOURS_MAX + 2):
        sealed(turn)
        assert lab.stream.compact().rows == 0
    # Each footer is read once, however often there is a round.
    assert len(looked) == len(set(looked)) >= NEIGHBOURS_MAX
    monkeypatch.setattr(compact, "STEP_BYTES_MAX", 2**22)
    sealed(NEIGHBOURS_MAX + 2)
    assert lab.stream.compact().rows == 4 * (NEIGHBOURS_MAX + 3)
    lab.stream.close()
