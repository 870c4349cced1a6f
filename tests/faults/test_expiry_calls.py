"""Goal: an expiry that is killed at any call to the store took all that it was to take, or nothing.

Method: a stream is filled, and copied as a process that dies leaves it. Another process opens the
copy, lets expire what is old, and kills itself right before its n-th call to the store or marker;
then one on the next copy before the next call, until one comes to its end. What each leaves is read
first by a reader beside the dead, then by the opener: of each shard exactly the rows that stay, or
exactly those that were there before. The opener's own expiry leaves exactly those that stay, and
all of it sound; another one finds nothing.

The ways differ in what goes: windows, blocks behind a straggler and ahead rows among them; whole
segments; what a cap takes; rows of keys. `make test` kills at few calls that chance picks; with
SHARDLOG_FAULT_EXPIRY set each call has its turn.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
import xxhash

from storage_core import LostRangeError, Stream, StreamOptions, StreamReader
from tests.children import start_child
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.faults.support.deadly_calls import NAME, NOW, DeadlyDisk, Death, expire_and_die
from tests.snapshots import snapshot

HOUR: Final = 3600
KEPT_HOURS: Final = 5
CAP_OF_EACH: Final = 7
YEAR_2100: Final = 4_102_444_800
SHARDS: Final = 2
# At how many calls of each way `make test` kills.
_CHOSEN: Final = 2
_CHILD_MAX_S: Final = 120

# A shard, an address.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Way:
    """What is different about what goes."""

    options: dict[str, Any]
    has_segments: bool = False


RETAINED: Final = {"retention": timedelta(hours=KEPT_HOURS)}
WAYS: Final = {
    "windows": Way(RETAINED),
    "caps": Way({"records_max": SHARDS * CAP_OF_EACH}),
    "segments": Way(RETAINED, has_segments=True),
    "dictionaries": Way({**RETAINED, "key_mode": "dictionary"}),
}


@dataclass
class Prepared:
    """A stream as a process that died left it, and what it has."""

    root: Path
    way: Way
    before: set[Place] = field(default_factory=set)
    stay: set[Place] = field(default_factory=set)

    def copy(self, to: Path) -> Path:
        """Return a copy that may be changed."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.root, to)
        return to

    def open(self, root: Path) -> Stream:
        """Open a copy."""
        disk = DeadlyDisk(has_segments=self.way.has_segments)
        return Stream.open(root, NAME, environment=disk.environment)

    def calls(self, root: Path) -> list[str]:
        """Return the calls of an expiry that nothing kills."""
        disk = DeadlyDisk(has_segments=self.way.has_segments)
        with Stream.open(self.copy(root), NAME, environment=disk.environment) as stream:
            disk.calls.clear()
            report = stream.expire(NOW)
            assert report.blocks > 0
            assert (report.segments > 0) == self.way.has_segments
            return [*disk.calls]


