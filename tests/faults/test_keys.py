"""Goal: however a writer is killed, every key has its number, every row its key, and none is lost.

Method: cycles on one store. A writer in another process appends batches of which some rows are of
keys that were never there, and notes each batch that it was promised; SIGKILL strikes at a random
moment. Then an opener verifies, and a reader must find the rows of all batches that were promised,
under their keys, and beside them only such as were under way.
"""

import signal
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions, StreamReader
from tests.children import start_child
from tests.faults.support.campaign import campaigns, fault_seed, naming_seed
from tests.faults.support.writer import Notebook
from tests.waiting import await_that

NAME = "keyed"
MOMENT_MAX_S = 0.3
_ROWS = 20
_BATCHES_MAX = 100_000
_KEYS_ASKED = 30

Key = bytes | None


@dataclass(frozen=True, slots=True)
class KeysPlan:
    """What a writer goes on with."""

    root: Path
    notes: Path
    first: int


def keys_of(batch: int) -> list[Key]:
    """Return the keys of a batch's rows: of a new key, of ones before, of a few, of none."""
    chance = Random(batch)
    new: list[Key] = [b"new-%d" % batch] * 2
    before: list[Key] = [b"new-%d" % chance.randrange(batch + 1) for _ in range(_ROWS // 2)]
    few: list[Key] = [chance.choice([None, b"", b"few"]) for _ in range(_ROWS - len(before) - 2)]
    return new + before + few


def run_writer(plan: KeysPlan) -> None:
    """Append batch after batch, note each that is committed, until killed."""
    notebook = Notebook(plan.notes)
    with Stream.open(plan.root, NAME) as stream:
        for number in range(plan.first, _BATCHES_MAX):
            columns = {
                "primary": pa.array([number] * _ROWS, pa.int64()),
                "key": pa.array(keys_of(number), pa.binary()),
                "payload": pa.nulls(_ROWS, pa.binary()),
            }
            if number % 7 == 0:
                with stream.transaction(f"t{number}", _ROWS) as transaction:
                    transaction.append_batch(pa.table(columns))
            else:
                stream.append_batch(pa.table(columns))
                stream.commit()
            notebook.note(batch=number)
    signal.pause()


def promised(notes: Path) -> int:
    """Return how many batches were noted."""
    return len(notes.read_text().splitlines()) if notes.exists() else 0


def is_any_promised(notes: Path) -> bool:
    return promised(notes) > 0


@dataclass
class Ledger:
    """Batches that were promised, and those whose writer was killed over them."""

    whole: Counter[tuple[Key, int]]
    open: Counter[tuple[Key, int]]
    next: int = 0

    def settle(self, count: int) -> None:
        """Take over what a killed writer was promised; the next one does not repeat the rest."""
        for number in range(self.next, self.next + count):
            self.whole.update((key, number) for key in keys_of(number))
        self.next += count
        self.open.update((key, self.next) for key in keys_of(self.next))
        self.next += 1


def check(root: Path, ledger: Ledger) -> None:
    """Compare all that is there with what was promised."""
    with Stream.open(root, NAME) as stream, StreamReader.open(root, NAME) as reader:
        report = stream.verify()
        assert report.is_clean, report.problems
        rows = reader.read(columns=["key", "primary"]).to_pylist()
        stored = Counter((row["key"], row["primary"]) for row in rows)
        assert not ledger.whole - stored
        assert not stored - ledger.whole - ledger.open
        for key in sorted({key for key, _ in stored if key is not None})[:_KEYS_ASKED]:
            times = [
                primary
                for (of_key, primary), n in stored.items()
                if of_key == key
                for _ in range(n)
            ]
            for reads in (stream, reader):
                assert reads.read(keys=[key])["primary"].to_pylist() == sorted(times)


@pytest.mark.parametrize("cycles", campaigns("SHARDLOG_FAULT_KEYS", few=3, many=4))
def test_killed_writer_leaves_each_key_its_number_and_its_rows(tmp_path: Path, cycles: int) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        chance, ledger, root = Random(seed), Ledger(Counter(), Counter()), tmp_path / "root"
        options = StreamOptions(shards=2, key_mode="dictionary", unit="sequence")
        Stream.create(root, NAME, options).close()
        for cycle in range(cycles):
            notes = tmp_path / f"notes-{cycle}"
            writer = start_child(run_writer, KeysPlan(root, notes, ledger.next))
            if cycle == 0:
                # On a slow machine each might be killed before its first batch.
                await_that(partial(is_any_promised, notes), "a batch")
            writer.join(chance.uniform(0.0, MOMENT_MAX_S))
            writer.kill()
            writer.join()
            ledger.settle(promised(notes))
            check(root, ledger)
        assert ledger.next > cycles
