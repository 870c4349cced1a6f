"""Goal: a tail of trimmed rows decodes each part once, in bounded memory, and has the same rows.

Method: the bounds are made small, so that some thousand rows are many slices; which groups of files
are read is counted, and the rows are compared with those that the blocks gave.
"""

import weakref
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError
from storage_core.format.keys import INT64_MAX
from storage_core.parts import part_file
from storage_core.parts.footer import footer_of
from storage_core.parts.row_groups import PartFile
from storage_core.read.cold import pieces as cold_pieces
from storage_core.read.cold import slices as cold_slices
from storage_core.read.cold.blocks import ColdBlocks
from storage_core.read.cold.parts import parts_directory
from storage_core.read.cold.rows import ColdRows
from tests.log.parts.parts_lab import FIRST_MS, PartsLab
from tests.thin import covering, thinned
from tests.unit.storage_core.read.cold.test_rows import fill

ROWS = 20_000
GROUP_ROWS = 512
GROUPS = -(-ROWS // GROUP_ROWS)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(cold_slices, "ADDRESSES_FEW", 2048)
    monkeypatch.setattr(cold_pieces, "_SHOWN_ROWS", 300)
    monkeypatch.setattr(part_file, "GROUP_ROWS", GROUP_ROWS)
    return monkeypatch


@pytest.fixture
def read(small):
    """The groups that are read, in order."""
    groups: list[int] = []
    usual = PartFile.read

    def told(file, group, columns):
        groups.append(group)
        return usual(file, group, columns)

    small.setattr(PartFile, "read", told)
    return groups


@pytest.fixture
def lab(tmp_path):
    lab = PartsLab(tmp_path, block_records=1000)
    yield lab
    lab.stream.close()


def trimmed(lab, ids, payloads=None, addresses=None):
    """Trim rows of these ids, all in one shard, and return what a tail gave before."""
    places: dict[str, Any] = {} if addresses is None else {"addresses": addresses, "shard": 0}
    values = [b"value %d" % at for at in range(len(ids))] if payloads is None else payloads
    columns: dict[str, Any] = {
        "primary": pa.array(np.arange(len(ids)) + FIRST_MS),
        "secondary": pa.array(ids.astype(np.int32) * 2),
        "payload": pa.array(values, pa.binary()),
    }
    lab.stream.append_batch(pa.RecordBatch.from_pydict(columns), **places)
    lab.stream.commit()
    before = tail(lab)
    lab.stream.seal()
    lab.stream.trim()
    return before


def tail(lab, first=0, end=None):
    return pa.Table.from_batches(lab.stream.tail(0, first, end)).combine_chunks()


def in_turns(count=ROWS):
    return np.arange(count) % 100


def test_tail_of_all_reads_each_group_once(lab, read):
    before = trimmed(lab, in_turns())
    read.clear()
    assert tail(lab) == before
    assert sorted(read) == list(range(GROUPS))


def test_few_addresses_of_few_ids_read_few_groups(lab, read):
    before = trimmed(lab, np.zeros(ROWS))
    read.clear()
    assert tail(lab, 9000, 9100) == before.slice(9000, 100)
    # Half as much again as the groups of as many addresses as are read anyway.
    assert len(set(read)) <= 1.5 * (2048 // GROUP_ROWS + 1)
    read.clear()
    assert tail(lab) == before
    # At either end of a slice a group may be read twice, once for its addresses.
    assert len(read) <= GROUPS + 3 * (ROWS // 2048)


@thinned("gap", [2048, 100_000, 2**40], count=2)
def test_addresses_that_no_row_has_are_passed_over(lab, read, gap):
    # Each block has rows before a gap of several slices, and behind it.
    addresses = np.arange(ROWS) + (np.arange(ROWS) + 500) // 1000 * gap
    before = trimmed(lab, np.zeros(ROWS), addresses=addresses)
    read.clear()
    assert tail(lab) == before
    # A gap is passed by doubled steps, each of which may read the group that reaches over it.
    assert len(read) <= 2 * GROUPS + ROWS // 1000 * gap.bit_length()
    for at in (0, 499, 500, 10_499, ROWS - 1):
        first = int(addresses[at])
        assert tail(lab, first, first + 1) == before.slice(at, 1)
    gaps = [
        lab.stream.tail(0, int(addresses[at]) + 1, int(addresses[at + 1])) for at in (499, 1499)
    ]
    assert not [rows for gap_rows in gaps for rows in gap_rows if rows.num_rows]


def test_slice_takes_no_more_memory_than_it_is_meant_to(lab, small):
    # A row in fifty has half of all bytes.
    payloads = [bytes(5000) if at % 50 == 7 else bytes(100) for at in range(ROWS)]
    before = trimmed(lab, in_turns(), payloads)
    bytes_max = 400_000
    small.setattr(cold_slices, "SLICE_BYTES", bytes_max)
    small.setattr(cold_pieces, "SLICE_BYTES", bytes_max)
    small.setattr(cold_pieces, "SHOWN_BYTES", 40_000)
    held: list[int] = []
    shown: list[int] = []
    usual, usual_shown = ColdRows.decoded, ColdRows.shown

    def decoded(rows, some, columns):
        parts = usual(rows, some, columns)
        held.append(sum(one.rows.nbytes for one in parts))
        return parts

    def told(rows, part, first, behind, columns):
        shown.append(behind - first)
        return usual_shown(rows, part, first, behind, columns)

    small.setattr(ColdRows, "decoded", decoded)
    small.setattr(ColdRows, "shown", told)
    assert tail(lab) == before
    assert len(held) > 1
    # What rows take is the mean of those of their groups.
    assert max(held) <= 1.2 * bytes_max
    assert max(shown) < 300


def test_others_are_let_go_before_more_is_held(lab, small):
    before = trimmed(lab, np.zeros(ROWS))
    view = lab.stream._shards[0].views.committed()
    directory = parts_directory(lab.stream._shards[0].context.directory)
    small.setattr(cold_pieces, "SLICE_BYTES", 400_000)
    pieces = cold_pieces.ColdPieces(ColdRows(view, directory), ("address", "payload"))
    for first in (0, 9000, 19_000, 3000, 9000):
        rows = pa.Table.from_batches(pieces.between(first, first + 50)).combine_chunks()
        assert rows == before.select(["address", "payload"]).slice(first, 50)
        assert sum(one.bytes_held for one in pieces._pieces.values()) <= 400_000
    assert len(pieces._pieces) > 1
    view.close()


@pytest.mark.usefixtures("small")
def test_rows_that_are_shown_are_let_go_as_others_are(lab):
    before = trimmed(lab, in_turns())
    view = lab.stream._shards[0].views.committed()
    directory = parts_directory(lab.stream._shards[0].context.directory)
    pieces = cold_pieces.ColdPieces(ColdRows(view, directory), ("address", "payload"))
    found = []
    for rows in pieces.between(0, ROWS):
        found.append(rows)
        # What is asked for next may reach into those before.
        assert len(pieces._shown) <= 2
    assert pa.Table.from_batches(found).combine_chunks() == before.select(["address", "payload"])
    view.close()


def test_rows_beside_damaged_ones_are_read_and_the_damage_is_looked_for_once(lab, small):
    before = trimmed(lab, np.zeros(ROWS))
    part = lab.stream.parts()[0]
    data = bytearray(part.path.read_bytes())
    foot = footer_of(part.path, part.entry.proof)
    chunks = len(foot.table.offsets) // GROUPS
    # The last chunk of a group in the middle.
    data[int(foot.table.offsets[(GROUPS // 2 + 1) * chunks - 1])] ^= 1
    part.path.write_bytes(data)
    tried: list[int] = []
    usual = ColdRows.decoded

    def decoded(rows, some, columns):
        tried.append(some.range.start)
        return usual(rows, some, columns)

    small.setattr(ColdRows, "decoded", decoded)
    view = lab.stream._shards[0].views.committed()
    told: list[Any] = []
    found = lost = 0
    for zone in view.zones(0, ROWS):
        try:
            block = view.block(zone)
        except CorruptionError as error:
            told.append(error.path)
            lost += zone.count
        else:
            wanted = before.column("payload").slice(zone.first, zone.count).combine_chunks()
            assert block.batch.column("payload") == wanted
            found += zone.count
    view.close()
    # A group reaches at most into one block more.
    assert told in ([part.path], [part.path] * 2)
    assert found == ROWS - lost
    assert len(tried) == len(set(tried))


def test_view_that_is_closed_holds_no_rows(lab):
    trimmed(lab, in_turns(3000))
    view = lab.stream._shards[0].views.committed()
    zone = next(view.zones(0, INT64_MAX))
    assert view.block(zone).batch.num_rows == zone.count
    assert isinstance(view.trimmed, ColdBlocks)
    held = weakref.ref(view.trimmed._pieces)
    view.close()
    assert held() is None


@covering(seed=[0, 1], key_mode=["none", "dictionary"])
def test_tail_of_parts_of_every_kind_is_that_of_blocks(tmp_path, small, seed, key_mode):
    rng = np.random.default_rng(seed)
    small.setattr(cold_slices, "ADDRESSES_FEW", 64)
    small.setattr(cold_pieces, "_SHOWN_ROWS", int(rng.integers(5, 90)))
    lab = PartsLab(tmp_path, key_mode=key_mode, block_records=64)
    fill(lab, rng)
    size = int(rng.integers(2000, 200_000))
    for name in (cold_slices, cold_pieces):
        small.setattr(name, "SLICE_BYTES", size)
    before = [rows_of(lab, shard) for shard in range(2)]
    lab.stream.trim()
    assert [rows_of(lab, shard) for shard in range(2)] == before
    lab.stream.compact()
    assert [rows_of(lab, shard) for shard in range(2)] == before
    lab.stream.close()


def rows_of(lab, shard):
    with closing(lab.stream._shards[shard].views.committed()) as view:
        start = view.state.start
    return [row for batch in lab.stream.tail(shard, start) for row in batch.to_pylist()]