def prepare(way: Way, folder: Path) -> Prepared:
    """Fill a stream with what goes and what stays, and copy it as it lies there."""
    disk = DeadlyDisk(has_segments=way.has_segments)
    options = StreamOptions(shards=SHARDS, unit="s", block_records=8, **way.options)
    prepared = Prepared(folder / "died", way)
    old = [NOW + hours * HOUR for hours in range(-40, -20)]
    recent = [NOW + hours * HOUR // 2 for hours in range(-6, -1)]
    parts = [
        old[:7],
        [NOW + 3 * HOUR],
        *([one, one + 1, one - 9 * HOUR] for one in old[7:]),
        [YEAR_2100, old[9]],
        [recent[0], recent[0] - HOUR, old[11]],
        recent,
    ]
    with Stream.create(folder / "live", NAME, options, environment=disk.environment) as stream:
        for number, part in enumerate(parts):
            for shard in range(SHARDS):
                stream.append_batch(rows(part, shard, number % 3, way))
            stream.commit()
        stored = [row for shard in range(SHARDS) for row in _rows(stream.tail(shard))]
        snapshot(folder / "live", prepared.root)
    prepared.before = {(shard, address) for shard, address, _ in stored}
    for shard in range(SHARDS):
        those = [row for row in stored if row[0] == shard]
        remaining = (
            those[-CAP_OF_EACH:]
            if "records_max" in way.options
            else [row for row in those if row[2] >= NOW - KEPT_HOURS * HOUR]
        )
        assert 0 < len(remaining) < len(those)
        prepared.stay |= {(shard, address) for shard, address, _ in remaining}
    return prepared


def rows(primaries: Sequence[int], shard: int, number: int, way: Way) -> pa.Table:
    """Return rows of one of the ids of a shard, or of one of its keys."""
    count = len(primaries)
    columns = {
        "primary": pa.array(primaries, pa.int64()),
        "payload": pa.array([b"%d" % number * 50] * count, pa.binary()),
    }
    if "key_mode" in way.options:
        keys = (b"key-%d-%d" % (number, at) for at in range(100))
        key = next(key for key in keys if xxhash.xxh3_64_intdigest(key) % SHARDS == shard)
        columns["key"] = pa.array([key] * count, pa.binary())
    else:
        columns["secondary"] = pa.array([SHARDS * number + shard] * count, pa.int32())
    return pa.table(columns)


def _rows(batches: Any) -> list[tuple[int, int, int]]:
    return [
        (row["shard"], row["address"], row["primary"])
        for batch in batches
        for row in batch.select(["shard", "address", "primary"]).to_pylist()
    ]


def places(reads: Any) -> set[Place]:
    """Return where the rows are that a stream or a reader shows, by every way to read all."""
    columns = ["shard", "address", "primary"]
    rows = _rows([reads.read(columns=columns)])
    assert sorted(_rows(reads.scan(columns=columns))) == sorted(rows)
    visible = {(shard, address) for shard, address, _ in rows}
    assert len(visible) == len(rows)
    newest = {(one.shard, one.address) for one in reads.latest().values()}
    assert newest <= visible
    assert bool(newest) == bool(visible)
    return visible


def replayed(reads: Any) -> set[Place]:
    """Return where the rows are that a replay still has."""
    gone: set[Place] = set()
    for shard in range(SHARDS):
        position: int | None = 0
        while position is not None:
            start, position = position, None
            try:
                gone.update((n, address) for n, address, _ in _rows(reads.tail(shard, start)))
            except LostRangeError as error:
                position = error.end
    return gone


def check(prepared: Prepared, reads: Any) -> None:
    """Find of each shard all that was there, or all that stays; and a replay that lacks none."""
    visible = places(reads)
    for shard in range(SHARDS):
        here, before, stay = (
            {place for place in those if place[0] == shard}
            for those in (visible, prepared.before, prepared.stay)
        )
        assert here in (before, stay)
    assert replayed(reads) <= prepared.before


def chosen(calls: list[str], chance: Random) -> list[int]:
    """Return before which calls to die, counted from 1; of all also the one behind the last."""
    every = range(1, len(calls) + 1)
    if "SHARDLOG_FAULT_EXPIRY" in os.environ:
        return [*every, len(calls) + 1]
    return sorted(chance.sample(every, _CHOSEN))


@contextmanager
def naming_call(calls: list[str], call: int) -> Iterator[None]:
    """Add to whatever fails where the process died."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"died before call {call}, of {calls}")
        raise


@pytest.mark.parametrize("name", WAYS)
def test_expiry_killed_at_any_call_took_all_or_nothing(tmp_path: Path, name: str) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        way = WAYS[name]
        prepared = prepare(way, tmp_path)
        calls = prepared.calls(tmp_path / "whole")
        for call in chosen(calls, Random(seed)):
            root = prepared.copy(tmp_path / "copy")
            child = start_child(expire_and_die, Death(root, call, way.has_segments))
            child.join(_CHILD_MAX_S)
            with naming_call(calls, call):
                assert child.exitcode == (0 if call > len(calls) else -signal.SIGKILL)
                check_left(prepared, root)


def check_left(prepared: Prepared, root: Path) -> None:
    """Look at what a dead process left, and let an opener come to the end."""
    with StreamReader.open(root, NAME) as reader:
        check(prepared, reader)
    with prepared.open(root) as stream, StreamReader.open(root, NAME) as reader:
        check(prepared, stream)
        check(prepared, reader)
        stream.expire(NOW)
        for reads in (stream, reader):
            assert places(reads) == prepared.stay
        report = stream.verify()
        assert report.is_clean, report.problems
        again = stream.expire(NOW)
        assert (again.rows, again.blocks, again.segments) == (0, 0, 0)
