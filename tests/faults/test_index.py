"""The sparse index: whatever it holds, lacks or lost, reads answer as plain lists do.

Goal: a bound from the index is only a shortcut. No jitter, late or ahead row, equal primary, edge
of a window, dropped or lagging entry, reopening or expiry makes it hide a row.

Method: random rows, by seed, go to two streams, one with an index and one without, and to a list.
Between them the index is looked at, drained, held until it drops, or left behind; streams are
reopened, and expire. At each of several stages random reads by id and range are asked of both
writers, and some of a reader beside each, and all must answer what the list does.

SHARDLOG_FAULT_INDEX says how many reads are asked. Rounds know nothing of each other: many are
shared out to a process for each processor. A failure names the seed of its round.
"""

import random
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from storage_core import (
    INT64_MAX,
    Environment,
    IndexOptions,
    ReadRequest,
    Record,
    Stream,
    StreamOptions,
    StreamReader,
)
from storage_core.testing import ManualClock
from tests.thin import rounds

QUERIES = rounds("SHARDLOG_FAULT_INDEX", few=300, many=300)
STAGES = 4
QUERIES_A_STAGE = 50
BATCHES_A_STAGE = 6
# So few rounds are over before other processes have begun.
ROUNDS_FEW = 10
NOW_S = 1_700_000_000
RETENTION = timedelta(minutes=10)
AHEAD_MAX = 300
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
READERS_SHARE = 0.02
WAYS = ("read", "read", "scan", "for_each", "newest", "earliest")
STREAMS = ("indexed", "plain")

Row = tuple[int, int, int]


