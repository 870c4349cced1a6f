"""Goal: a process killed in the middle of expiries loses no row that stays, and leaves all sound.

Method: cycles on one store. A writer in another process appends batches, old and new, and beside
it a thread of the same process lets what is old expire, over and over at a floor that rises; each
notes what it was promised. SIGKILL strikes at a random moment. Then an opener verifies, and must
find all rows that were promised and have not expired, and beside them only such as were under
way. None is below the floor of an expiry that has ended, nor, once the opener has expired to the
floor of the last that began, below that one: by any read, here or in a reader.
"""

import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions, StreamReader
from tests.children import start_child
from tests.faults.support.campaign import campaigns, fault_seed, naming_seed
from tests.faults.support.ledger import read_notes
from tests.faults.support.writer import Notebook
from tests.waiting import await_that

NAME = "expiring"
MOMENT_MAX_S = 0.5
KEPT_S = 1000
_ROWS = 20
_IDS = 7
_BATCHES_MAX = 100_000
# How far below the newest floor of a batch's number its oldest rows lie, and its stragglers above.
_OLD_S = 1500
_STRAGGLER_S = 5000
_STRAGGLER_EVERY = 11

Row = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """What a writer goes on with."""

    root: Path
    notes: Path
    first: int


def now_at(number: int) -> int:
    """Return what time it is by the number of a batch."""
    return 10**6 + 40 * number


def rows_of(number: int) -> list[Row]:
    """Return primary and id of a batch's rows: about now, old ones, now and then a straggler."""
    chance = Random(number)
    now = now_at(number)
    rows = [(now - chance.randrange(_OLD_S), chance.randrange(_IDS)) for _ in range(_ROWS)]
    if number % _STRAGGLER_EVERY == 0:
        rows.append((now + _STRAGGLER_S, _IDS))
    return rows


def run_writer(plan: ExpiryPlan) -> None:
    """Append batch after batch, expire beside it, note what is done, until killed."""
    notebook = Notebook(plan.notes)
    done = plan.first
    with Stream.open(plan.root, NAME) as stream:

        def expire() -> None:
            while True:
                now = now_at(done)
                # Noted before: it counts from the moment it begins.
                notebook.note(begun=now)
                stream.expire(now)
                notebook.note(ended=now)

        threading.Thread(target=expire, daemon=True).start()
        for number in range(plan.first, _BATCHES_MAX):
            rows = rows_of(number)
            table = pa.table(
                {
                    "primary": pa.array([primary for primary, _ in rows], pa.int64()),
                    "secondary": pa.array([one for _, one in rows], pa.int32()),
                    "payload": pa.array([b"%d" % number * 40] * len(rows), pa.binary()),
                }
            )
            stream.append_batch(table)
            stream.commit()
            done = number
            notebook.note(batch=number)
    signal.pause()


def noted(notes: Path, kind: str) -> Iterator[int]:
    """Yield what was noted of a kind; a line that the kill cut off was no promise."""
    yield from (note[kind] for note in read_notes(notes) if kind in note)


def has_expired_beside_rows(notes: Path) -> bool:
    """Tell whether an expiry has ended behind a batch."""
    return notes.exists() and any(map(now_at(0).__lt__, noted(notes, "ended")))


@dataclass
class Ledger:
    """Rows that were promised, those whose writer was killed over them, and how far they went."""

    whole: Counter[Row]
    open: Counter[Row]
    next: int = 0
    begun: int = 0
    ended: int = 0

    def settle(self, notes: Path) -> None:
        """Take over what a killed writer was promised; the next one does not repeat the rest."""
        numbers = list(noted(notes, "batch"))
        assert numbers == list(range(self.next, self.next + len(numbers)))
        for number in numbers:
            self.whole.update(rows_of(number))
        self.next += len(numbers)
        self.open.update(rows_of(self.next))
        self.next += 1
        self.begun = max([self.begun, *noted(notes, "begun")])
        self.ended = max([self.ended, *noted(notes, "ended")])

    def promised(self) -> Counter[Row]:
        """Return the rows that must be there, whether the last expiry came to its end or not."""
        return _from(self.begun, self.whole)

    def may_be(self, now: int) -> Counter[Row]:
        """Return the rows that may be there once expiry has ended at a time."""
        return _from(now, self.whole + self.open)


def _from(now: int, rows: Counter[Row]) -> Counter[Row]:
    return Counter({row: n for row, n in rows.items() if row[0] >= now - KEPT_S})


def check(root: Path, ledger: Ledger) -> None:
    """Compare all that is there with what was promised, before and after another expiry."""
    with Stream.open(root, NAME) as stream, StreamReader.open(root, NAME) as reader:
        _expect((stream, reader), ledger.promised(), ledger.may_be(ledger.ended))
        stream.expire(ledger.begun)
        _expect((stream, reader), ledger.promised(), ledger.may_be(ledger.begun))


def _expect(
    sources: tuple[Stream, StreamReader], promised: Counter[Row], may_be: Counter[Row]
) -> None:
    report = sources[0].verify()
    assert report.is_clean, report.problems
    columns = ["primary", "secondary"]
    for reads in sources:
        stored = _counted([reads.read(columns=columns)])
        assert not promised - stored, "a row that stays is gone"
        assert not stored - may_be, "a row is there that has gone, or twice"
        assert _counted(reads.scan(columns=columns)) == stored


def _counted(parts: Iterable[pa.Table | pa.RecordBatch]) -> Counter[Row]:
    rows = (row for part in parts for row in part.to_pylist())
    return Counter((row["primary"], row["secondary"]) for row in rows)


@pytest.mark.parametrize("cycles", campaigns("SHARDLOG_FAULT_EXPIRY", few=2, many=3))
def test_process_killed_while_rows_expire_keeps_what_stays(tmp_path: Path, cycles: int) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        chance, ledger, root = Random(seed), Ledger(Counter(), Counter()), tmp_path / "root"
        options = StreamOptions(
            shards=2, unit="s", retention=timedelta(seconds=KEPT_S), block_records=64
        )
        Stream.create(root, NAME, options).close()
        for cycle in range(cycles):
            notes = tmp_path / f"notes-{cycle}"
            writer = start_child(run_writer, ExpiryPlan(root, notes, ledger.next))
            if cycle == 0:
                # On a slow machine each might be killed before rows expire beside its first.
                await_that(partial(has_expired_beside_rows, notes), "rows that expire")
            writer.join(chance.uniform(0.0, MOMENT_MAX_S))
            writer.kill()
            writer.join()
            ledger.settle(notes)
            check(root, ledger)
