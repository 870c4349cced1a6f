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
from storage_core.parts.snapshot import parts_directory
from storage_core.read.cold import blocks as cold_blocks
from storage_core.read.cold import slices as cold_slices
from storage_core.read.cold.rows import ColdRows
from tests.log.parts.parts_lab import FIRST_MS, PartsLab
from tests.thin import thinned

ROWS = 20_000
GROUP_ROWS = 512
GROUPS = -(-ROWS // GROUP_ROWS)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(cold_slices, "ADDRESSES_FEW", 2048)
    monkeypatch.setattr(cold_blocks, "_WINDOW_ROWS", 300)
    monkeypatch.setattr(part_file, "GROUP_ROWS", GROUP_ROWS)
    return monkeypatch


@pytest.fixture
def read(small):
    """The groups that are read, in order."""
    groups: list[int] = []
    usual = PartFile.read

    def noted(file, group, columns):
        groups.append(group)
        return usual(file, group, columns)

    small.setattr(PartFile, "read", noted)
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
    for position in (0, 499, 500, 10_499, ROWS - 1):
        first = int(addresses[position])
        assert tail(lab, first, first + 1) == before.slice(position, 1)
    gaps = [
        lab.stream.tail(0, int(addresses[row]) + 1, int(addresses[row + 1])) for row in (499, 1499)
    ]
    assert not [rows for gap_rows in gaps for rows in gap_rows if rows.num_rows]


def test_slice_takes_no_more_memory_than_it_is_meant_to(lab, small):
    # A row in fifty has half of all bytes.
    payloads = [bytes(5000) if at % 50 == 7 else bytes(100) for at in range(ROWS)]
    before = trimmed(lab, in_turns(), payloads)
    bytes_max = 400_000
    small.setattr(cold_slices, "SLICE_BYTES", bytes_max)
    small.setattr(cold_blocks, "SLICE_BYTES", bytes_max)
    small.setattr(cold_blocks, "WINDOW_BYTES", 40_000)
    held: list[int] = []
    windows: list[int] = []
    usual, usual_shown = ColdRows.decoded, ColdRows.as_log_rows

    def decoded(rows, some, columns):
        parts = usual(rows, some, columns)
        held.append(sum(one.rows.nbytes for one in parts))
        return parts

    def noted(rows, part, first, behind, columns):
        windows.append(behind - first)
        return usual_shown(rows, part, first, behind, columns)

    small.setattr(ColdRows, "decoded", decoded)
    small.setattr(ColdRows, "as_log_rows", noted)
    assert tail(lab) == before
    assert len(held) > 1
    # What rows take is the mean of those of their groups.
    assert max(held) <= 1.2 * bytes_max
    assert max(windows) < 300


def test_rows_beside_damaged_ones_are_read_and_the_damage_is_looked_for_once(lab, small):
    before = trimmed(lab, np.zeros(ROWS))
    part = lab.stream.parts()[0]
    data = bytearray(part.path.read_bytes())
    footer = footer_of(part.path, part.entry.proof)
    chunks = len(footer.table.offsets) // GROUPS
    # The last chunk of a group in the middle.
    data[int(footer.table.offsets[(GROUPS // 2 + 1) * chunks - 1])] ^= 1
    part.path.write_bytes(data)
    tried: list[int] = []
    usual = ColdRows.decoded

    def decoded(rows, some, columns):
        tried.append(some.range.start)
        return usual(rows, some, columns)

    small.setattr(ColdRows, "decoded", decoded)
    snapshot = lab.stream._shards[0].snapshots.committed()
    damaged: list[Any] = []
    readable = lost = 0
    for zone in snapshot.zones(0, ROWS):
        try:
            block = snapshot.block(zone)
        except CorruptionError as error:
            damaged.append(error.path)
            lost += zone.count
        else:
            wanted = before.column("payload").slice(zone.first, zone.count).combine_chunks()
            assert block.batch.column("payload") == wanted
            readable += zone.count
    snapshot.close()
    # A group reaches at most into one block more.
    assert damaged in ([part.path], [part.path] * 2)
    assert readable == ROWS - lost
    assert len(tried) == len(set(tried))


def test_slices_go_before_more_is_held(lab, small):
    before = trimmed(lab, np.zeros(ROWS))
    small.setattr(cold_blocks, "SLICE_BYTES", 400_000)
    with closing(lab.stream._shards[0].snapshots.committed()) as snapshot:
        blocks = blocks_of(lab, snapshot)
        for first in (0, 9000, 19_000, 3000, 9000):
            rows = pa.Table.from_batches(blocks.between(first, first + 50)).combine_chunks()
            assert rows.select(["address", "payload"]) == before.select(
                ["address", "payload"]
            ).slice(first, 50)
            assert sum(decoded.bytes_held for decoded in blocks._decoded.values()) <= 400_000
        assert len(blocks._decoded) > 1


@pytest.mark.usefixtures("small")
def test_windows_go_as_others_are_made(lab):
    before = trimmed(lab, in_turns())
    with closing(lab.stream._shards[0].snapshots.committed()) as snapshot:
        blocks = blocks_of(lab, snapshot)
        batches = []
        for rows in blocks.between(0, ROWS):
            batches.append(rows)
            # What is asked for next may reach into those before.
            assert len(blocks._windows) <= 2
    rows = pa.Table.from_batches(batches).combine_chunks().select(["address", "payload"])
    assert rows == before.select(["address", "payload"])


def test_snapshot_that_is_closed_holds_no_rows(lab):
    trimmed(lab, in_turns(3000))
    snapshot = lab.stream._shards[0].snapshots.committed()
    zone = next(snapshot.zones(0, INT64_MAX))
    assert snapshot.block(zone).batch.num_rows == zone.count
    held = weakref.ref(snapshot.trimmed)
    snapshot.close()
    assert held() is None


def blocks_of(lab, snapshot):
    directory = parts_directory(lab.stream._shards[0].context.directory)
    return cold_blocks.ColdBlocks(snapshot, directory)
