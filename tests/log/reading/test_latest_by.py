"""`latest_by`: of the rows of one thing only the newest, each request of writer and reader."""

import random
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from tests.log.disks import ReinedDisk
from tests.log.reading.test_corners import both
from tests.log.served import DOORS, opened_by
from tests.log.workbench import Workbench, column_of, rows_of
from tests.unit.storage_core.strategies import some

Row = dict[str, Any]


def newest(bench: Workbench, name: str = "address", **request: Any) -> list[Any]:
    """Return one column of what `read` shows, of the writer and of a reader beside it."""
    column: list[Any] = both(bench, lambda reads: column_of(reads.read(**request), name))
    return column


# --- which is the newest ----------------------------------------------------------------------


def test_by_primary_the_last_stored_of_equal_primaries_wins_whole(bench):
    bench.append([5, 5], payload=[b"old", b"older"], version=[1, 2])
    bench.keep([7, 5], payload=[b"other", b"new"], version=[3, 4])
    columns = ["primary", "payload", "version"]
    rows = both(bench, lambda reads: reads.read(latest_by="primary", columns=columns).to_pylist())
    assert [tuple(row.values()) for row in rows] == [(5, b"new", 4), (7, b"other", 3)]


def test_by_primary_rows_of_other_ids_do_not_compete(bench):
    bench.keep([5, 5, 5], secondary=[1, 2, 1])
    assert newest(bench, latest_by="primary") == [2, 1]


def test_late_and_ahead_rows_compete_like_others(make_bench):
    bench = make_bench(unit="s", disk=ReinedDisk(), ahead_max=100)
    now = ReinedDisk().clock.now_ns() // 10**9
    bench.append([now, now + 10**6, now - 50])
    bench.keep([now + 10**6, now - 50, now])
    assert newest(bench, latest_by="primary") == [4, 5, 3]
    assert newest(bench, latest_by="key") == [3]


def test_by_key_the_largest_primary_of_each_key_of_an_id_wins(bench):
    bench.append([9, 4, 6, 3], secondary=[1, 1, 2, 1], key=[b"a", b"b", b"a", None])
    bench.keep([9, 5, 2], secondary=[1, 1, 1], key=[b"a", b"", None])
    assert newest(bench, latest_by="key") == [3, 1, 5, 4, 2]


def test_by_key_a_stream_without_keys_shows_the_newest_of_each_id(bench):
    bench.keep([3, 8, 5, 8], secondary=[1, 1, 2, 1])
    assert newest(bench, latest_by="key") == [3, 2]
    assert newest(bench, latest_by="key", end=7) == [0, 2]


def test_of_two_shards_the_one_committed_later_wins_whatever_its_address(make_bench):
    disk = ReinedDisk()
    bench = make_bench(disk=disk, shards=2)
    bench.append([1, 2, 5], secondary=4, shard=0)
    disk.clock.advance(1)
    bench.keep([5], secondary=4, shard=1)
    for by in ("primary", "key"):
        assert newest(bench, "shard", latest_by=by, start=5) == [1]
    disk.clock.advance(1)
    bench.keep([5], secondary=4, shard=0)
    for by in ("primary", "key"):
        assert newest(bench, "shard", latest_by=by, start=5) == [0]


def test_of_two_shards_at_one_moment_the_larger_number_wins(make_bench):
    bench = make_bench(disk=ReinedDisk(), shards=2)
    bench.append([1, 1], secondary=4, shard=0)
    bench.keep([1], secondary=4, shard=1)
    assert newest(bench, "shard", latest_by="primary") == [1]


def test_rows_of_other_versions_take_no_part(bench):
    bench.keep([5, 5], version=[1, 2])
    assert newest(bench, latest_by="primary", versions=[1]) == [0]


def test_uncommitted_and_expired_rows_take_no_part(make_bench):
    bench = make_bench(unit="sequence")
    bench.keep([5, 5], payload=[b"a", b"b"])
    bench.append([5], payload=[None])
    assert newest(bench, latest_by="primary") == [1]
    bench.commit()
    bench.expire_below(6)
    assert newest(bench, latest_by="primary", tombstones=True) == []


# --- tombstones -------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["primary", "key"])
def test_tombstone_that_wins_hides_what_was_there(bench, by):
    bench.keep([5, 5, 3], secondary=[1, 1, 2], payload=[b"x", None, b"y"])
    assert newest(bench, latest_by=by) == [2]
    assert newest(bench, latest_by=by, columns=["address"]) == [2]
    assert newest(bench, latest_by=by, tombstones=True) == [1, 2]


def test_what_was_deleted_and_stored_again_is_there(bench):
    bench.keep([5, 5, 5], payload=[b"x", None, b""])
    assert newest(bench, latest_by="primary") == [2]


def test_tombstone_of_one_shard_hides_the_row_of_another(make_bench):
    disk = ReinedDisk()
    bench = make_bench(disk=disk, shards=2)
    bench.append([5, 6], secondary=4, shard=0)
    disk.clock.advance(1)
    bench.keep([5], secondary=4, shard=1, payload=[None])
    assert newest(bench, "primary", latest_by="primary") == [6]
    assert newest(bench, "primary", ids=4, latest_by="primary", limit=1) == [6]


def test_without_latest_by_tombstones_are_rows_like_others(bench):
    bench.keep([5, 6], payload=[None, b""])
    assert newest(bench) == newest(bench, tombstones=True) == [0, 1]


