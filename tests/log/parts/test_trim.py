"""Goal: whatever is trimmed, each read shows what it showed before, or says which part is damaged.

Method: random rows of every kind; what the writer and a reader beside it answer to random requests
is compared before and behind a trim, behind a reopening, and once rows have expired on both sides.
SHARDLOG_FAULT_COLD says of how many seeds.
"""

import os
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from storage_core import (
    HEADERS_TYPE,
    CorruptionError,
    Environment,
    InvalidRequestError,
    LostRangeError,
    Stream,
    StreamReader,
)
from storage_core.testing import ManualClock
from tests.log.parts.parts_lab import (
    FIRST_MS,
    IDS,
    NAME,
    PartsLab,
    forge,
    small_segments,
)
from tests.snapshots import bytes_of
from tests.thin import rounds, thinned

SEEDS = rounds("SHARDLOG_FAULT_COLD", few=1, many=4)
DAY_MS = 86_400_000
# Some rows of the lab have times far ahead of the clock.
AHEAD_MS = FIRST_MS + 365 * DAY_MS
HOUR_S = 3600
YEAR_2100_MS = 4_102_444_800_000
COLUMNS = ["shard", "address", "primary", "version", "state", "payload", "headers", "timestamp"]
MORE = ["timestamp_type", "committed_at_ms", "late", "schema_id", "schema_fingerprint", "key"]
ORDERS = ("read", "scan", "latest", "tail")


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root, key_mode=key_mode, block_records=64, retention=None)
    yield lab
    lab.stream.close()


def append_ahead(lab, rng, count):
    """Append rows with headers and versions, one in ten of them ahead of the clock."""
    times = FIRST_MS + rng.integers(0, 2_000_000, count)
    times[rng.random(count) < 0.1] = YEAR_2100_MS
    ids = rng.integers(0, IDS, count).astype(np.int32)
    keys = [None if one == 0 else b"device-%d" % one for one in ids]
    owner = {"key": pa.array(keys, pa.binary())} if lab.has_keys else {"secondary": pa.array(ids)}
    headers = [[{"key": "h", "value": b"%d" % at}] if at % 3 else None for at in range(count)]
    columns: dict[str, Any] = {
        "primary": pa.array(times),
        "version": pa.array(rng.integers(0, 3, count).astype(np.uint16)),
        "payload": pa.array([b"more %d" % at if at % 5 else None for at in range(count)]),
        "headers": pa.array(headers, HEADERS_TYPE),
        "timestamp_type": pa.array(np.ones(count, np.int8)),
    }
    lab.stream.append_batch(pa.RecordBatch.from_pydict(owner | columns))
    lab.stream.commit()


def fill(lab, rng, times=4):
    """Append rows of every kind in small commits, sealed now and then, the last ones not."""
    for _ in range(times):
        for _ in range(3):
            lab.append(rng, int(rng.integers(1, 4)))
        lab.append(rng, int(rng.integers(1, 150)))
        append_ahead(lab, rng, int(rng.integers(1, 150)))
        if rng.random() < 0.8:
            lab.stream.seal()
    lab.stream.seal()
    append_ahead(lab, rng, 100)


def some_requests(lab, rng, count):
    """Return random bounds, and which of `ORDERS` are asked, in turn."""
    result = []
    for number in range(count):
        query: dict[str, Any] = {}
        first, end = sorted((FIRST_MS + rng.integers(-100_000, 2_000_000, 2)).tolist())
        if rng.random() < 0.6:
            query |= {"start": first, "end": end}
        if rng.random() < 0.5:
            ids = rng.choice(np.arange(IDS + 1), 2).tolist()
            query["keys" if lab.has_keys else "ids"] = (
                [b"device-%d" % one for one in ids] if lab.has_keys else ids
            )
        result.append((ORDERS[number % len(ORDERS)], query, int(rng.integers(0, 500))))
    return result


