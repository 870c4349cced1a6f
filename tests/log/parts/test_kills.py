"""Goal: whatever is killed in tiering, each row is in one part, and reads show every row.

Method: a stream with many small parts is copied; a process seals, compacts, trims, rebuilds or lets
rows expire in the copy, and is killed before a call to the file system or the store. What it leaves
is asked by a reader and by the writer that opens it, and done again.

`make test` kills at few calls, each kind of call in one kind of step at least; with
SHARDLOG_FAULT_COLD set each call has its turn.
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow.parquet as pq

from storage_core import Stream, StreamReader
from tests.log.parts.interrupting import STEP, killed_before
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab
from tests.thin import covering

DAY_MS = 86_400_000
COLUMNS = ["shard", "address", "secondary", "primary", "version", "state", "payload", "headers"]
CALLS_MAX = 200
SOME_MS = FIRST_MS + DAY_MS + 80_000


def seal_and_trim(stream):
    stream.seal()
    stream.trim()


# As the killed process has it, and as it is done again.
STEPS: dict[str, tuple[str, Callable[[Stream], object]]] = {
    "seal": ("stream.seal()", Stream.seal),
    "seal and trim": ("stream.seal(); stream.trim()", seal_and_trim),
    "compact": ("stream.compact()", Stream.compact),
    "rebuild": ("stream.seal(rebuild=True)", partial(Stream.seal, rebuild=True)),
    "expire": (f"stream.expire(now={SOME_MS})", partial(Stream.expire, now=SOME_MS)),
}
CALLS = ["fsync", "write", "sync", "utime", "link", "unlink"]
# Expiry builds no file, and only compaction and rebuilding replace one.
NEVER_CALLED = {
    *(("expire", call) for call in ("fsync", "utime", "link", "unlink")),
    *((step, call) for step in ("seal", "seal and trim") for call in ("utime", "unlink")),
}


def prepared(root, step, keep_replaced):
    """Leave a stream of many parts; its rows but for the last are sealed, and mostly trimmed."""
    lab = PartsLab(root, block_records=20, retention=None, keep_replaced=keep_replaced)
    rng = np.random.default_rng(23)
    for _ in range(5):
        lab.append(rng, 24)
        lab.stream.seal()
    if step == "rebuild":
        for part in lab.stream.parts()[::3]:
            part.path.write_bytes(b"no part")
    else:
        lab.stream.trim()
    lab.append(rng, 24)
    lab.stream.alter(retention=timedelta(days=1))
    lab.stream.close()


def rows_that_stay(stream):
    """Return the rows that stay, by id and time, and those of one id that are asked for alone."""
    rows = stream.read(columns=COLUMNS).to_pylist()
    few = stream.read(ids=[1], columns=COLUMNS).to_pylist()
    assert few == [row for row in rows if row["secondary"] == 1]
    newest = {(record.shard, record.address) for record in stream.latest().values()}
    assert newest <= {(row["shard"], row["address"]) for row in rows}
    return rows


def done(first, root, step):
    """Return what is shown before a step that nothing kills, and behind it."""
    shutil.copytree(first, root)
    with Stream.open(root, NAME) as stream:
        before = rows_that_stay(stream)
        step(stream)
        return before, rows_that_stay(stream)


def assert_whole(rows, before, behind):
    """Find each shard as it was before or as it is behind; one is done after the other."""
    for shard in range(2):
        now, *others = (
            [row for row in moment if row["shard"] == shard] for moment in (rows, before, behind)
        )
        assert now in others


def assert_each_row_in_one_part(stream, root):
    """Find the files that others see to be those of the part list, and no row twice in them."""
    files = sorted(root.rglob("*.parquet"))
    assert {file.stem for file in files} == {part.path.stem for part in stream.parts()}
    tables = [pq.read_table(file, columns=["shard", "address"]).to_pylist() for file in files]
    places = [tuple(row.values()) for rows in tables for row in rows]
    assert len(places) == len(set(places))


@covering("SHARDLOG_FAULT_COLD", kind=[*STEPS], call=CALLS)
def test_kill_before_any_call_leaves_each_row_in_one_part(tmp_path, kind, call):
    first, (statement, step) = tmp_path / "first", STEPS[kind]
    prepared(first, kind, timedelta(minutes=0 if call == "unlink" else 15))
    before, behind = done(first, tmp_path / "whole", step)
    for number in range(0, CALLS_MAX, STEP):
        root = tmp_path / f"copy-{number}"
        shutil.copytree(first, root)
        was_killed = killed_before(root, NAME, call, number, statement)
        assert was_killed or number or (kind, call) in NEVER_CALLED
        with StreamReader.open(root, NAME) as reader:
            assert_whole(rows_that_stay(reader), before, behind)
        with Stream.open(root, NAME) as stream:
            assert_whole(rows_that_stay(stream), before, behind)
            if kind != "rebuild":
                assert_each_row_in_one_part(stream, root)
            step(stream)
            assert rows_that_stay(stream) == behind
            assert stream.verify().is_clean
            assert_each_row_in_one_part(stream, root)
        shutil.rmtree(root)
        if not was_killed:
            return
