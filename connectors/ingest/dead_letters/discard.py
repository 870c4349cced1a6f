"""Deletes chosen dead letters for good, and counts them as discarded."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from connectors.group.retry_shards import finish_retry, retry_shard_of
from connectors.ingest.dead_letters.opening import open_partition, partitions_with_dead_letters
from connectors.ingest.dead_letters.selection import Selection, StoredDeadLetter
from storage_core import StreamReader


@dataclass(slots=True)
class DiscardReport:
    """What became of the dead letters of a partition; of a dry run, what would.

    Attributes:
        partition: The partition.
        discarded: How many were deleted.
        first: The least of their offsets; None of none.
        last: The largest.
        reasons: How many by the word for their reason.
    """

    partition: int
    discarded: int = 0
    first: int | None = None
    last: int | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def note(self, batch: Sequence[StoredDeadLetter]) -> None:
        """Add dead letters, those with the larger offsets later."""
        if self.first is None:
            self.first = batch[0].offset
        self.last = batch[-1].offset
        self.discarded += len(batch)
        self.reasons.update(entry.word for entry in batch)


def discard(
    root: Path,
    stream: str,
    selection: Selection,
    show: Callable[[int], None],
    *,
    is_dry_run: bool,
) -> list[DiscardReport]:
    """Delete the chosen dead letters of a stream; `show` is told how many are gone.

    For each partition, with its shard's lock:

    1. Finish a retry that died, so that what became a row is not counted as discarded.
    2. Delete the next chosen dead letters and count them, in one write; commit.

    A failure, or death, leaves what was not deleted; the same call goes on there.

    Raises:
        InvalidRequestError: There is no such stream or partition.
        ShardLockedError: A process has the shard; nothing of that partition was done.
    """
    reports: list[DiscardReport] = []
    done = 0
    for number in partitions_with_dead_letters(root, stream, selection):
        report = DiscardReport(number)
        reports.append(report)
        if is_dry_run:
            _would_discard(root, stream, report, selection)
        else:
            for _ in _discarded(root, stream, report, selection):
                show(done + report.discarded)
        done += report.discarded
    return reports


def _would_discard(root: Path, name: str, report: DiscardReport, selection: Selection) -> None:
    with StreamReader.open(root, name) as reader:
        reader.refresh()
        for batch in selection.batches(reader, report.partition):
            report.note(batch)


def _discarded(
    root: Path, name: str, report: DiscardReport, selection: Selection
) -> Iterator[None]:
    number = report.partition
    with open_partition(root, name, number, with_retry_shard=False) as stream:
        if retry_shard_of(number) in stream.committed():
            finish_retry(stream, number)  # 1
        start = selection.start
        while batch := next(replace(selection, start=start).batches(stream, number), None):
            start = batch[-1].offset + 1
            offsets = [entry.offset for entry in batch]
            stream.clear_dead_letters(number, offsets, outcome="discarded")  # 2
            report.note(batch)
            yield