# --- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("ids", [None, 2, [2, 3, 77]])
def test_limit_is_of_what_is_shown(make_bench, shards, ids):
    bench = make_bench(shards=shards, block_records=8)
    gone = [*range(100)]
    bench.append(gone, secondary=2)
    bench.append(gone, secondary=2, payload=[None] * 100)
    bench.keep(range(90, 105), secondary=3)
    bench.keep([*range(100, 110)], secondary=2)
    primaries = newest(bench, "primary", ids=ids, limit=3, latest_by="primary")
    assert primaries == ([100, 101, 102] if ids == 2 else [100, 101, 102, 90, 91, 92])
    assert newest(bench, "primary", ids=ids, limit=1, latest_by="key")[0] == 109


def test_by_primary_a_limit_stops_before_blocks_that_come_later(make_bench):
    bench = make_bench(block_records=4)
    # Small blocks are read many at a time.
    bench.keep(range(400), payload=bytes(2**14))
    bench.close()
    bench.call_heads_written(400)
    bench.damage_block(390)
    bench.open()
    rows = bench.stream.read(1, limit=3, latest_by="primary")
    assert column_of(rows, "primary") == [0, 1, 2]
    with pytest.raises(CorruptionError):
        bench.stream.read(1, limit=3, latest_by="key")


# --- streams with a key dictionary ------------------------------------------------------------


def test_with_a_key_dictionary_the_id_is_the_key(make_bench):
    bench = make_bench(shards=2, key_mode="dictionary")
    keys = [b"b", b"a", None, b"b", b"a", b"c"]
    payloads = [b"1", b"2", b"3", b"4", b"5", None]
    bench.keep([5, 5, 5, 5, 4, 1], secondary=[None] * 6, key=keys, payload=payloads)
    assert newest(bench, "payload", latest_by="primary") == [b"3", b"5", b"2", b"4"]
    assert newest(bench, "payload", latest_by="key") == [b"3", b"2", b"4"]
    assert newest(bench, "key", latest_by="key", tombstones=True) == [None, b"a", b"b", b"c"]
    assert newest(bench, "payload", keys=[b"a"], limit=1, latest_by="primary") == [b"5"]


# --- against a plain list ---------------------------------------------------------------------


SHARDS = 4
KEYS = [None, None, b"", b"a", b"b"]

questions = st.fixed_dictionaries(
    {
        "ids": st.none() | st.lists(st.integers(0, 4), max_size=3, unique=True),
        "start": st.none() | st.integers(0, 30),
        "end": st.none() | st.integers(30, 60),
        "limit": st.sampled_from([0, 1, 2, 5, 40]),
        "versions": st.sampled_from([None, [0], [0, 2]]),
        "latest_by": st.sampled_from(["primary", "key"]),
        "tombstones": st.booleans(),
        "columns": st.sampled_from([["address", "shard"], ["shard", "key", "address", "late"]]),
    }
)


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rows of five ids and four keys in any of four shards, most primaries stored often."""
    chance, disk = random.Random(3), ReinedDisk()
    root = tmp_path_factory.mktemp("scattered")
    bench = Workbench(root, "s", disk=disk, shards=SHARDS, unit="sequence", block_records=7)
    rows: list[Row] = []
    ends = Counter[int]()
    for number in range(120):
        shard, count = chance.randrange(SHARDS), chance.randrange(1, 12)
        drift = number // 3
        batch: dict[str, Any] = {
            "primary": [drift + chance.randrange(20) for _ in range(count)],
            "secondary": [chance.randrange(5) for _ in range(count)],
            "key": [chance.choice(KEYS) for _ in range(count)],
            "version": [chance.choice([0, 0, 2]) for _ in range(count)],
            "payload": [chance.choice([None, None, b"", b"x"]) for _ in range(count)],
        }
        bench.append(shard=shard, **batch)
        for position in range(count):
            row = {name: values[position] for name, values in batch.items()}
            at_ms = disk.clock.now_ns() // 10**6
            rows.append({**row, "shard": shard, "address": ends[shard], "at_ms": at_ms})
            ends[shard] += 1
        disk.clock.advance(chance.choice([0, 0.001]))
    bench.commit()
    with ExitStack() as opened:
        readers = {
            door: opened.enter_context(opened_by(door, bench.root, bench.name)) for door in DOORS
        }
        yield {"writer": bench.stream, **readers}, rows
    bench.release()


def by_hand(rows: list[Row], request: Row) -> list[tuple[int, int]]:
    """Return shard and address of the newest, in the order of `read`."""
    start = 0 if request["start"] is None else request["start"]
    end = 100 if request["end"] is None else request["end"]
    best: dict[Any, Row] = {}
    for row in rows:
        if request["ids"] is not None and row["secondary"] not in request["ids"]:
            continue
        if not start <= row["primary"] <= end:
            continue
        if request["versions"] is not None and row["version"] not in request["versions"]:
            continue
        group = (row["secondary"], row[request["latest_by"]])
        if group not in best or rank(best[group]) < rank(row):
            best[group] = row
    order = ("secondary", "primary", "shard", "address")
    newest_rows, seen = [], Counter[int]()
    for row in sorted(best.values(), key=lambda row: [row[name] for name in order]):
        if row["payload"] is None and not request["tombstones"]:
            continue
        seen[row["secondary"]] += 1
        if not request["limit"] or seen[row["secondary"]] <= request["limit"]:
            newest_rows.append((row["shard"], row["address"]))
    return newest_rows


def rank(row: Row) -> tuple[int, int, int, int]:
    return row["primary"], row["at_ms"], row["shard"], row["address"]


@pytest.mark.parametrize("side", ["writer", *DOORS])
@some
@given(request=questions)
def test_newest_are_those_found_by_hand(scattered, side, request):
    sides, rows = scattered
    rows_read = [(row["shard"], row["address"]) for row in rows_of(sides[side].read(**request))]
    assert rows_read == by_hand(rows, request)
