"""Goal: a trim that is killed at any call to the store leaves every row to be read.

Method: a stream is filled, sealed, and copied as a process that dies leaves it. Another process
opens the copy, trims, and kills itself right before its n-th call to the store or marker; then one
on the next copy before another call. What each leaves shows all rows, to a reader beside the dead
and to the opener, whose own trim takes what is left; all of it is sound.

`make test` kills at few calls; with SHARDLOG_FAULT_COLD set each call has its turn.
"""

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions, StreamReader
from tests.children import start_child
from tests.faults.support.deadly_calls import NAME, NOW, DeadlyDisk, Death, trim_and_die
from tests.snapshots import snapshot

SHARDS = 2
CHILD_MAX_S = 120
COLUMNS = ["shard", "address", "primary", "secondary", "state", "payload"]


@dataclass
class Prepared:
    """A sealed stream as a process that died left it, and what it shows."""

    root: Path
    has_segments: bool
    rows: list[Any]

    def open(self, root: Path) -> Stream:
        """Open a copy."""
        disk = DeadlyDisk(has_segments=self.has_segments)
        return Stream.open(root, NAME, environment=disk.environment)

    def expect_all(self, reads: Any) -> None:
        """Find each row, by read, by tail and as the newest of its id."""
        assert rows_of([reads.read(columns=COLUMNS)]) == self.rows
        tails = [some for shard in range(SHARDS) for some in reads.tail(shard, columns=COLUMNS)]
        assert rows_of(tails) == self.rows
        newest = {(one.shard, one.address) for one in reads.latest().values()}
        assert newest <= {(row["shard"], row["address"]) for row in self.rows}
        assert len(newest) == len({row["secondary"] for row in self.rows})


def rows_of(batches: Any) -> list[Any]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["shard"], row["address"]))


def prepare(folder: Path, *, has_segments: bool) -> Prepared:
    """Fill a stream, seal some of it, and copy it as it lies there."""
    disk = DeadlyDisk(has_segments=has_segments)
    options = StreamOptions(shards=SHARDS, unit="s", block_records=8)
    with Stream.create(folder / "live", NAME, options, environment=disk.environment) as stream:
        # Two of three commits are of one row for each shard: such neighbours become one block.
        for number in range(18):
            count = 2 if number % 3 else 6
            times = [NOW + number * 100 + at - 5000 * (at == 3) for at in range(count)]
            columns = {
                "primary": pa.array(times, pa.int64()),
                "secondary": pa.array([at % 4 for at in range(count)], pa.int32()),
                "payload": pa.array(
                    [b"%d-%d" % (number, at) * 10 for at in range(count)], pa.binary()
                ),
            }
            stream.append_batch(pa.table(columns))
            stream.commit()
            if number == 14:
                stream.seal()
        rows = rows_of([stream.read(columns=COLUMNS)])
        snapshot(folder / "live", folder / "died")
    return Prepared(folder / "died", has_segments, rows)


def calls_of(prepared: Prepared, root: Path) -> int:
    """Return how many calls a trim makes that nothing kills."""
    disk = DeadlyDisk(has_segments=prepared.has_segments)
    shutil.copytree(prepared.root, root)
    with Stream.open(root, NAME, environment=disk.environment) as stream:
        disk.calls.clear()
        assert stream.trim().blocks > 0
        return len(disk.calls)


@pytest.mark.parametrize("has_segments", [False, True])
def test_kill_before_any_call_of_trimming_leaves_every_row(tmp_path, has_segments):
    prepared = prepare(tmp_path, has_segments=has_segments)
    count = calls_of(prepared, tmp_path / "whole")
    step = 1 if os.environ.get("SHARDLOG_FAULT_COLD") else max(1, count // 3)
    for call in range(1, count + 1, step):
        root = tmp_path / f"copy-{call}"
        shutil.copytree(prepared.root, root)
        child = start_child(trim_and_die, Death(root, call, has_segments))
        child.join(CHILD_MAX_S)
        assert child.exitcode == -signal.SIGKILL, call
        with StreamReader.open(root, NAME) as reader:
            prepared.expect_all(reader)
            with prepared.open(root) as stream:
                prepared.expect_all(stream)
                stream.trim()
                prepared.expect_all(stream)
                prepared.expect_all(reader)
                assert stream.verify().is_clean
                assert stream.trim().blocks == 0
