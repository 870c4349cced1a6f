"""Goal: parts are parts_found by address as a look at all of them finds them.

Method: random parts, of kinds that share no addresses of their own and of some that do, are asked
for random ranges, and compared with a list.
"""

import numpy as np
import pytest

from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import AddressRange
from storage_core.parts.snapshot import PartIndex


def part_of(number, first, last, kind="", *, is_flagged=False):
    return PartEntry(
        first=first,
        number=number,
        last=last,
        rows=last - first + 1,
        is_flagged=is_flagged,
        digest=b"",
        kind=kind,
        primary_min=0,
        primary_max=0,
        size=0,
        sealed_at_ms=0,
        level=0,
        foot_bytes=0,
        foot_digest=b"",
    )


def some_parts(rng, count, *, is_apart):
    """Return parts of three kinds, flagged or not, each kind in places of its own if wanted."""
    parts: list[PartEntry] = []
    for kind in ("", "A", "B"):
        for is_flagged in (False, True):
            starts = np.unique(rng.integers(0, 3000, count)).tolist()
            for start, end in zip(starts, [*starts[1:], 4000], strict=True):
                most = end if is_apart else 4000
                last = int(rng.integers(start, most))
                parts.append(part_of(len(parts), start, last, kind, is_flagged=is_flagged))
    return sorted(parts, key=lambda part: (part.first, part.number))


def overlap(part, start, end):
    return start < end and part.first < end and start <= part.last


@pytest.mark.parametrize("is_apart", [True, False])
@pytest.mark.parametrize("count", [1, 20])
def test_parts_are_found_by_address(count, is_apart):
    rng = np.random.default_rng(count + is_apart)
    for _ in range(40):
        parts = some_parts(rng, count, is_apart=is_apart)
        index = PartIndex(parts)
        assert index.entries == tuple(parts)
        for start, end in [*np.sort(rng.integers(0, 4100, (60, 2))).tolist(), [9, 9]]:
            assert index.overlapping(start, end) == [p for p in parts if overlap(p, start, end)]
            runs = [AddressRange(start, start + 9), AddressRange(start + 20, start + 300)]
            parts_found = [p for p in parts if any(overlap(p, run.start, run.end) for run in runs)]
            assert index.overlapping_any(runs) == parts_found


def test_no_part_begins_or_ends_in_the_range_about_an_address():
    rng = np.random.default_rng(3)
    for _ in range(40):
        parts = some_parts(rng, 8, is_apart=True)
        index = PartIndex(parts)
        cuts = {0, *(part.first for part in parts), *(part.last + 1 for part in parts)}
        for address in rng.integers(0, 4100, 60).tolist():
            parts_found = index.around(address)
            assert parts_found.start == max(cut for cut in cuts if cut <= address)
            ends = [cut for cut in cuts if cut > address]
            assert parts_found.end == min(ends, default=2**63 - 1)


def test_without_parts_nothing_is_found():
    assert PartIndex(()).overlapping(0, 10) == []
    assert PartIndex(()).around(5) == AddressRange(0, 2**63 - 1)