def answers(reads, requests, owner):
    return [answer(reads, one, owner) for one in requests]


def answer(reads, request, owner):
    order, query, address = request
    columns = list(dict.fromkeys([*COLUMNS, *MORE, owner]))
    if order == "tail":
        return [tailed(reads, shard, address, columns) for shard in range(2)]
    if order == "latest":
        result = reads.latest(query.get("ids"), keys=query.get("keys"))
        return sorted(map(str, result.items()))
    if order == "read":
        return sorted(map(str, reads.read(**query, columns=columns).to_pylist()))
    return [str(row) for some in reads.scan(**query, columns=columns) for row in some.to_pylist()]


def tailed(reads, shard, address, columns):
    """Return rows from an address on, or from where the log begins if it begins behind."""
    try:
        result = reads.tail(shard, address, columns=columns)
        return [str(row) for some in result for row in some.to_pylist()]
    except LostRangeError as error:
        return str((error.start, error.end))


class Sides:
    """All that a stream answers: its writer, and a reader that stays open."""

    def __init__(self, lab, rng):
        self.lab, self.requests = lab, some_requests(lab, rng, 6)
        self.reader = StreamReader.open(lab.root, NAME)

    def answers(self):
        result = answers(self.lab.stream, self.requests, self.lab.id_column)
        assert answers(self.reader, self.requests, self.lab.id_column) == result
        return result


