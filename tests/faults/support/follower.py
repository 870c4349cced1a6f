"""The child process that reads beside a writer and notes what it saw.

It tails every shard up to what `refresh` calls committed and notes, each time, the count and the
checksum of all rows seen so far: whatever the store holds later must agree. On SIGTERM it looks
once more, reads everything again from the start, and ends.

Errors are noted. One that says "retry later" is retried; after any other the follower ends.
"""

import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from storage_core import StreamReader, UnavailableError
from tests.faults.support.ledger import Digest, stored_rows
from tests.faults.support.writer import Notebook

_WAIT_S = 0.02


@dataclass(frozen=True, slots=True)
class FollowerPlan:
    """What a follower is to read and where it notes it."""

    root: Path
    name: str
    notes: Path


class Follower:
    """What one follower has seen of each shard."""

    def __init__(self, reader: StreamReader, notebook: Notebook) -> None:
        self._reader = reader
        self._notebook = notebook
        self._seen: dict[int, int] = {}
        self._digests: dict[int, Digest] = {}
        self.is_asked_to_end = False

    def ask_to_end(self, _signal: int, _frame: FrameType | None) -> None:
        """End after one more look: the handler of SIGTERM."""
        self.is_asked_to_end = True

    def follow(self) -> None:
        """Look again and again."""
        while not self.is_asked_to_end:
            try:
                self.look()
                self._reader.wait(0, self._seen.get(0, 0), _WAIT_S)
            except UnavailableError as error:
                self._notebook.note(retried=str(error))
        self.look()
        self._seen, self._digests = {}, {}
        self.look()

    def look(self) -> None:
        """Read what has been committed since the last look."""
        for shard, committed in self._reader.refresh().items():
            seen = self._seen.setdefault(shard, 0)
            assert committed >= seen, f"shard {shard}: committed fell from {seen} to {committed}"
            if committed == seen:
                continue
            digest = self._digests.setdefault(shard, Digest())
            for stored in stored_rows(self._reader.tail(shard, seen, committed)):
                digest.add(stored)
            self._seen[shard] = committed
            totals = {"count": digest.count, "digest": digest.hexdigest()}
            self._notebook.note(shard=shard, end=committed, **totals)


def run_follower(plan: FollowerPlan) -> None:
    """Follow until SIGTERM."""
    notebook = Notebook(plan.notes)
    with notebook.noting_errors(), StreamReader.open(plan.root, plan.name) as reader:
        follower = Follower(reader, notebook)
        signal.signal(signal.SIGTERM, follower.ask_to_end)
        notebook.note(opened=True)
        follower.follow()
        notebook.note(finished=True)
