"""Goal: parts give the very rows that their blocks give, for any filter, bit for bit.

Method: random rows of every kind are appended, some sealed, some expired; random filters are then
asked of the zones and blocks below where sealing stands, and of the parts.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError, SchemaEntry
from storage_core.avro import encode_batch
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import HEADERS_TYPE
from storage_core.format.shard_state import AddressRange
from storage_core.parts.part_proof import are_same
from storage_core.parts.row_groups import PartFile
from storage_core.read.cold.blocks import ColdBlocks
from storage_core.read.cold.parts import parts_directory
from storage_core.read.cold.rows import ColdRows
from storage_core.read.columns import COLUMNS
from storage_core.read.request import ReadRequest
from storage_core.read.row_filter import filter_for
from storage_core.read.rows import in_order
from storage_core.read.scan.scan import flagged_rows, scan_arrival, scan_pieces
from tests.log.parts.parts_lab import FIRST_MS, IDS, PartsLab, schema_of
from tests.thin import thinned

SHOWN = tuple(name for name in COLUMNS if not name.startswith("schema"))
DAY_MS = 86_400_000


@pytest.fixture(params=["none", "dictionary"])
def lab(request, root):
    lab = PartsLab(root, key_mode=request.param, block_records=64, retention=None)
    yield lab
    lab.stream.close()


class Sides:
    """The sealed rows of one shard: from its blocks, and from its parts."""

    def __init__(self, lab, number):
        shard = lab.stream._shards[number]
        self.view = shard.views.committed()
        self.cold = ColdRows(self.view, parts_directory(shard.context.directory))

    def filter(self, **asked):
        if asked["order"] == "replay":
            asked["expired_until"] = self.view.state.generation
        request = ReadRequest(self.view.shard, **asked)
        wanted = filter_for(self.view.state, self.view.state.sealed, request)
        assert wanted.address_end <= self.view.state.sealed
        return wanted

    def runs(self, wanted):
        begin = max(wanted.address_start, self.view.state.start)
        zones = self.view.zones(begin, wanted.address_end)
        return [AddressRange(zone.first, zone.end) for zone in zones]

    def by_address(self, wanted):
        runs, columns = self.runs(wanted), tuple(dict.fromkeys((*wanted.columns, "address")))
        whole = replace(wanted, columns=columns)
        at, end = (runs[0].start, runs[-1].end) if runs else (0, 0)
        found = []
        while (one := self.cold.slices.at(at, end)) is not None:
            inside = AddressRange(max(at, one.range.start), one.range.end)
            rows = self.cold.in_order(one, within(runs, inside), whole)
            assert at < inside.end
            found.append(rows.select(list(wanted.columns)))
            at = inside.end
        return found

    def expect_same_by_address(self, wanted):
        blocks = [rows for rows, _ in scan_arrival(self.view, wanted)]
        expect_same(blocks, self.by_address(wanted))

    def expect_same_normal(self, wanted):
        flagged = sum(rows.num_rows for rows in flagged_rows(self.view, wanted))
        pieces = [*scan_pieces(self.view, wanted)]
        rows = in_order(pieces, ("address",), wanted.columns) if pieces else None
        blocks = [] if rows is None else [rows.filter(pa.array(is_normal(rows)))]
        assert flagged + sum(one.num_rows for one in blocks) == (rows.num_rows if rows else 0)
        parts = [*self.cold.normal(wanted, self.runs(wanted))]
        expect_same(blocks, [in_order(parts, ("address",), wanted.columns)] if parts else [])


def within(runs, some):
    """Return what of runs lies in a range."""
    cut = [AddressRange(max(one.start, some.start), min(one.end, some.end)) for one in runs]
    return [one for one in cut if one.start < one.end]


def is_normal(rows):
    return rows.column("state").to_numpy() == 0


def expect_same(some, others):
    one, other = table_of(some), table_of(others)
    if one is None or other is None or not one.num_rows or not other.num_rows:
        assert [table.num_rows for table in (one, other) if table is not None and len(table)] == []
    else:
        assert one.schema.types == other.schema.types
        assert are_same(one, other)


def table_of(batches):
    return pa.Table.from_batches(batches) if batches else None


def append_more(lab, rng, count):
    """Append rows with versions and headers, and some that are ahead of the clock."""
    times = FIRST_MS + rng.integers(0, 2_000_000, count)
    times[rng.random(count) < 0.1] = lab.stream._environment.clock.now_ns() // 10**6 + 9 * DAY_MS
    headers = [[{"key": "h", "value": b"%d" % at}] if at % 3 else None for at in range(count)]
    ids = rng.integers(0, IDS, count).astype(np.int32)
    keys = [None if one == 0 else b"device-%d" % one for one in ids]
    who = {"key": pa.array(keys, pa.binary())} if lab.has_keys else {"secondary": pa.array(ids)}
    columns: dict[str, Any] = {
        "primary": pa.array(times),
        "version": pa.array(rng.integers(0, 3, count).astype(np.uint16)),
        "payload": pa.array([b"more %d" % at if at % 5 else None for at in range(count)]),
        "headers": pa.array(headers, HEADERS_TYPE),
        "timestamp_type": pa.array(np.ones(count, np.int8)),
    }
    lab.stream.append_batch(pa.RecordBatch.from_pydict(who | columns))
    lab.stream.commit()


def fill(lab, rng):
    """Append rows of every kind in small commits, seal now and then, and let some expire."""
    for _ in range(6):
        lab.append(rng, int(rng.integers(1, 200)))
        append_more(lab, rng, int(rng.integers(1, 200)))
        if rng.random() < 0.5:
            lab.stream.seal()
    lab.stream.seal()
    append_more(lab, rng, 100)
    if rng.random() < 0.5:
        lab.stream.alter(retention=timedelta(days=1))
        lab.stream.expire(now=FIRST_MS + DAY_MS + int(rng.integers(0, 400_000)))


def some_filter(sides, rng, order):
    first, end = sorted((FIRST_MS + rng.integers(-100_000, 2_000_000, 2)).tolist())
    begin, to = sorted(rng.integers(0, sides.view.state.sealed + 1, 2).tolist())
    columns = rng.permutation(SHOWN)[: int(rng.integers(0, len(SHOWN)))].tolist()
    asked = {
        "order": order,
        "columns": tuple(dict.fromkeys((*columns, "state", "address"))),
        "versions": (1, 2) if rng.random() < 0.3 else None,
    }
    if rng.random() < 0.6:
        asked |= {"start": first, "end": end}
    if rng.random() < 0.6:
        asked |= {"start_address": max(begin, sides.view.state.start), "end_address": to}
    if rng.random() < 0.5:
        asked["ids"] = tuple(rng.choice(np.arange(-1, IDS + 1), 2).tolist())
    return sides.filter(**asked)


@thinned("seed", range(8), count=1)
def test_parts_give_the_rows_of_blocks_for_any_filter(lab, seed):
    rng = np.random.default_rng(seed)
    fill(lab, rng)
    for number in range(2):
        sides = Sides(lab, number)
        for _ in range(20):
            # Rows that were ahead outlive their blocks: an arrival has them from their copies.
            is_whole = sides.view.state.start == sides.view.state.born
            order = "arrival" if is_whole and rng.random() < 0.5 else "replay"
            sides.expect_same_by_address(some_filter(sides, rng, order))
            sides.expect_same_normal(some_filter(sides, rng, "primary"))
        sides.view.close()


def test_rows_show_the_numbers_of_their_schemas(lab):
    lab.append(np.random.default_rng(20), 300)
    lab.stream.seal()
    sides = Sides(lab, 0)
    asked = sides.filter(order="replay", columns=("address", "payload"))
    for columns in [("schema", "address"), ("schema",), ("address", "schema", "payload")]:
        sides.expect_same_by_address(replace(asked, columns=columns))
    sides.view.close()


def test_rows_of_an_older_schema_alone_are_made_again(tmp_path):
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    number = {"name": "number", "type": "long"}
    share = {"name": "share", "type": ["null", wide], "default": None}
    older, newer = schema_of([number]), schema_of([number, share])
    entries = [SchemaEntry(at, one.identity, one.text) for at, one in enumerate([older, newer])]
    bodies: list[Any] = encode_batch(pa.table({"number": [1, 2]}), older).to_pylist()
    lab = PartsLab(tmp_path)
    columns: dict[str, Any] = {
        "primary": pa.array([FIRST_MS, FIRST_MS + 1, FIRST_MS + 2]),
        "secondary": pa.array([2, 2, 2], pa.int32()),
        "payload": pa.array([*bodies, bodies[0] + b"\x00"], pa.binary()),
        "schema": pa.array([0, 0, 1], pa.int32()),
    }
    lab.stream.append_batch(pa.RecordBatch.from_pydict(columns), schemas=entries)
    lab.stream.commit()
    lab.stream.seal()
    sides = Sides(lab, 0)
    sides.expect_same_by_address(sides.filter(order="replay", end=FIRST_MS + 1))
    sides.view.close()
    lab.stream.close()


def test_rows_of_no_columns_are_counted(lab):
    lab.append(np.random.default_rng(21), 300)
    lab.stream.seal()
    sides = Sides(lab, 0)
    wanted = sides.filter(order="replay", columns=())
    count = sum(rows.num_rows for rows in sides.by_address(wanted))
    assert count == sum(rows.num_rows for rows, _ in scan_arrival(sides.view, wanted))
    sides.view.close()


def test_groups_that_cannot_hold_what_is_wanted_are_not_read(tmp_path, monkeypatch):
    lab = PartsLab(tmp_path)
    lab.append_orders(60_000)
    lab.stream.seal()
    read: list[int] = []
    usual = PartFile.read

    def told(file, group, columns):
        read.append(group)
        return usual(file, group, columns)

    monkeypatch.setattr(PartFile, "read", told)
    for shard in range(2):
        sides = Sides(lab, shard)
        wanted = sides.filter(order="primary", start=FIRST_MS + 20_000, end=FIRST_MS + 20_010)
        rows = [*sides.cold.normal(wanted, sides.runs(wanted))]
        assert sum(one.num_rows for one in rows) == (11 if sides.view.state.sealed else 0)
        sides.view.close()
    assert set(read) == {2}
    lab.stream.close()


def test_read_of_a_time_makes_no_blocks_of_parts(lab, monkeypatch):
    lab.append(np.random.default_rng(24), 400)
    first, last = FIRST_MS + 100_000, FIRST_MS + 200_000
    before = lab.stream.read(start=first, end=last)
    assert before.num_rows
    lab.stream.seal()
    lab.stream.trim()
    made: list[Any] = []
    monkeypatch.setattr(ColdBlocks, "block", lambda _blocks, zone: made.append(zone))
    assert lab.stream.read(start=first, end=last).equals(before)
    assert not made


def test_groups_that_cannot_hold_a_key_are_not_read(tmp_path, monkeypatch):
    lab = PartsLab(tmp_path, key_mode="dictionary", block_records=512)
    keys: list[bytes | None] = [b"device-%02d" % (at % 30) for at in range(60_000)]
    keys[::1000] = [None] * 60
    batch = {"key": pa.array(keys, pa.binary()), "payload": pa.array(keys, pa.binary())}
    times = pa.array(np.arange(60_000) + FIRST_MS)
    lab.stream.append_batch(pa.RecordBatch.from_pydict({"primary": times, **batch}))
    lab.stream.commit()
    lab.stream.seal()
    asked: list[list[bytes | None]] = [[b"device-07"], [None], [b"device-29", None], [b"none"]]
    before = [lab.stream.read(keys=some).to_pylist() for some in asked]
    lab.stream.trim()
    read: list[tuple[object, int]] = []
    usual = PartFile.read

    def told(file, group, columns):
        read.append((file, group))
        return usual(file, group, columns)

    monkeypatch.setattr(PartFile, "read", told)
    for some, rows in zip(asked, before, strict=True):
        read.clear()
        assert lab.stream.read(keys=some).to_pylist() == rows
        # Of the eight or so; a key reaches at most from one group into the next.
        assert len(set(read)) <= 2 * len(some)
    lab.stream.close()


def test_damaged_part_is_told_with_its_file(lab):
    lab.append(np.random.default_rng(22), 300)
    lab.stream.seal()
    part = lab.stream.parts()[0]
    data = bytearray(part.path.read_bytes())
    data[40:60] = bytes(20)
    part.path.write_bytes(data)
    sides = Sides(lab, part.shard)
    wanted = sides.filter(order="replay")
    with pytest.raises(CorruptionError, match=part.path.name):
        sides.by_address(wanted)
    sides.view.close()


def test_whole_range_of_primaries_is_every_row(lab):
    append_more(lab, np.random.default_rng(23), 500)
    lab.stream.seal()
    sides = Sides(lab, 1)
    sides.expect_same_by_address(sides.filter(order="replay", start=INT64_MIN, end=INT64_MAX))
    sides.view.close()
