"""The vocabulary of the sink's tests without Spark: tasks that stage, commits that decide.

lab = SinkLab(root)
one = lab.task(3, [10, 11])       a task of batch 3 stages two rows
lab.commit(3, one, …)             the driver commits what these tasks told
lab.abort(one, None)
lab.stored                        the primaries of what a reader sees
lab.staged                        what lies in staging
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import StreamReader, TransactionId
from storage_core.landing import OpenWriters
from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.sink.commit import abort, commit, staged_messages
from streaming_jobs.sink.mapping import ColumnMapping
from streaming_jobs.sink.options import parse_stream_options
from streaming_jobs.sink.target import find_or_make
from streaming_jobs.sink.task import StagedMessage, stage

MAPPING = ColumnMapping("records", "ms")


def batch_of(primaries: Iterable[int | None]) -> pa.RecordBatch:
    """Return rows of as many ids as there are primaries."""
    numbers = list(primaries)
    return pa.record_batch(
        {
            "primary": pa.array(numbers, pa.int64()),
            "secondary": pa.array(range(len(numbers)), pa.int32()),
            "value": pa.array([b"v"] * len(numbers), pa.binary()),
        }
    )


class SinkLab:
    """One query that writes to one stream."""

    def __init__(self, root: Path, query: str = "q1", **options: str) -> None:
        self.root = root
        chosen = {"path": str(root), "stream": "s", "shards": "2", "lockwait": "0", **options}
        self.options = parse_stream_options(chosen)
        area = find_or_make(self.options)
        self.target = StreamLocation.here(str(root), "s", area.root_id, area.incarnation)
        self.query = query
        self.writers = OpenWriters(0)

    def batch(self, number: int) -> TransactionId:
        """Return what tells a batch from all others."""
        return TransactionId(f"query:{self.query}", number)

    def task(self, number: int, *batches: Iterable[int | None]) -> StagedMessage:
        """Run one task of a batch."""
        rows = iter([batch_of(primaries) for primaries in batches])
        return stage(self.target, MAPPING, self.batch(number), rows)

    def commit(self, number: int, *messages: StagedMessage | None) -> None:
        """Commit a batch."""
        staged = staged_messages(messages)
        commit(self.options, self.target, self.batch(number), staged, self.writers)

    def run(self, number: int, primaries: Iterable[int]) -> None:
        """Run a batch of one task to its end."""
        self.commit(number, self.task(number, primaries))

    def abort(self, *messages: StagedMessage | None) -> None:
        """Abort a batch."""
        abort(self.target, messages)

    def elsewhere(self, path: Path) -> "SinkLab":
        """Return a lab whose tasks look at another path."""
        other = SinkLab.__new__(SinkLab)
        other.__dict__.update(self.__dict__)
        other.target = replace(self.target, path=str(path))
        return other

    @property
    def stored(self) -> list[int]:
        """The primaries that a reader sees, sorted."""
        with StreamReader.open(self.root, "s") as reader:
            primaries: Any = reader.read().column("primary")
            return sorted(primaries.to_pylist())

    @property
    def staged(self) -> list[str]:
        """What lies in staging."""
        return sorted(path.name for path in (self.root / "s" / "staging").rglob("*"))
