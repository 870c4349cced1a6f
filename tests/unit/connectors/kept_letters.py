"""The vocabulary of a partition with dead letters that are well by now; no broker answers.

kept = KeptLetters(root)      partition 0 of a topic, with five dead letters
kept.retries()                `dlq retry` of all of them
kept.discards()               `dlq discard`
kept.resets()                 `group reset` to the log's start
kept.opens()                  what a worker opens of the partition
kept.rows, kept.waiting       how often each record is a row; which are dead letters still
before(Step, kept.resets)     while a step of another call is about to begin, a reset comes
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest

from connectors.dlq.record import DeadLetter, encode_dead_letter
from connectors.group.partition_shards import open_partition_shards
from connectors.group.reset import Reset, run_reset
from connectors.group.retry_shards import finish_retry, retry_shard_of
from connectors.ingest.dead_letters.discard import discard
from connectors.ingest.dead_letters.retry import RetrySettings, retry
from connectors.ingest.dead_letters.selection import Selection
from connectors.kafka import Partition
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.stream_settings import StreamSettings
from storage_core import ShardlogError, Stream, StreamReader, archived_shards
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.writers import TOPIC, make_stream

OFFSETS = range(5)
AT = Partition(TOPIC, 0)


class KeptLetters:
    """Partition 0 of a topic, whose records are all dead letters that are well by now."""

    def __init__(self, root: Path) -> None:
        self.root = root
        make_stream(root, 1)
        ((_, records),) = shard_records([record(0)])
        with Stream.open(root, TOPIC) as stream:
            stream.append_batch(
                records.rows.slice(0, 0),
                shard=0,
                addresses=[],
                dead_letters={offset: _letter(offset) for offset in OFFSETS},
                source={"next": len(OFFSETS)},
            )
            stream.commit()

    def retries(self) -> None:
        settings = RetrySettings(StreamSettings(), SchemaSettings())
        retry(self.root, TOPIC, Selection(), settings, _nobody, is_dry_run=False)

    def discards(self) -> None:
        discard(self.root, TOPIC, Selection(), _nobody, is_dry_run=False)

    def resets(self) -> None:
        outcome = run_reset(self.root, TOPIC, Reset(AT, len(OFFSETS), 0), None)
        if outcome.error is not None:
            raise outcome.error

    def opens(self) -> None:
        """Open the partition as a worker does, who then forwards what waits."""
        with open_partition_shards(self.root, TOPIC, 0) as stream:
            if retry_shard_of(0) in stream.committed():
                finish_retry(stream, 0)
            offsets = [offset for offset, _ in stream.dead_letters(0)]
            stream.clear_dead_letters(0, offsets, outcome="forwarded")

    @property
    def is_reset(self) -> bool:
        """Whether the topic brings all its records again."""
        return any(log.shard == 0 for log in archived_shards(self.root, TOPIC))

    @property
    def rows(self) -> Counter[Any]:
        """How often each record is a row of the logs that are in force."""
        with StreamReader.open(self.root, TOPIC) as reader:
            reader.refresh()
            return Counter(reader.read().column("primary").to_pylist())

    @property
    def waiting(self) -> list[int]:
        """The offsets of dead letters."""
        with StreamReader.open(self.root, TOPIC) as reader:
            reader.refresh()
            return [offset for offset, _ in reader.dead_letters(0)]

    @property
    def gone(self) -> int:
        """How many were forwarded or discarded."""
        with StreamReader.open(self.root, TOPIC) as reader:
            reader.refresh()
            stats = reader.stats(0)
            return stats.dead_letters_forwarded + stats.dead_letters_discarded

    def expect_each_once(self) -> None:
        """Expect each record once: as a row, a dead letter, gone, or yet to come again."""
        rows = self.rows
        assert set(rows.values()) <= {1}
        if self.is_reset:
            assert (rows, self.waiting) == ({}, []), "the topic brings them again"
        else:
            assert len(rows) + len(self.waiting) + self.gone == len(OFFSETS)


@dataclass(frozen=True)
class Step:
    """The nth call of a function within another; `of` is where it is looked up."""

    of: object
    name: str
    nth: int = 1


@contextmanager
def before(step: Step, other: Callable[[], None]) -> Iterator[list[str]]:
    """Have another call run when a step is about to begin; yields what became of it."""
    outcomes: list[str] = []
    calls = 0
    usual = getattr(step.of, step.name)

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == step.nth:
            outcomes.append(refusal_of(other))
        return usual(*arguments, **named)

    # What is called without an object stays so.
    is_free = isinstance(getattr_static(step.of, step.name), (classmethod, staticmethod))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step.of, step.name, staticmethod(call) if is_free else call)
        yield outcomes


def refusal_of(call: Callable[[], None]) -> str:
    """Return why a call was refused, the name of its error first; empty where it was done."""
    try:
        call()
    except ShardlogError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _letter(offset: int) -> bytes:
    key = (7).to_bytes(4, "big")
    letter = DeadLetter("body: mended", TOPIC, 0, offset, 1000 + offset, 0, key, b"v", None)
    return encode_dead_letter(letter)


def _nobody(_: int) -> None:
    pass