class Round:
    """Two streams of the same rows, and the list of them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.root = root
        self.clock = ManualClock(wall_ns=NOW_S * 10**9)
        self.rows: list[Row] = []
        self.floor = 0
        self.ids = self.chance.choice([[7], [1, 2, 3], list(range(-5, 8))])
        options = StreamOptions(
            shards=1,
            unit="s",
            jitter=self.chance.choice([0, 0, 3, 50, 2**63 - 1]),
            retention=RETENTION,
            ahead_max=AHEAD_MAX,
            block_records=self.chance.choice([1, 4, 4, 16]),
            index=IndexOptions(
                spacing_min=self.chance.choice([2, 2, 8]),
                queue_max=self.chance.choice([4, 64, 2048]),
            ),
        )
        off = replace(options, index=IndexOptions(is_on=False))
        self.streams = {
            name: Stream.create(root, name, index_options, environment=self.environment)
            for name, index_options in zip(STREAMS, (options, off), strict=True)
        }
        # Rows gather around a time that goes on, fast or slowly, so that windows are many or few.
        self.time, self.pace = NOW_S - 3600, self.chance.choice([0, 1, 20, 200])

    @property
    def environment(self) -> Environment:
        """Nobody writes entries but this test."""
        return Environment(self.clock, has_index_worker=False)

    def fill(self) -> None:
        """Append batches, with what may happen between them."""
        for _ in range(BATCHES_A_STAGE):
            self.append()
            for stream in self.streams.values():
                stream.commit()
            event = self.chance.choice(["look", "nothing", "reopen", *["drain"] * 6])
            if event == "reopen":
                self.reopen()
            elif event != "nothing":
                getattr(self.streams["indexed"].index, event)()
        if self.chance.random() < 0.3:
            self.expire()
        if self.chance.random() < 0.5:
            self.append()
            self.streams["indexed"].commit()
            self.streams["plain"].commit()

    def append(self) -> None:
        count = self.chance.randint(1, 24)
        batch: list[Row] = []
        for _ in range(count):
            self.time = min(self.time + self.chance.randint(0, self.pace), NOW_S + AHEAD_MAX)
            off = self.chance.choice([0, 0, 0, 0, -1, -3, -60, -500, 5, AHEAD_MAX * 5])
            batch.append((self.chance.choice(self.ids), self.time + off, 0))
        table = pa.table(
            {
                "primary": pa.array([primary for _, primary, _ in batch], pa.int64()),
                "secondary": pa.array([one for one, _, _ in batch], pa.int32()),
                "payload": pa.array([b""] * count, pa.binary()),
            }
        )
        rows = [row for row in batch if row[1] >= self.floor]
        address = len(self.rows)
        self.rows += [(one, primary, address + n) for n, (one, primary, _) in enumerate(rows)]
        for stream in self.streams.values():
            assert stream.append_batch(table).expired == count - len(rows)

    def reopen(self) -> None:
        for name, stream in self.streams.items():
            stream.close()
            self.streams[name] = Stream.open(self.root, name, environment=self.environment)

    def expire(self) -> None:
        now = self.chance.randint(NOW_S - 3600, NOW_S + 600)
        for stream in self.streams.values():
            stream.expire(now)
        self.floor = max(self.floor, now - int(RETENTION.total_seconds()))

    def expected(self, way: str, ids: list[int], start: int, end: int, limit: int) -> list[Row]:
        """Return what the list answers."""
        start, end = max(start, self.floor), INT64_MAX if way == "earliest" else end
        matching = sorted(row for row in self.rows if row[0] in ids and start <= row[1] <= end)
        of_each = [[row for row in matching if row[0] == one] for one in ids]
        if way == "earliest":
            return [(0, min(row[1] for row in matching), 0)] if matching else []
        if way == "newest":
            return [rows[-1] for rows in of_each if rows]
        if way == "read" and limit:
            return [row for rows in of_each for row in rows[:limit]]
        return matching

    def ask(self) -> None:
        """Ask one random read of both writers, and sometimes of a reader beside each."""
        ids = sorted(self.chance.sample(self.ids, self.chance.randint(1, min(3, len(self.ids)))))
        start = self.chance.choice(self.rows)[1] + self.chance.randint(-2, 2)
        end = start + self.chance.choice([0, 1, 30, 600, 10**5])
        limit = self.chance.choice([0, 0, 1, 3])
        way = self.chance.choice(WAYS)
        for stream in self.streams.values():
            self._compare(stream, way, (ids, start, end, limit))
        if self.chance.random() < READERS_SHARE:
            for name in STREAMS:
                with StreamReader.open(self.root, name) as reader:
                    self._compare(reader, way, (ids, start, end, limit))

    def _compare(
        self, stream: Stream | StreamReader, way: str, question: tuple[list[int], int, int, int]
    ) -> None:
        rows, expected = _answer(stream, way, *question), self.expected(way, *question)
        if rows != expected:
            message = f"{way}{rows} of a {type(stream).__name__}: {rows}, expected {expected}"
            raise AssertionError(message)

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()


def _answer(  # noqa: PLR0913 - a read's parts
    stream: Stream | StreamReader, way: str, ids: list[int], start: int, end: int, limit: int
) -> list[Row]:
    if way == "read":
        return _rows([stream.read(ids, start, end, limit)])
    if way == "scan":
        return sorted(_rows(stream.scan(ids, start, end)))
    if way == "newest":
        request = ReadRequest(0, start=start, end=end, ids=tuple(ids), order="newest")
        return _rows(stream._open.by_number[0].scan(request))
    if way == "earliest":
        earliest = stream.earliest(ids, start)
        return [] if earliest is None else [(0, earliest, 0)]
    seen: list[Row] = []

    def see(record: Record) -> None:
        seen.append((record.secondary or 0, record.primary, record.address))

    stream.for_each(ids, start, end, see)
    return seen


def _rows(batches: Iterable[pa.RecordBatch | pa.Table]) -> list[Row]:
    rows: list[Row] = []
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("secondary", "primary", "address"))
        rows += zip(*columns, strict=True)
    return rows


def _round(seed: int) -> tuple[int, int]:
    """Fill and ask in turns; return how many entries were written, and how many dropped."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        round_ = Round(Path(folder), seed)
        try:
            for _ in range(STAGES):
                round_.fill()
                for _ in range(QUERIES_A_STAGE):
                    round_.ask()
            for stream in round_.streams.values():
                assert stream.verify().problems == ()
            stats = round_.streams["indexed"].stats()
        except BaseException as error:
            error.add_note(f"in the round of seed {seed}")
            raise
        finally:
            round_.close()
    return stats.index_entries, stats.index_dropped


def _rounds(count: int) -> Iterator[tuple[int, int]]:
    if count <= ROUNDS_FEW:
        yield from map(_round, range(count))
        return
    # NOTE: spawned; a fork would take RocksDB's locks along, and none of its threads.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield from pool.map(_round, range(count))


def test_reads_answer_alike_with_an_index_without_one_and_by_brute_force() -> None:
    rounds = list(_rounds(-(-QUERIES // (STAGES * QUERIES_A_STAGE))))
    assert sum(entries for entries, _ in rounds) > QUERIES // 8
    assert sum(dropped for _, dropped in rounds) > 0
