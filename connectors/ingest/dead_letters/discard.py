"""Deletes chosen dead letters for good, and counts them as discarded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.group.retry_shards import finish_retry, retry_shard_of
from connectors.ingest.dead_letters.opening import open_partition, partitions_with_dead_letters
from connectors.ingest.dead_letters.selection import Selection
from storage_core import StreamReader


@dataclass(frozen=True, slots=True)
class DiscardReport:
    """How many dead letters of a partition were discarded; of a dry run, would be."""

    partition: int
    discarded: int


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
        count = 0
        if is_dry_run:
            with StreamReader.open(root, stream) as reader:
                reader.refresh()
                count = sum(1 for _ in selection.dead_letters(reader, number))
        else:
            for cleared in _discarded(root, stream, number, selection):
                count += cleared
                show(done + count)
        done += count
        reports.append(DiscardReport(number, count))
    return reports


def _discarded(root: Path, name: str, number: int, selection: Selection) -> Iterator[int]:
    with open_partition(root, name, number, with_retry_shard=False) as stream:
        if retry_shard_of(number) in stream.committed():
            finish_retry(stream, number)  # 1
        start = selection.start
        while batch := next(replace(selection, start=start).batches(stream, number), None):
            start = batch[-1].offset + 1
            offsets = [entry.offset for entry in batch]
            yield stream.clear_dead_letters(number, offsets, outcome="discarded")  # 2
