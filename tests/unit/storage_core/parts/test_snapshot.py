"""Goal: what a read of trimmed rows costs does not grow with how many parts there are.

Method: a catalogue of 2,000 entries is forged about the parts of some rows, in other places; reads
are compared by how many calls they make, of Python's functions and of C's. What is kept between
views is then held against catalogues that change, lack a sum, or lack an entry.
Random parts are found by address as a look at all of them finds them.
"""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from storage_core import CorruptionError, StreamReader
from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import PartEntry, encode_part, part_key
from storage_core.format.shard_state import AddressRange
from storage_core.parts import snapshot as parts
from storage_core.parts.part_list import replace_parts
from storage_core.parts.snapshot import PartIndex, _part_lists, index_of, read_index
from tests.log.parts.parts_lab import NAME, PartsLab

FAR = 2**40
NEIGHBOURS_MAX = 20
MANY = 2_000
COLUMNS = ["shard", "address", "payload"]


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory):
    """A stream whose rows are in parts alone, closed."""
    lab = PartsLab(tmp_path_factory.mktemp("trimmed"), block_records=16)
    rng = np.random.default_rng(5)
    for _ in range(4):
        lab.append(rng, 100)
        lab.stream.seal()
    lab.stream.trim()
    lab.stream.close()
    return lab


@pytest.fixture
def lab(trimmed, root):
    """A copy of it."""
    lab = trimmed.copied_to(root)
    yield lab
    lab.stream.close()


def forged(shard, count):
    """Let a catalogue have many more parts, far behind, and a late one that reaches over all."""
    snapshot = shard.snapshots.committed()
    late = next(part for part in read_index(snapshot).entries if part.is_out_of_order)
    snapshot.close()

    def change(state, _window_now):
        batch = Batch()
        made = [replace(late, last=FAR * 2)]
        for place, number in enumerate(range(state.parts, state.parts + count)):
            first, kind = FAR + 10 * number, ("A", "B", "C")[place % 3]
            made.append(
                replace(
                    late, first=first, last=first + 40, number=number, kind=kind, level=place % 4
                )
            )
        made[1:] = [replace(part, is_out_of_order=part.number % 5 == 0) for part in made[1:]]
        return batch, replace_parts(batch, state, [late], made)

    shard.commit_path.apply_change(change)


def calls_of(do):
    """Return what a call returns, and how many calls were made in it."""
    count = 0

    def counted(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")

    do()
    sys.setprofile(counted)
    try:
        answer = do()
    finally:
        sys.setprofile(None)
    return answer, count


READS = {
    "one id": lambda reads: reads.read(ids=[1], columns=COLUMNS).to_pylist(),
    "few addresses": lambda reads: [
        row for batch in reads.tail(0, 30, 60, columns=COLUMNS) for row in batch.to_pylist()
    ],
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("where", ["writer", "reader"])
def test_read_costs_what_it_asks_for_however_many_parts_there_are(lab, name, where):
    reads = lab.stream if where == "writer" else StreamReader.open(lab.root, NAME)
    for shard in lab.stream._shards.values():
        forged(shard, NEIGHBOURS_MAX)
    few, calls_few = calls_of(partial(READS[name], reads))
    for shard in lab.stream._shards.values():
        forged(shard, MANY)
    many, calls_many = calls_of(partial(READS[name], reads))
    assert few == many
    assert few
    assert calls_many < calls_few + 200
    if where == "reader":
        reads.close()


def test_turn_of_maintenance_costs_no_more_where_there_are_many_parts(lab):
    _, calls_few = calls_of(lab.stream.maintain)
    for shard in lab.stream._shards.values():
        forged(shard, MANY)
    report, calls_many = calls_of(lab.stream.maintain)
    assert report.is_idle
    assert calls_many < calls_few + 200


def test_cached_entries_are_those_of_the_catalogue_as_it_changes(lab):
    shard = lab.stream._shards[0]
    rng = np.random.default_rng(6)
    old = shard.snapshots.committed()
    first = index_of(old).entries
    for step in range(6):
        lab.append(rng, 30)
        lab.stream.seal()
        if step % 2:
            lab.stream.compact()
        snapshot = shard.snapshots.committed()
        assert index_of(snapshot) is index_of(snapshot)
        assert index_of(snapshot).entries == read_index(snapshot).entries != first
        assert index_of(old).entries == read_index(old).entries == first
        snapshot.close()
    old.close()


def test_damaged_entry_is_found_by_verify_whatever_is_cached(lab):
    shard, before = lab.stream._shards[0], lab.stream.parts()
    part = before[0].entry
    batch = Batch()
    entry = encode_part(part)
    batch.put(part_key(part.first, part.number), entry[:-1] + bytes([entry[-1] ^ 1]))
    shard._store.write(batch)
    assert lab.stream.parts() == before
    assert not lab.stream.verify().is_clean
    _part_lists.cache_clear()
    with pytest.raises(CorruptionError, match="the part list's entry"):
        lab.stream.parts()


def test_so_many_entries_are_cached_and_no_more(lab, monkeypatch):
    monkeypatch.setattr(parts, "ENTRIES_CACHED", 10)
    rng, shard = np.random.default_rng(7), lab.stream._shards[0]
    for _ in range(4):
        lab.append(rng, 50)
        lab.stream.seal()
        snapshot = shard.snapshots.committed()
        assert index_of(snapshot) is index_of(snapshot)
        snapshot.close()
        assert len(_part_lists()) == 1


# --- parts by address ---------------------------------------------------------------------------


def part_of(number, first, last, kind="", *, is_out_of_order=False):
    return PartEntry(
        first=first,
        number=number,
        last=last,
        rows=last - first + 1,
        is_out_of_order=is_out_of_order,
        digest=b"",
        kind=kind,
        primary_min=0,
        primary_max=0,
        size=0,
        sealed_at_ms=0,
        level=0,
        footer_bytes=0,
        footer_digest=b"",
    )


def some_parts(rng, count, *, is_apart):
    """Return parts of three kinds, flagged or not, each kind in places of its own if wanted."""
    parts: list[PartEntry] = []
    for kind in ("", "A", "B"):
        for is_out_of_order in (False, True):
            starts = np.unique(rng.integers(0, 3000, count)).tolist()
            for start, end in zip(starts, [*starts[1:], 4000], strict=True):
                most = end if is_apart else 4000
                last = int(rng.integers(start, most))
                parts.append(
                    part_of(len(parts), start, last, kind, is_out_of_order=is_out_of_order)
                )
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
