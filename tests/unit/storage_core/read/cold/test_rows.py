"""Goal: of parts no more row groups are read than can hold what a read asks for.

Method: which groups are read is counted, and the rows are compared with those that blocks gave.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core.parts.row_groups import PartFile
from storage_core.read.cold.blocks import ColdBlocks
from tests.log.parts.parts_lab import FIRST_MS, PartsLab


@pytest.fixture
def groups_read(monkeypatch):
    """The file and the number of each row group that is read."""
    groups: list[tuple[object, int]] = []
    usual = PartFile.read

    def noted(file, group, columns):
        groups.append((file, group))
        return usual(file, group, columns)

    monkeypatch.setattr(PartFile, "read", noted)
    return groups


def test_groups_that_cannot_hold_a_time_are_not_read(tmp_path, groups_read):
    lab = PartsLab(tmp_path)
    lab.append_orders(60_000)
    first, last = FIRST_MS + 20_000, FIRST_MS + 20_010
    before = lab.stream.read(start=first, end=last)
    lab.stream.seal()
    lab.stream.trim()
    groups_read.clear()
    assert lab.stream.read(start=first, end=last).equals(before)
    assert {group for _, group in groups_read} == {2}
    lab.stream.close()


def test_groups_that_cannot_hold_a_key_are_not_read(tmp_path, groups_read):
    lab = PartsLab(tmp_path, key_mode="dictionary", block_records=512)
    keys: list[bytes | None] = [b"device-%02d" % (number % 30) for number in range(60_000)]
    keys[::1000] = [None] * 60
    batch = {"key": pa.array(keys, pa.binary()), "payload": pa.array(keys, pa.binary())}
    times = pa.array(np.arange(60_000) + FIRST_MS)
    lab.stream.append_batch(pa.RecordBatch.from_pydict({"primary": times, **batch}))
    lab.stream.commit()
    lab.stream.seal()
    requested: list[list[bytes | None]] = [[b"device-07"], [None], [b"device-29", None], [b"none"]]
    before = [lab.stream.read(keys=some).to_pylist() for some in requested]
    lab.stream.trim()
    for some, rows in zip(requested, before, strict=True):
        groups_read.clear()
        assert lab.stream.read(keys=some).to_pylist() == rows
        # Of the eight or so; a key reaches at most from one group into the next.
        assert len(set(groups_read)) <= 2 * len(some)
    lab.stream.close()


def test_read_of_a_time_rebuilds_no_blocks(tmp_path, monkeypatch):
    lab = PartsLab(tmp_path, block_records=64, retention=None)
    lab.append(np.random.default_rng(24), 400)
    first, last = FIRST_MS + 100_000, FIRST_MS + 200_000
    before = lab.stream.read(start=first, end=last)
    assert before.num_rows
    lab.stream.seal()
    lab.stream.trim()
    rebuilt: list[Any] = []
    monkeypatch.setattr(ColdBlocks, "block", lambda _blocks, zone: rebuilt.append(zone))
    assert lab.stream.read(start=first, end=last).equals(before)
    assert not rebuilt
    lab.stream.close()
