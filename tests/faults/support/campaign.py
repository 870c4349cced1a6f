"""Runs writers and followers as child processes and stops them in the middle.

A campaign is a row of cycles on one store, which so grows: start a writer, stop it at a moment
that chance picks, open the store again, check it against the ledger. Children come from a fork
server that has loaded everything, which makes a cycle cheap.

Chance comes from one seed (`SHARDLOG_FAULT_SEED` replays it), which a failure names. Moments of
another process cannot be replayed exactly; what it writes, and roughly when it is hit, can.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, get_args

import pyarrow as pa

from storage_core import Stream, StreamOptions
from storage_core.catalog.options import SyncLevel
from storage_core.format.block import Codec
from tests.children import start_child
from tests.faults.support.follower import FollowerPlan, run_follower
from tests.faults.support.ledger import Ledger, check_sightings, read_notes, stored_rows
from tests.faults.support.workload import SHARDS, Stored
from tests.faults.support.writer import WriterPlan, run_writer
from tests.thin import rounds
from tests.waiting import WAIT_MAX_S, await_that

STREAM = "faults"
CYCLES_A_STORE = 4
STEPS = 15
STEPS_WITH_PARTS = 60


def campaigns(variable: str, few: int, many: int | None = None) -> list[int]:
    """Split the wanted number of cycles into campaigns; each number says how many cycles."""
    cycles = rounds(variable, few, few if many is None else many)
    sizes = [CYCLES_A_STORE] * (cycles // CYCLES_A_STORE)
    return sizes + [cycles % CYCLES_A_STORE] * (cycles % CYCLES_A_STORE > 0)


def fault_seed() -> int:
    """Return the seed to replay, or a new one."""
    return int(os.environ.get("SHARDLOG_FAULT_SEED") or SystemRandom().randrange(2**32))


@contextmanager
def naming_seed(seed: int) -> Iterator[None]:
    """Add to whatever fails how to run it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"to run this again: SHARDLOG_FAULT_SEED={seed}")
        raise


class Campaign:
    """Cycles on one store."""

    def __init__(self, root: Path, notes: Path, seed: int) -> None:
        self.root = root
        self.chance = Random(seed)
        self.ledger = Ledger()
        self.cycle = 0
        self._makes_parts = False
        self._notes = notes
        self._sightings = notes / "reader"

    def create(self, *, makes_parts: bool = False) -> None:
        """Make the empty stream, with any codec, at any sync level; its writers may make parts."""
        self._makes_parts = makes_parts
        options = StreamOptions(
            seal_rows=20,
            keep_hot=timedelta(milliseconds=1),
            shards=SHARDS,
            block_records=64,
            codec=self.chance.choice(get_args(Codec)),
            sync=self.chance.choice(get_args(SyncLevel)),
            sync_interval=timedelta(milliseconds=20),
        )
        Stream.create(self.root, STREAM, options).close()

    # Children

    def start_writer(self) -> ForkServerProcess:
        """Begin a cycle with a writer."""
        plan = WriterPlan(
            self.root,
            STREAM,
            self.writer_notes(),
            self.cycle,
            self.chance.randrange(2**32),
            write_buffer_bytes=self.chance.choice([64, 256, 16384]) * 1024,
            steps=STEPS_WITH_PARTS if self._makes_parts else STEPS,
            makes_parts=self._makes_parts,
        )
        return start_child(run_writer, plan)

    def writer_notes(self) -> Path:
        """Return where this cycle's writer notes its promises."""
        return self._notes / f"writer-{self.cycle}"

    @contextmanager
    def following(self) -> Iterator[None]:
        """Let a reader follow; at the end it must have seen everything, and without error."""
        with self._reader() as follower:
            # From then on it hears when it is to end.
            await_that(lambda: bool(read_notes(self._sightings)), "a follower that stands")
            yield
            follower.terminate()
            follower.join(WAIT_MAX_S)
            last = read_notes(self._sightings)[-1:]
            assert last == [{"finished": True}], f"the follower ended with {last}"

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Let a reader note what it sees until it is killed."""
        with self._reader():
            yield

    @contextmanager
    def _reader(self) -> Iterator[ForkServerProcess]:
        self._sightings = self._notes / f"reader-{self.cycle}"
        follower = start_child(run_follower, FollowerPlan(self.root, STREAM, self._sightings))
        try:
            yield follower
        finally:
            follower.kill()
            follower.join()

    # Judgement

    def settle(self) -> list[dict[str, Any]]:
        """Take over the promises of the cycle's writer and begin the next; return its errors."""
        others = self.ledger.take_notes(self.writer_notes())
        self.cycle += 1
        return [note for note in others if "error" in note]

    def check(self) -> dict[int, list[Stored]]:
        """Open the store, compare it with the ledger, and return its rows."""
        with Stream.open(self.root, STREAM) as stream:
            committed = stream.commit()
            shards = {
                shard: list(stored_rows(stream.tail(shard, 0, end)))
                for shard, end in committed.items()
            }
            self.ledger.check(shards, committed)
            self.ledger.raise_committed(committed)
            _check_reads(stream, shards)
        check_sightings(self._sightings, shards)
        return shards


def _check_reads(stream: Stream, shards: dict[int, list[Stored]]) -> None:
    """Compare `read`, `scan` and `verify` with the tail."""
    stored = {(shard, row.address): row.row for shard, rows in shards.items() for row in rows}
    scanned = [place for batch in stream.scan() for place in _places(batch)]
    assert sorted(scanned) == sorted(stored)
    order = sorted(
        stored, key=lambda place: (stored[place].secondary, stored[place].primary, place)
    )
    assert _places(stream.read()) == order
    report = stream.verify()
    assert report.is_clean, report.problems


def _places(rows: pa.Table | pa.RecordBatch) -> list[tuple[Any, Any]]:
    return list(zip(rows["shard"].to_pylist(), rows["address"].to_pylist(), strict=True))
