"""Judges kept dead letters again, and stores those that are well now as rows of the retry shard.

Nothing is sent to Kafka. A dead letter that is still refused stays as it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from connectors.dlq.record import advice_for
from connectors.group.retry_shards import finish_retry, retry_shard_of, source_of
from connectors.ingest.assignment.partition_writer import stored_rows
from connectors.ingest.dead_letters.judging import Judge
from connectors.ingest.dead_letters.opening import open_partition, partitions_with_dead_letters
from connectors.ingest.dead_letters.selection import Selection, StoredDeadLetter
from connectors.ingest.mapping import ShardRecords
from connectors.ingest.values.json_values import EventValues
from connectors.kafka import Partition
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import StreamSettings, rules_of
from storage_core import State, Stream, StreamReader, SystemClock


@dataclass(slots=True)
class RetryReport:
    """What became of the dead letters of one partition.

    Attributes:
        partition: The partition.
        shard: The shard that their rows are in.
        stored: How many are rows now; of a dry run, would be.
        late: How many of them are late.
        finished: How many an earlier retry had stored, and were only cleared.
        refused: How many still cannot be rows, by reason.
        first_refused: The least offset of those; None of none.
    """

    partition: int
    shard: int
    stored: int = 0
    late: int = 0
    finished: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    first_refused: int | None = None

    def refuse(self, reasons: Mapping[int, str]) -> None:
        """Add those that cannot be rows, by offset, those with the larger offsets later."""
        self.refused.update(reasons.values())
        if self.first_refused is None:
            self.first_refused = min(reasons, default=None)

    @property
    def looked_at(self) -> int:
        """How many were judged."""
        return self.stored + sum(self.refused.values())

    @property
    def advice(self) -> str | None:
        """What to set so that the most of those that are refused would be stored."""
        return next(
            filter(None, (advice_for(each) for each, _ in self.refused.most_common())), None
        )


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """What of a worker's settings dead letters are judged by."""

    stream: StreamSettings
    schemas: SchemaSettings


def retry(  # noqa: PLR0913 - what a retry is told
    root: Path,
    stream: str,
    selection: Selection,
    settings: RetrySettings,
    show: Callable[[int], None],
    *,
    is_dry_run: bool,
) -> list[RetryReport]:
    """Judge the chosen dead letters of a stream again; `show` is told how many were.

    For each partition, with its shard's lock:

    1. Finish: clear the dead letters that the last batch of an earlier retry stored.
    2. Read: the next chosen dead letters.
    3. Judge: as the worker would today; late is what would be late in the partition's own shard.
    4. Store: append the rows to the retry shard, and whose they are, in one write; commit.
    5. Clear: delete these dead letters from the partition's shard, durably.

    A failure before 4 changes nothing. Between 4 and 5 the rows are stored and the dead letters are
    there: 1 clears them, by whoever opens the shard next. A row is never stored twice.

    Raises:
        InvalidRequestError: There is no such stream or partition, or settings are missing.
        ShardLockedError: A process has the shard; nothing of that partition was done.
        ShardlogError: The registry does not answer; what was stored before is stored.
    """
    done = 0
    reports = []
    for number in partitions_with_dead_letters(root, stream, selection):
        base = done

        def show_more(count: int, base: int = base) -> None:
            show(base + count)

        if is_dry_run:
            report = _dry_run(root, stream, number, selection, settings, show_more)
        else:
            report = _retry_partition(root, stream, number, selection, settings, show_more)
        reports.append(report)
        done += report.looked_at
    return reports


def _retry_partition(  # noqa: PLR0913 - what a retry is told
    root: Path,
    name: str,
    number: int,
    selection: Selection,
    settings: RetrySettings,
    show: Callable[[int], None],
) -> RetryReport:
    report = RetryReport(number, retry_shard_of(number))
    with open_partition(root, name, number, with_retry_shard=True) as stream:
        judge = _judge(root, stream, settings)
        try:
            report.finished = finish_retry(stream, number)  # 1
            start = selection.start
            while batch := next(replace(selection, start=start).batches(stream, number), None):  # 2
                start = batch[-1].offset + 1
                judged = judge.judge(Partition(name, number), batch)  # 3
                report.refuse(judged.reasons)
                if judged.records is not None:
                    report.late += _store(stream, number, judged.records)  # 4, 5
                    report.stored += len(judged.records.offsets)
                show(report.looked_at)
        finally:
            judge.close()
    return report


def _store(stream: Stream, number: int, records: ShardRecords) -> int:
    """Store records as rows, then clear their dead letters; return how many are late."""
    shard, offsets = retry_shard_of(number), records.offsets.tolist()
    rows, schemas = stored_rows(records)
    # IMPORTANT: by the ids of both; a normal row must be one in the shard that it is in, too.
    own, beside = (
        np.asarray(stream.judge(rows, shard=judging, schemas=schemas))
        for judging in (number, shard)
    )
    states = np.where(own == State.NORMAL, beside, own)
    first = stream.committed()[shard]
    stream.append_batch(
        rows.append_column("state", pa.array(states, pa.uint8())),
        shard=shard,
        addresses=np.arange(first, first + len(offsets)),
        source=source_of(stream, number, offsets),
        schemas=schemas,
    )
    stream.commit()  # 4
    stream.clear_dead_letters(number, offsets, outcome="retried")  # 5
    return int(np.count_nonzero(states == State.LATE))


def _dry_run(  # noqa: PLR0913 - what a retry is told
    root: Path,
    name: str,
    number: int,
    selection: Selection,
    settings: RetrySettings,
    show: Callable[[int], None],
) -> RetryReport:
    """Judge without storing; beside a worker too."""
    report = RetryReport(number, retry_shard_of(number))
    with StreamReader.open(root, name) as reader:
        reader.refresh()
        judge = _judge(root, reader, settings)
        try:
            for batch in selection.batches(reader, number):
                _note(report, judge, Partition(name, number), batch)
                show(report.looked_at)
        finally:
            judge.close()
    return report


def _note(
    report: RetryReport, judge: Judge, partition: Partition, batch: list[StoredDeadLetter]
) -> None:
    judged = judge.judge(partition, batch)
    report.refuse(judged.reasons)
    if judged.records is not None:
        report.stored += len(judged.records.offsets)


def _judge(root: Path, opened: Stream | StreamReader, settings: RetrySettings) -> Judge:
    origin = opened.origin
    assert origin is not None, "only streams of topics have partitions"
    rules = rules_of(settings.stream, opened.options, origin)
    return Judge(rules, settings.schemas, opened, SystemClock(), EventValues(root))
