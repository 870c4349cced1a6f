"""The child process that writes until it is stopped, and notes what was promised to it.

Rounds of opening, writing and closing follow each other, so that a kill strikes each of them. In
a round four threads share the stream: single appends, batches, the feed's explicit addresses
with overlaps, and transactions; a fifth makes parts of the rows, if it is to (upkeep.py). A note
is one line, written with one `write`, the moment a promise was given; notes lie outside the store's
file system.

Errors are noted, never hidden: the test decides which may be.
"""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from storage_core import Environment, ShardlogError, Stream
from storage_core.engine.rocksdb import open_store
from tests.faults.upkeep import keep_up
from tests.faults.workload import (
    FEED_SHARD,
    Row,
    feed_row,
    is_feed_gap,
    lane_row,
    transaction_rows,
)

LANES_A_CYCLE = 2
TRANSACTIONS_A_CYCLE = 100
_FEED_OVERLAP = 50


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """What a writer is to do. `cycle` gives it lanes and transactions that no other has used."""

    root: Path
    name: str
    notes: Path
    cycle: int
    seed: int
    steps: int
    rounds: int = 3
    write_buffer_bytes: int = 256 * 1024
    apart_bytes_min: int = 3072
    segment_bytes: int = 16 * 1024
    makes_parts: bool = False


class Notebook:
    """A file of notes that several threads write, a line at a time."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, **note: object) -> None:
        """Add a line."""
        os.write(self._descriptor, json.dumps(note).encode() + b"\n")

    @contextmanager
    def noting_errors(self) -> Iterator[None]:
        """Note what is raised, with all its kinds, and go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the test judges the kind
            kinds = [kind.__name__ for kind in type(error).__mro__]
            self.note(error=str(error), kinds=kinds)


def table_of(rows: list[Row]) -> pa.Table:
    """Return rows as the table that `append_batch` takes."""
    return pa.table(
        {
            "primary": pa.array([row.primary for row in rows], pa.int64()),
            "secondary": pa.array([row.secondary for row in rows], pa.int32()),
            "version": pa.array([row.version for row in rows], pa.uint16()),
            "payload": pa.array([row.payload for row in rows], pa.binary()),
        }
    )


def each_a_write(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Give every other table keys, which are null: a transaction writes it apart from the last."""
    for number, table in enumerate(tables):
        keys = pa.nulls(len(table), pa.binary())
        yield table.append_column("key", keys) if number % 2 else table


class Writer:
    """One writer's state from round to round: how far each source has come."""

    def __init__(self, plan: WriterPlan, notebook: Notebook) -> None:
        self._plan = plan
        self._notebook = notebook
        self._lanes = {plan.cycle * LANES_A_CYCLE + index: 0 for index in range(LANES_A_CYCLE)}
        self._transaction = plan.cycle * TRANSACTIONS_A_CYCLE

    def run_round(self, number: int) -> None:
        """Open, write from four threads, close."""
        plan = self._plan
        store = partial(
            open_store,
            write_buffer_bytes=plan.write_buffer_bytes,
            apart_bytes_min=plan.apart_bytes_min,
            segment_bytes=plan.segment_bytes,
        )
        with Stream.open(plan.root, plan.name, environment=Environment(open_store=store)) as stream:
            self._notebook.note(opened=number)
            singles, batches = self._lanes
            work: list[Callable[[Stream, Random], None]] = [
                partial(self._append_singles, singles),
                partial(self._append_batches, batches),
                self._append_feed,
                self._append_transactions,
            ]
            threads = [
                threading.Thread(target=self._repeat, args=(step, stream, number, index))
                for index, step in enumerate(work)
            ]
            keeping = threading.Thread(target=self._keep_up, args=(stream, number, threads))
            for thread in threads:
                thread.start()
            if plan.makes_parts:
                keeping.start()
                keeping.join()
            for thread in threads:
                thread.join()

    def _repeat(
        self, step: Callable[[Stream, Random], None], stream: Stream, number: int, index: int
    ) -> None:
        chance = Random(f"{self._plan.seed}/{number}/{index}")
        with self._notebook.noting_errors():
            for _ in range(self._plan.steps):
                step(stream, chance)

    def _keep_up(self, stream: Stream, number: int, others: list[threading.Thread]) -> None:
        chance = Random(f"{self._plan.seed}/{number}/upkeep")
        with self._notebook.noting_errors():
            keep_up(
                stream,
                chance,
                is_over=lambda: not any(thread.is_alive() for thread in others),
                told=lambda: self._notebook.note(parts=len(stream.parts())),
            )

    def _append_singles(self, lane: int, stream: Stream, chance: Random) -> None:
        for _ in range(chance.randint(1, 60)):
            stream.append(*lane_row(lane, self._lanes[lane]))
            self._lanes[lane] += 1
        self._promise_lane(lane, stream)

    def _append_batches(self, lane: int, stream: Stream, chance: Random) -> None:
        for _ in range(chance.randint(1, 3)):
            start = self._lanes[lane]
            end = start + chance.randint(1, 80)
            stream.append_batch(table_of([lane_row(lane, number) for number in range(start, end)]))
            self._lanes[lane] = end
        self._promise_lane(lane, stream)

    def _promise_lane(self, lane: int, stream: Stream) -> None:
        count = self._lanes[lane]
        self._notebook.note(lane=lane, count=count, committed=stream.commit())

    def _append_feed(self, stream: Stream, chance: Random) -> None:
        following = stream.commit()[FEED_SHARD]
        start = max(0, following - chance.randint(0, _FEED_OVERLAP))
        stop = following + chance.randint(1, 100)
        addresses = [address for address in range(start, stop) if not is_feed_gap(address)]
        if not addresses:
            return
        report = stream.append_batch(
            table_of([feed_row(address) for address in addresses]),
            shard=FEED_SHARD,
            addresses=np.array(addresses, np.int64),
        )
        told = report.appended + report.duplicates
        assert told == len(addresses), f"{told} of {len(addresses)} rows accounted for"
        self._notebook.note(committed=stream.commit())

    def _append_transactions(self, stream: Stream, chance: Random) -> None:
        transaction = self._transaction
        self._transaction += 1
        rows = transaction_rows(transaction)
        cut = chance.randint(1, len(rows) - 1)
        with stream.transaction(f"t{transaction}", len(rows)) as staged:
            parts = (rows[:cut], rows[cut::2])
            for table in each_a_write(map(table_of, parts)):
                staged.append_batch(table)
            for row in rows[cut + 1 :: 2]:
                staged.append(*row)
        self._notebook.note(transaction=transaction)


def run_writer(plan: WriterPlan) -> None:
    """Write round after round, then wait to be killed."""
    notebook = Notebook(plan.notes)
    writer = Writer(plan, notebook)
    for number in range(plan.rounds):
        with notebook.noting_errors():
            writer.run_round(number)
    notebook.note(finished=True)
    signal.pause()


def is_typed(note: dict[str, list[str]]) -> bool:
    """Say whether a noted error is one of ours."""
    return ShardlogError.__name__ in note["kinds"]