@pytest.mark.parametrize("key_mode", ["none", "dictionary"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_read_shows_what_was_trimmed(lab, seed):
    rng = np.random.default_rng(seed)
    fill(lab, rng)
    sides = Sides(lab, rng)
    before = sides.answers()
    report = lab.stream.trim()
    assert report.rows > 0
    assert sides.answers() == before
    lab.stream.compact()
    assert answers(sides.reader, sides.requests, lab.id_column) == before
    lab.reopen()
    assert answers(lab.stream, sides.requests, lab.id_column) == before
    assert lab.stream.verify().is_clean
    assert lab.stream.trim().rows == 0
    append_ahead(lab, rng, 100)
    assert sides.answers() != before
    sides.reader.close()


def rows_left(lab, rng, trims):
    """Fill, perhaps trim, and let rows expire; return what is answered as they do."""
    fill(lab, rng)
    if trims:
        assert lab.stream.trim().rows > 0
    sides, result = Sides(lab, rng), []
    lab.stream.alter(retention=timedelta(days=1))
    for share in (0.3, 0.6, 0.9):
        lab.stream.expire(now=FIRST_MS + DAY_MS + int(2_000_000 * share))
        result.append(sides.answers())
    assert lab.stream.verify().is_clean
    sides.reader.close()
    return result


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_expire_alike_whether_they_were_trimmed_or_not(tmp_path, seed):
    result = []
    for trims in (False, True):
        environment = Environment(clock=ManualClock())
        lab = PartsLab(tmp_path / str(trims), environment, block_records=64)
        result.append(rows_left(lab, np.random.default_rng(seed), trims))
        lab.stream.close()
    assert result[0] == result[1]


def refuse_all_but_rows_ahead(lab: PartsLab) -> None:
    """Only rows that came ahead of the clock stay, and parts that have some."""
    primary = lab.stream.read(columns=["primary"])["primary"].to_numpy()
    assert np.all(primary >= AHEAD_MS)
    assert all(part.entry.primary_max >= AHEAD_MS for part in lab.stream.parts())


def test_parts_stay_as_long_as_a_row_of_a_block_they_stand_for(root, key_mode):
    # Windows are minutes: those of one part have expired while its blocks stay for rows of others.
    retention = timedelta(minutes=15)
    environment = Environment(clock=ManualClock())
    lab = PartsLab(root, environment, key_mode=key_mode, block_records=64, retention=retention)
    fill(lab, np.random.default_rng(11), times=7)
    lab.stream.trim()
    parts = []
    for minutes in (0, 3, 15, 30, 33):
        lab.stream.expire(now=FIRST_MS + (15 + minutes) * 60_000)
        assert lab.stream.verify().is_clean
        parts.append(len(lab.stream.parts()))
    assert parts[0] > parts[1] > parts[-1] > 0
    lab.stream.expire(now=FIRST_MS + 30 * DAY_MS)
    refuse_all_but_rows_ahead(lab)
    lab.stream.close()


def test_trim_goes_on_where_all_rows_of_a_part_have_expired_and_their_blocks_have_not(tmp_path):
    lab = PartsLab(tmp_path, Environment(clock=ManualClock()), retention=timedelta(days=1))
    rng = np.random.default_rng(21)
    lab.append(rng, 50)
    ids, payloads = pa.array(range(9), pa.int32()), pa.array([b"old"] * 9)
    columns: dict[str, Any] = {
        "primary": pa.array([FIRST_MS] * 9),
        "secondary": ids,
        "payload": payloads,
    }
    lab.stream.append_batch(pa.RecordBatch.from_pydict(columns))
    lab.stream.expire(now=FIRST_MS + 2 * DAY_MS)
    lab.stream.commit()
    lab.stream.seal()
    lab.stream.expire(now=FIRST_MS + 2 * DAY_MS)
    lab.stream.trim()
    assert lab.stream.verify().is_clean
    lab.stream.close()


def test_damage_behind_what_was_read_of_a_part_stops_the_trim_of_its_other_blocks(tmp_path):
    # Its footer is known by then, and all of its pages are whole.
    clock = ManualClock()
    lab = PartsLab(tmp_path, Environment(clock=clock))
    rng = np.random.default_rng(17)
    lab.append(rng, 300)
    clock.advance(HOUR_S)
    lab.append(rng, 300)
    lab.stream.seal()
    assert lab.stream.trim(timedelta(minutes=30)).rows == 300
    for part in lab.stream.parts():
        with part.path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"?")
    with pytest.raises(CorruptionError, match="does not match its digest; blocks that it has"):
        lab.stream.trim()
    lab.stream.close()


def test_only_what_is_sealed_is_trimmed(lab):
    rng = np.random.default_rng(13)
    lab.append(rng, 300)
    assert lab.stream.trim().rows == 0
    lab.stream.seal()
    lab.append(rng, 300)
    assert lab.stream.trim().rows == 300


def test_keep_hot_is_checked(lab):
    for wrong in (timedelta(-1), 3, None):
        with pytest.raises(InvalidRequestError, match="is not a timedelta of 0 or more"):
            lab.stream.trim(wrong)


def one_byte_other(path):
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def test_damaged_part_costs_no_rows_before_it(lab):
    rng = np.random.default_rng(18)
    for _ in range(3):
        lab.append(rng, 300)
        lab.stream.seal()
    end = max(one.entry.first for one in lab.stream.parts() if one.shard == 0)
    lab.stream.trim()
    expected = [one.to_pylist() for one in lab.stream.tail(0, 0, end - 100)]
    lab.reopen()
    for part in (one for one in lab.stream.parts() if one.shard == 0):
        if part.entry.last >= end:
            part.path.write_bytes(b"nothing")
    with pytest.raises(CorruptionError):
        list(lab.stream.tail(0, end))
    assert [one.to_pylist() for one in lab.stream.tail(0, 0, end - 100)] == expected


def with_column(rows, name, values):
    """Return rows with another column of this name."""
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, name, values.cast(rows.schema.field(name).type))


def an_hour_later(rows):
    return with_column(rows, "primary", pc.add(rows["primary"], 3_600_000))


def never_late(rows):
    return with_column(rows, "state", pa.array([0] * len(rows)))


def without_values(rows):
    return with_column(rows, "payload", pa.nulls(len(rows), pa.binary()))


