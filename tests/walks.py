"""How far a reader of the code walks: files, functions and moves between files of tiny runs.

    python -m tests.walks                      a table, a line a walk
    python -m tests.walks --files hot-read     the files and functions of walks that begin so

Each walk runs once untraced first, so that imports and caches do not count. A function counts once,
however often it is entered; a move is a call, or a generator that goes on, whose nearest caller of
ours is in another file. Threads of the run count as well.

The worker runs as it is assembled, with messages made by hand in place of a broker's.
"""

import argparse
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa

from storage_core import Environment, Stream, StreamOptions
from storage_core.testing import ManualClock
from tests.unit.connectors.records import record
from tests.unit.connectors.workers import AllAreRight, open_worker

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = tuple(
    f"{ROOT / package}{os.sep}"
    for package in ("storage_core", "connectors", "streaming_jobs", "typed_events")
)
# None of it due or refused by itself.
OPTIONS: Final = StreamOptions(shards=1, unit="s", block_records=8)
# No thread writes the index beside a walk, so that each count is the same every time.
ALONE: Final = Environment(has_index_worker=False)
# After which a commit round is due.
LINGER_S: Final = 0.05
Trace = Callable[[], Any]


@dataclass
class Walk:
    """What was entered of our packages while the trace was on."""

    entered: Counter[tuple[str, str]] = field(default_factory=Counter)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    is_on: bool = False

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they were entered first."""
        return list(dict.fromkeys(file for file, _ in self.entered))

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call; a profile function (`sys.setprofile`)."""
        code = frame.f_code
        if not self.is_on or event != "call" or not code.co_filename.startswith(PACKAGES):
            return
        if not code.co_name.startswith("<"):
            self.entered[code.co_filename, code.co_qualname] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGES):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.moves[caller.f_code.co_filename, code.co_filename] += 1

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Count what is entered meanwhile."""
        sys.setprofile(self.note)
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False
            sys.setprofile(None)


def rows(start: int, count: int) -> pa.Table:
    """Return rows of two ids, in their order."""
    primaries = range(start, start + count)
    return pa.table(
        {
            "primary": pa.array(primaries, pa.int64()),
            "secondary": pa.array([number % 2 for number in primaries], pa.int32()),
            "payload": pa.array([b"x"] * count, pa.binary()),
        }
    )


@contextmanager
def filled_stream(folder: Path, batches: int = 1) -> Iterator[Stream]:
    """Yield a stream of one shard with so many commits of sixteen rows."""
    with Stream.create(folder, "walk", OPTIONS, environment=ALONE) as stream:
        for number in range(batches):
            stream.append_batch(rows(16 * number, 16))
            stream.commit()
        yield stream


@contextmanager
def append(folder: Path) -> Iterator[Trace]:
    """Single rows, and their commit."""
    with filled_stream(folder) as stream:

        def run() -> None:
            stream.append(100, 1, b"x")
            stream.commit()

        yield run


@contextmanager
def hot_read(folder: Path) -> Iterator[Trace]:
    """Rows of one id, from blocks."""
    with filled_stream(folder) as stream:
        yield lambda: stream.read(1, 3, 12)


@contextmanager
def read_over_seam(folder: Path) -> Iterator[Trace]:
    """Rows of one id, from a part and from blocks."""
    with filled_stream(folder) as stream:
        stream.seal()
        stream.trim(timedelta(0))
        stream.append_batch(rows(16, 16))
        stream.commit()
        yield lambda: stream.read(1, 3, 28)


@contextmanager
def seal(folder: Path) -> Iterator[Trace]:
    """Committed rows become a part, in this process."""
    with filled_stream(folder) as stream:
        yield stream.seal


@contextmanager
def compact(folder: Path) -> Iterator[Trace]:
    """Small parts become a larger one, in this process."""
    with Stream.create(folder, "walk", OPTIONS, environment=ALONE) as stream:
        for number in range(6):
            stream.append_batch(rows(16 * number, 16))
            stream.commit()
            stream.seal()
        yield stream.compact


class _HandMadeClient:
    """librdkafka's consumer, whose next messages were made by hand."""

    def __init__(self, client: Any) -> None:
        self.messages: list[Any] = []
        self._client = client

    def consume(self, _records_max: int, _wait_s: float) -> list[Any]:
        messages, self.messages = self.messages, []
        return messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@contextmanager
def commit_round(folder: Path) -> Iterator[Trace]:
    """A worker's second commit round: fetch, map, append, sync, acknowledge."""
    with open_worker(folder) as worker:
        identities: Any = AllAreRight()
        worker._rounds._identities = identities
        client: Any = _HandMadeClient(worker._consumer._client)
        clock: Any = worker._clock
        assert isinstance(clock, ManualClock)

        def round_of(start: int) -> None:
            before = worker.counts.appended
            client.messages = [record(start + number, partition=0) for number in range(4)]
            while worker.counts.appended < before + 4:
                worker._step()
                worker._rounds.settle()
                clock.advance(LINGER_S)

        with patch.multiple(worker._consumer, _client=client, _native=None):
            round_of(0)
            yield lambda: round_of(4)


WALKS: Final = {
    "append": append,
    "hot-read": hot_read,
    "read-over-seam": read_over_seam,
    "seal": seal,
    "compact": compact,
    "commit-round": commit_round,
}


def walked(name: str) -> Walk:
    """Return what a walk enters, once it has been gone before."""
    walk = Walk()
    # Threads take the profile function as they start; most start before the trace is on.
    threading.setprofile(walk.note)
    try:
        for is_first in (True, False):
            with tempfile.TemporaryDirectory() as folder, WALKS[name](Path(folder)) as run:
                if is_first:
                    run()
                    continue
                with walk.traced():
                    run()
    finally:
        threading.setprofile(None)
    return walk


def table(walks: dict[str, Walk]) -> list[str]:
    """Return the lines of the table."""
    lines = [f"{'walk':<16}{'files':>7}{'functions':>11}{'moves':>7}"]
    for name, walk in walks.items():
        lines.append(
            f"{name:<16}{len(walk.files):>7}{len(walk.entered):>11}{walk.moves.total():>7}"
        )
    return lines


def listing(walk: Walk) -> list[str]:
    """Return the files of a walk, each with its functions, as they were entered first."""
    lines = []
    for file in walk.files:
        names = [name for path, name in walk.entered if path == file]
        lines.append(f"  {Path(file).relative_to(ROOT)}: {', '.join(names)}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or what one walk enters."""
    parser = argparse.ArgumentParser(
        "python -m tests.walks", description="Count what a run enters."
    )
    parser.add_argument("names", nargs="*", help="with what walks begin; all without")
    parser.add_argument("--files", action="store_true", help="list files and functions as well")
    options = parser.parse_args(arguments)
    names = [name for name in WALKS if not options.names or name.startswith(tuple(options.names))]
    walks = {name: walked(name) for name in names}
    lines = table(walks)
    if options.files:
        for name, walk in walks.items():
            lines += ["", name, *listing(walk)]
    print("\n".join(lines))  # noqa: T201 - its result is what it prints
    return 0


if __name__ == "__main__":
    sys.exit(main())
