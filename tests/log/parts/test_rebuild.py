"""Goal: a part that is damaged or gone is made again, and says what it said.

Method: files of parts are cut, changed and removed; what is made again is read by pyarrow alone and
compared with what the log tells, also where rows have expired since, are lost, or a kill comes.
"""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from storage_core import LostRangeError, StreamReader
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab

DAY_MS = 86_400_000


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root, key_mode=key_mode)
    yield lab
    lab.stream.close()


def one_byte_other(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def half_gone(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_some(parts):
    """Damage every third part in one of three ways."""
    chosen = parts[::3]
    for number, part in enumerate(chosen):
        (one_byte_other, half_gone, Path.unlink)[number % 3](part.path)
    return chosen


def test_damaged_parts_have_their_rows_again(lab):
    rng = np.random.default_rng(1)
    for _ in range(3):
        lab.append(rng, 300)
        lab.stream.seal()
    rows = lab.rows()
    lab.append(rng, 50)
    before = lab.stream.parts()
    damaged = damage_some(before)
    report = lab.stream.seal(rows_min=10**9, rebuild=True)
    rebuilt = [(n, step.obsolete) for n, done in report.shards.items() for step in done.steps]
    assert rebuilt == [(part.shard, (part.entry,)) for part in damaged]
    assert lab.rows_of_parts() == rows
    after = lab.stream.parts()
    assert [one for one in after if one in before] == [one for one in before if one not in damaged]
    entries = [[part.entry for part in parts] for parts in (before, after)]
    seen = [[(one.kind, one.is_out_of_order, one.rows) for one in some] for some in entries]
    assert seen[0] == seen[1]
    assert lab.stream.verify().problems == ()


def test_nothing_is_made_again_where_all_is_well(lab):
    lab.append(np.random.default_rng(2), 200)
    lab.stream.seal()
    before = lab.stream.parts()
    report = lab.stream.seal(rebuild=True)
    assert report.is_idle
    assert lab.stream.parts() == before


def test_reader_in_another_place_sees_the_part_that_was_made_again(lab):
    lab.append(np.random.default_rng(3), 200)
    lab.stream.seal()
    with StreamReader.open(lab.root, NAME) as reader:
        damaged = damage_some(reader.parts())
        lab.stream.seal(rebuild=True)
        reader.refresh()
        assert reader.parts() == lab.stream.parts()
        assert not any(one in reader.parts() for one in damaged)
        assert sum(pq.read_table(one.path).num_rows for one in reader.parts()) == 200


def test_rows_that_have_expired_since_are_not_made_again(tmp_path):
    lab = PartsLab(tmp_path, retention=None, block_records=20)
    rng = np.random.default_rng(4)
    lab.append(rng, 400)
    lab.stream.seal()
    for part in lab.stream.parts():
        part.path.unlink()
    # Of 400 seconds the last two hundred stay.
    lab.stream.alter(retention=timedelta(days=1))
    floor = FIRST_MS + 200_000
    lab.stream.expire(now=floor + DAY_MS)
    report = lab.stream.seal(rebuild=True)
    assert report.parts_obsolete
    left = [(row["shard"], row["address"]) for row in lab.rows_left(floor)]
    made = {(row["shard"], row["address"]) for row in lab.rows_of_parts()}
    assert made.issuperset(left)
    assert lab.stream.verify().problems == ()
    lab.stream.expire(now=FIRST_MS + 3 * DAY_MS)
    assert lab.stream.parts() == []
    lab.stream.close()


def test_part_whose_rows_are_lost_too_stays_and_is_told(make_bench):
    bench = make_bench()
    for first in range(0, 50, 10):
        bench.keep(range(first, first + 10))
    bench.stream.seal()
    (part,) = bench.stream.parts()
    part.path.unlink()
    bench.close()
    bench.damage_block(20)
    bench.open()
    for _ in range(2):
        with pytest.raises(LostRangeError, match=part.path.name) as raised:
            bench.stream.seal(rebuild=True)
        assert (raised.value.shard, raised.value.start, raised.value.end) == (0, 20, 30)
    assert bench.stream.parts() == [part]
    bench.stream.accept_loss(0, 20, 30)
    (step,) = bench.stream.seal(rebuild=True).steps
    assert (step.kind, step.rows) == ("rebuild", 40)
