"""Goal: whatever is killed in upkeep of rows that were trimmed, reads show them, or what stays.

Method: a stream whose blocks are trimmed, with many small parts, is copied; a process compacts,
lets rows expire or seals and trims more in the copy, and is killed before a call to the file system
or the store. What it leaves is asked by a reader and by the writer that opens it, and done again.

`make test` kills at few calls, each kind of call in one kind of upkeep at least; with
SHARDLOG_FAULT_COLD set each call has its turn.
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import numpy as np

from storage_core import Stream, StreamReader
from tests.log.parts.interrupting import STEP, killed_before
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab
from tests.thin import covering

DAY_MS = 86_400_000
COLUMNS = [
    "secondary",
    "shard",
    "address",
    "primary",
    "version",
    "state",
    "payload",
    "headers",
    "late",
]
CALLS_MAX = 200
SOME_MS = FIRST_MS + DAY_MS + 80_000


def seal_and_trim(stream):
    stream.seal()
    stream.trim()


# As the killed process has it, and as it is done again.
UPKEEP: dict[str, tuple[str, Callable[[Stream], object]]] = {
    "compaction": ("stream.compact()", Stream.compact),
    "expiry": (f"stream.expire(now={SOME_MS})", partial(Stream.expire, now=SOME_MS)),
    "sealing and trimming": ("stream.seal(); stream.trim()", seal_and_trim),
}


# Expiry makes no file, and only compaction takes one away here.
NEVER_CALLED = {("expiry", "fsync"), ("expiry", "unlink"), ("sealing and trimming", "unlink")}


def prepared(root, keep_replaced):
    """Leave a stream whose rows are trimmed but for the last, and in many parts."""
    lab = PartsLab(root, block_records=20, retention=None, keep_replaced=keep_replaced)
    rng = np.random.default_rng(23)
    for _ in range(5):
        lab.append(rng, 24)
        lab.stream.seal()
    lab.stream.trim()
    lab.append(rng, 24)
    lab.stream.alter(retention=timedelta(days=1))
    lab.stream.close()


def shown(stream):
    """Return the rows that stay, by id and time, and those of one id that are asked for alone."""
    rows = stream.read(columns=COLUMNS).to_pylist()
    few = stream.read(ids=[1], columns=COLUMNS).to_pylist()
    assert few == [row for row in rows if row["secondary"] == 1]
    newest = {(one.shard, one.address) for one in stream.latest().values()}
    assert newest <= {(row["shard"], row["address"]) for row in rows}
    return rows


def done(first, root, upkeep):
    """Return what is shown before an upkeep that nothing kills, and behind it."""
    shutil.copytree(first, root)
    with Stream.open(root, NAME) as stream:
        before = shown(stream)
        upkeep(stream)
        return before, shown(stream)


def assert_whole(rows, before, behind):
    """Find each shard as it was before or as it is behind; one is done after the other."""
    for shard in range(2):
        found, *others = (
            [one for one in each if one["shard"] == shard] for each in (rows, before, behind)
        )
        assert found in others


@covering("SHARDLOG_FAULT_COLD", what=[*UPKEEP], call=["fsync", "write", "sync", "unlink"])
def test_kill_before_any_call_over_trimmed_rows_loses_none(tmp_path, what, call):
    first, (statement, upkeep) = tmp_path / "first", UPKEEP[what]
    prepared(first, timedelta(minutes=0 if call == "unlink" else 15))
    before, behind = done(first, tmp_path / "whole", upkeep)
    for number in range(0, CALLS_MAX, STEP):
        root = tmp_path / f"copy-{number}"
        shutil.copytree(first, root)
        was_killed = killed_before(root, NAME, call, number, statement)
        assert was_killed or number or (what, call) in NEVER_CALLED
        with StreamReader.open(root, NAME) as reader:
            assert_whole(shown(reader), before, behind)
        with Stream.open(root, NAME) as stream:
            assert_whole(shown(stream), before, behind)
            upkeep(stream)
            assert shown(stream) == behind
            assert stream.verify().is_clean
        shutil.rmtree(root)
        if not was_killed:
            return
