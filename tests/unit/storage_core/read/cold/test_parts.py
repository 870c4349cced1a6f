"""Goal: what a read of trimmed rows costs does not grow with how many parts there are.

Method: a catalogue of 2,000 entries is forged about the parts of some rows, in other places; reads
are compared by how many calls they make, of Python's functions and of C's. What is kept between
views is then held against catalogues that change, lack a sum, lack an entry, and against forks.
"""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from storage_core import CorruptionError, StreamReader
from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import encode_part, part_key
from storage_core.parts.part_list import replace_parts
from storage_core.read.cold import parts
from storage_core.read.cold.parts import _kept_parts, index_of, read_index
from tests.log.parts.parts_lab import NAME, PartsLab
from tests.unit.forks import in_fork

FAR = 2**40
FEW = 20
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
    view = shard.views.committed()
    late = next(part for part in read_index(view).entries if part.is_flagged)
    view.close()

    def change(state, _window_now):
        batch = Batch()
        made = [replace(late, last=FAR * 2)]
        for at, number in enumerate(range(state.parts, state.parts + count)):
            first, kind = FAR + 10 * number, ("A", "B", "C")[at % 3]
            made.append(
                replace(late, first=first, last=first + 40, number=number, kind=kind, level=at % 4)
            )
        made[1:] = [replace(part, is_flagged=part.number % 5 == 0) for part in made[1:]]
        return batch, replace_parts(batch, state, [late], made)

    shard.take_away(change)


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
        row for one in reads.tail(0, 30, 60, columns=COLUMNS) for row in one.to_pylist()
    ],
}


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("where", ["writer", "reader"])
def test_read_costs_what_it_asks_for_however_many_parts_there_are(lab, what, where):
    reads = lab.stream if where == "writer" else StreamReader.open(lab.root, NAME)
    for shard in lab.stream._shards.values():
        forged(shard, FEW)
    few, calls_few = calls_of(partial(READS[what], reads))
    for shard in lab.stream._shards.values():
        forged(shard, MANY)
    many, calls_many = calls_of(partial(READS[what], reads))
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


def test_kept_entries_are_those_of_the_catalogue_as_it_changes(lab):
    shard = lab.stream._shards[0]
    rng = np.random.default_rng(6)
    old = shard.views.committed()
    first = index_of(old).entries
    for step in range(6):
        lab.append(rng, 30)
        lab.stream.seal()
        if step % 2:
            lab.stream.compact()
        view = shard.views.committed()
        assert index_of(view) is index_of(view)
        assert index_of(view).entries == read_index(view).entries != first
        assert index_of(old).entries == read_index(old).entries == first
        view.close()
    old.close()


def test_damaged_entry_is_told_by_verify_whatever_is_kept(lab):
    shard, before = lab.stream._shards[0], lab.stream.parts()
    part = before[0].entry
    batch = Batch()
    batch.put(part_key(part.first, part.number), encode_part(part)[:-1] + b"?")
    shard._store.write(batch)
    assert lab.stream.parts() == before
    assert not lab.stream.verify().is_clean
    _kept_parts.cache_clear()
    with pytest.raises(CorruptionError, match="entry of a part"):
        lab.stream.parts()


def test_so_many_entries_are_kept_and_no_more(lab, monkeypatch):
    monkeypatch.setattr(parts, "ENTRIES_KEPT", 10)
    rng, shard = np.random.default_rng(7), lab.stream._shards[0]
    for _ in range(4):
        lab.append(rng, 50)
        lab.stream.seal()
        view = shard.views.committed()
        assert index_of(view) is index_of(view)
        view.close()
        assert len(_kept_parts()._kept) == 1


def test_fork_while_another_thread_looks_begins_anew(lab):
    lab.stream.parts()
    with _kept_parts()._lock:
        found = in_fork(lambda: len(StreamReader.open(lab.root, NAME).parts()))
    assert found == len(lab.stream.parts())
