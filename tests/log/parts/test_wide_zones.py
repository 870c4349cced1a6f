"""Goal: a zone of a million rows whose ids nobody knows answers as the zones of its blocks do.

Method: rows of every kind are trimmed; then one zone stands for all of them, with bounds wider than
its rows', and all reads, expiry, caps and verify are compared with those of a copy that has its own
zones. Pieces are small, so that each zone has many. Once a zone has a million rows, and memory is
measured.
"""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError, ReadRequest, StreamReader
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab, give_up, give_up_a_block
from tests.log.parts.wide_zones import answers, newest_within, small_pieces, widen
from tests.log.readers import scan_one
from tests.log.served import served
from tests.log.workbench import Workbench, rows_of

# A slice of decoded rows, and some windows (cold/blocks.py).
HELD_MAX = 192 * 2**20 + 3 * 16 * 2**20
FEW: dict[str, Any] = {"none": {"ids": [1, 3]}, "dictionary": {"keys": [b"device-1", None]}}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    small_pieces(monkeypatch)


def trimmed_rows(root, key_mode):
    """Return a lab with trimmed rows of every kind and some that are not, which nobody changes."""
    lab = PartsLab(root, key_mode=key_mode, block_records=16)
    rng = np.random.default_rng(5)
    for _ in range(4):
        lab.append(rng, 100)
    lab.stream.seal()
    lab.stream.trim()
    lab.append(rng, 40)
    lab.stream.close()
    return lab


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory):
    return trimmed_rows(tmp_path_factory.mktemp("trimmed"), "none")


def twins_of(lab, root):
    """Yield a copy of a lab with its own zones, and one with a wide zone a shard."""
    own, wide = lab.copied_to(root / "own"), lab.copied_to(root / "wide")
    assert widen(wide.stream) > 200
    yield own, wide
    own.stream.close()
    wide.stream.close()


@pytest.fixture
def twins(trimmed, tmp_path):
    yield from twins_of(trimmed, tmp_path)


@pytest.fixture(scope="module", params=list(FEW))
def readers(request, tmp_path_factory):
    """Readers of twins that nobody changes, and how a few of their rows are asked for."""
    lab = trimmed_rows(tmp_path_factory.mktemp(request.param), request.param)
    for own, wide in twins_of(lab, tmp_path_factory.mktemp("twins")):
        own.stream.close()
        wide.stream.close()
        with (
            StreamReader.open(own.root, NAME) as plain,
            StreamReader.open(wide.root, NAME) as of_wide,
        ):
            yield plain, of_wide, FEW[request.param]


def test_each_read_of_a_wide_zone_shows_what_its_blocks_do(readers):
    own, wide, few = readers
    for shard in range(2):
        assert answers(wide, shard, few) == answers(own, shard, few)


def test_writer_and_server_show_a_wide_zone_as_its_blocks(twins):
    own, wide = twins
    expected = answers(own.stream, 0, FEW["none"])
    assert answers(wide.stream, 0, FEW["none"]) == expected
    wide.stream.close()
    with served(wide.root) as address, StreamReader.open(address, NAME) as reader:
        assert answers(reader, 0, FEW["none"]) == expected


def test_newest_rows_inside_bounds_are_those_of_the_blocks(readers):
    own, wide, _ = readers
    for end in range(FIRST_MS, FIRST_MS + 400_000, 37_000):
        bounds = [{"end": end}, {"end": end, "end_address": 90}, {"start": end, "end_address": 90}]
        for some in bounds:
            assert newest_within(wide, 0, **some) == newest_within(own, 0, **some)


def test_tail_of_some_addresses_begins_and_ends_with_them_wherever(readers):
    own, wide, _ = readers
    for start in range(0, own.committed()[1], 23):
        for end in (start + 1, start + 37, start + 90):
            assert rows_of(wide.tail(1, start, end)) == rows_of(own.tail(1, start, end))


def test_first_row_was_committed_when_its_block_was(readers):
    own, wide, _ = readers
    times = [(row["address"], row["committed_at_ms"]) for row in committed(own)]
    for address, time in times[::11]:
        assert wide.first_committed_ms(0, address) == time


def committed(reader):
    return rows_of(reader.tail(0, columns=["address", "committed_at_ms"]))


def test_verify_of_a_wide_zone_finds_nothing_and_reads_all(twins):
    own, wide = twins
    expected, report = own.stream.verify(), wide.stream.verify()
    assert report.is_clean, report.problems
    assert (report.rows, report.late_rows) == (expected.rows, expected.late_rows)


