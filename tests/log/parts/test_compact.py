"""Goal: compaction leaves few parts, with the same rows, whatever comes between.

Method: streams of every kind of row are sealed bit by bit and compacted; the parts are read by
pyarrow alone and compared with what the log tells, also where a file is damaged, a kill comes, or
a reader holds a moment before.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest

from storage_core import StreamReader
from tests.log.on_disk import newest
from tests.log.parts.parts_lab import NAME, PartsLab

DAY_MS = 86_400_000


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root, key_mode=key_mode)
    yield lab
    lab.stream.close()


def sealed_often(lab, seed, times=6, count=60):
    """Append and seal a few rows at a time."""
    rng = np.random.default_rng(seed)
    for _ in range(times):
        lab.append(rng, count)
        lab.stream.seal()
    return lab.rows()


def generations_of(lab):
    """Return the generation of each shard, for a new one of which readers open its store anew."""
    markers = sorted((lab.root / NAME).glob("shard-*/marker"))
    return [newest(marker).generation for marker in markers]


def test_neighbours_become_one_with_the_same_rows(lab):
    rows = sealed_often(lab, 1)
    before = lab.stream.parts()
    reported: list[int] = []
    report = lab.stream.compact(reported.append)
    after = lab.stream.parts()
    assert lab.rows_of_parts() == rows
    assert lab.stream.verify().problems == ()
    assert len(after) == len(before) - report.parts_obsolete + report.parts_built < len(before) // 2
    assert {one.entry.level for one in after} <= {0, 1}
    assert sum(one.entry.rows for one in after if one.entry.level) == report.rows == reported[-1]
    assert sum(one.entry.size for one in after if one.entry.level) == report.bytes_built
    assert lab.stream.compact().rows == 0


def test_reader_beside_sees_merged_parts_though_no_row_came(lab):
    sealed_often(lab, 3)
    with StreamReader.open(lab.root, NAME) as reader:
        before, generations = reader.parts(), generations_of(lab)
        assert before == lab.stream.parts()
        assert lab.stream.compact().parts_built
        reader.refresh()
        assert reader.parts() == lab.stream.parts() != before
    assert all(now > then for now, then in zip(generations_of(lab), generations, strict=True))


def test_joined_parts_are_joined_in_turn(root):
    lab = PartsLab(root)
    for seed in range(5):
        sealed_often(lab, seed, times=5, count=20)
        lab.stream.compact()
    assert max(one.entry.level for one in lab.stream.parts()) == 2
    assert lab.rows_of_parts() == lab.rows()
    lab.stream.close()


def test_new_schema_shows_older_values_too(root):
    lab = PartsLab(root)
    sealed_often(lab, 2)
    lab.stream.compact()
    (telemetry,) = (
        part
        for part in lab.stream.parts()
        if part.shard == 0 and part.entry.kind == "Telemetry" and not part.entry.is_out_of_order
    )
    names = pq.read_schema(telemetry.path).names
    assert {"temperature", "humidity"} <= set(names)
    lab.stream.close()


def test_damaged_joined_part_is_made_again(lab):
    rows = sealed_often(lab, 6)
    lab.stream.compact()
    joined = max(lab.stream.parts(), key=lambda one: one.entry.rows)
    joined.path.unlink()
    lab.stream.seal(rebuild=True)
    assert lab.rows_of_parts() == rows
    assert max(one.entry.level for one in lab.stream.parts()) == 1