def of_one_id(rows):
    name = "key" if "key" in rows.schema.names else "secondary"
    return with_column(rows, name, pa.array([rows[name][0].as_py()] * len(rows)))


@thinned("change", [an_hour_later, never_late, without_values, of_one_id], count=2)
def test_wrong_rows_that_the_catalogue_proves_do_not_pass_for_a_block(lab, change):
    lab.append(np.random.default_rng(21), 400)
    lab.stream.seal()
    lab.stream.trim()
    for part in lab.stream.parts():
        if change is of_one_id or not part.entry.kind:
            forge(lab.stream, part, change)
    with StreamReader.open(lab.root, NAME, environment=Environment(ManualClock())) as reader:
        for reads, shard in ((reader, 0), (lab.stream, 0), (lab.stream, 1)):
            with pytest.raises(
                CorruptionError, match="it was trimmed, its parts make another block"
            ):
                list(reads.tail(shard, 0))
    assert not any(lab.stream.lost_ranges().values())
    assert not lab.stream.verify().is_clean


def test_opening_looks_at_no_part_and_calls_nothing_lost(lab):
    rng = np.random.default_rng(20)
    lab.append(rng, 400)
    lab.stream.seal()
    lab.stream.trim()
    rows, paths = lab.rows(), [item.path for item in lab.stream.parts()]
    away = [path.rename(path.with_suffix(".away")) for path in paths]
    lab.reopen()
    assert not any(lab.stream.lost_ranges().values())
    # Late or not, as what stands in the trimmed blocks says.
    lab.append(rng, 50)
    for item, path in zip(away, paths, strict=True):
        item.rename(path)
    assert [row for row in lab.rows() if row in rows] == rows
    assert lab.stream.verify().is_clean


def test_part_of_trimmed_rows_cannot_be_mended_and_its_loss_can_be_accepted(lab):
    lab.append(np.random.default_rng(17), 400)
    lab.stream.seal()
    lab.stream.trim()
    rows, part = lab.rows(), lab.stream.parts()[0]
    one_byte_other(part.path)
    with pytest.raises(LostRangeError, match=f"{part.path.name} cannot be rebuilt"):
        lab.stream.seal(rebuild=True)
    for start, end in lab.stream.lost_ranges()[part.shard]:
        lab.stream.accept_loss(part.shard, start, end)
    (step,) = lab.stream.seal(rebuild=True).shards[part.shard].steps
    assert step.obsolete == (part.entry,)
    left = lab.rows()
    assert 0 < len(left) < len(rows)
    assert [row for row in rows if row in left] == left
    assert lab.stream.verify().is_clean


def test_trimmed_blocks_give_their_space_back(tmp_path):
    environment = small_segments()
    lab = PartsLab(tmp_path, environment)
    for _ in range(5):
        lab.append_orders(20_000)
    lab.stream.seal()
    before = bytes_of(tmp_path.rglob("segments/*"))
    report = lab.stream.trim()
    freed = before - bytes_of(tmp_path.rglob("segments/*"))
    assert 0.7 * report.block_bytes < freed <= report.block_bytes
    rows = lab.rows()
    lab.stream.close()
    lab.stream = Stream.open(tmp_path, NAME, environment=environment)
    assert lab.rows() == rows
    assert lab.stream.verify().is_clean
    lab.stream.close()


def test_view_that_is_open_reads_its_moment_while_parts_expire(lab):
    rng = np.random.default_rng(17)
    fill(lab, rng)
    lab.stream.trim()
    rows = lab.stream.read(columns=["shard", "address"]).num_rows
    scan = lab.stream.scan(columns=["shard", "address"])
    seen = next(scan).num_rows
    lab.stream.alter(retention=timedelta(days=1))
    lab.stream.expire(now=FIRST_MS + 30 * DAY_MS)
    refuse_all_but_rows_ahead(lab)
    assert seen + sum(some.num_rows for some in scan) <= rows