@pytest.mark.parametrize("minutes", [2, 4, 6])
def test_expiry_leaves_what_it_leaves_of_the_blocks(twins, minutes):
    own, wide = twins
    for lab in (own, wide):
        lab.stream.alter(retention=timedelta(minutes=1))
        lab.stream.expire(now=FIRST_MS + minutes * 60_000)
    assert rows_of(wide.stream.scan()) == rows_of(own.stream.scan())
    assert wide.stream.read([1, 3]).to_pylist() == own.stream.read([1, 3]).to_pylist()
    assert str(wide.stream.latest()) == str(own.stream.latest())
    assert wide.stream.verify().is_clean


@pytest.mark.parametrize("records_max", [250, 60, 10])
def test_caps_take_as_many_rows_as_of_the_blocks(twins, records_max):
    own, wide = twins
    for lab in (own, wide):
        lab.stream.alter(records_max=records_max)
        lab.stream.expire(now=FIRST_MS)
    assert rows_of(wide.stream.scan()) == rows_of(own.stream.scan())
    assert wide.stream.verify().is_clean


def test_compaction_and_further_trims_keep_the_rows(twins):
    own, wide = twins
    for lab in (own, wide):
        lab.stream.compact()
        lab.stream.seal()
        lab.stream.trim()
    assert answers(wide.stream, 0, FEW["none"]) == answers(own.stream, 0, FEW["none"])
    assert wide.stream.verify().is_clean


def test_given_up_addresses_of_a_wide_zone_are_passed_over(twins):
    own, wide = twins
    for shard, lost in give_up_a_block(own.stream).items():
        give_up(wide.stream, shard, lost)
    assert answers(wide.stream, 0, FEW["none"]) == answers(own.stream, 0, FEW["none"])


def test_damaged_part_of_a_wide_zone_is_told_with_its_addresses_and_others_are_read(twins):
    _, wide = twins
    part = next(part for part in wide.stream.parts() if not part.entry.is_out_of_order)
    whole = rows_of(wide.stream.tail(part.shard, 0, part.entry.first))
    part.path.unlink()
    with pytest.raises(CorruptionError, match="a block cannot be read") as refused:
        rows_of(wide.stream.tail(part.shard))
    assert (refused.value.start, refused.value.end) == (part.entry.first, part.entry.last + 1)
    assert rows_of(wide.stream.tail(part.shard, 0, part.entry.first)) == whole


@pytest.mark.parametrize("field", ["count", "late"])
def test_wide_zone_that_counts_other_rows_than_its_parts_is_refused(trimmed, tmp_path, field):
    lab = trimmed.copied_to(tmp_path)
    widen(lab.stream, more={field: 1})
    with pytest.raises(CorruptionError, match="its parts"):
        rows_of(lab.stream.tail(0))
    assert [problem.kind for problem in lab.stream.verify().problems][:1] == ["block"]
    lab.stream.close()


def test_wide_zone_that_leaves_out_rows_of_its_parts_is_refused(trimmed, tmp_path):
    lab = trimmed.copied_to(tmp_path)
    widen(lab.stream, slack=-20_000)
    with pytest.raises(CorruptionError, match="primaries"):
        rows_of(lab.stream.tail(0))
    lab.stream.close()


def test_reads_of_a_million_rows_hold_no_more_than_a_slice_and_some_pieces(tmp_path, monkeypatch):
    monkeypatch.undo()
    bench = Workbench(tmp_path, NAME)
    numbers = np.arange(2**17)
    for first in range(0, 2**20, len(numbers)):
        ids = (numbers % 1000).tolist()
        bench.keep((FIRST_MS + first + numbers).tolist(), secondary=ids, payload=b"%0100d" % 7)
    bench.stream.seal()
    bench.stream.trim()
    assert widen(bench.stream, slack=0) == 2**20
    by_time = ReadRequest(0, order="time", columns=("primary", "payload"))
    for batches in (
        bench.stream.tail(0, 700_000, 700_100),
        bench.stream.tail(0),
        scan_one(bench.stream, by_time),
    ):
        assert most_held(batches) < HELD_MAX
    bench.close()


def most_held(batches):
    """Return the most memory that Arrow holds while batches are taken."""
    begin, most = pa.total_allocated_bytes(), 0
    for _ in batches:
        most = max(most, pa.total_allocated_bytes() - begin)
    assert most
    return most
