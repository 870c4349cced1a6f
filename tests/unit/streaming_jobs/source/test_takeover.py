"""The source over a shard that began from the lake: a checkpoint is told how to go on."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage_core import ForeignDataError
from storage_core.lake import begin_from_lake, publish_stream
from streaming_jobs.common.spark_features import ReadAllAvailable
from streaming_jobs.source.executor.open_readers import OPEN_READERS
from tests.unit.streaming_jobs.source.source_lab import NAME, SourceLab, rows_of

ALL = ReadAllAvailable()
ROWS = 10


class Handover:
    """Roots of one topic, and what a query has read of its partition in the first."""

    def __init__(self, place: Path) -> None:
        self.lake = f"file://{place}/lake"
        self.first, self.second = SourceLab(place / "a"), SourceLab(place / "b")
        self.first.create_topic({0: 0}, lake=self.lake)
        self.first.put(0, range(ROWS))
        tail = self.first.tail(startingOffsets="earliest")
        self.start = tail.initialOffset()
        self.offset = tail.latestOffset(self.start, ALL)
        self.publish(self.first)

    def publish(self, lab: SourceLab) -> None:
        """Let a root publish what it has, and let go of it."""
        lab.writer.seal()
        publish_stream(lab.root, NAME)
        lab.close()

    def begin_in(self, lab: SourceLab) -> None:
        begin_from_lake(lab.root, NAME, [0])
        lab.open()

    def to_another_root(self) -> SourceLab:
        self.second.create_topic({0: 0}, lake=self.lake)
        self.second.close()
        self.begin_in(self.second)
        return self.second

    def and_back(self) -> SourceLab:
        second = self.to_another_root()
        self.publish(second)
        self.begin_in(self.first)
        return self.first


@pytest.fixture
def handover(tmp_path: Path) -> Iterator[Handover]:
    handover = Handover(tmp_path)
    yield handover
    OPEN_READERS.close()
    for lab in (handover.first, handover.second):
        lab.close()


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Handover.to_another_root, "the stream was re-created .*, or is that of another root"),
        (Handover.and_back, "the shard was re-created .*, by a reset or from the lake"),
    ],
)
def test_checkpoint_of_the_log_before_is_told_how_to_go_on(
    handover: Handover, move: Callable[[Handover], SourceLab], message: str
) -> None:
    lab = move(handover)
    lab.put(0, range(ROWS, 2 * ROWS))
    with pytest.raises(ForeignDataError, match=message) as refused:
        lab.tail().latestOffset(handover.offset, ALL)
    assert offsets_that_go_on(lab, refused) == [*range(ROWS, 2 * ROWS)]


def offsets_that_go_on(
    lab: SourceLab, refused: pytest.ExceptionInfo[ForeignDataError]
) -> list[int]:
    """Return the offsets that a query reads which begins as a refusal says."""
    starting = re.search(r"startingOffsets=(\S.*}})", str(refused.value))
    assert starting is not None
    tail = lab.tail(startingOffsets=starting[1])
    start = tail.initialOffset()
    rows = rows_of(tail, tail.partitions(start, tail.latestOffset(start, ALL)))
    return sorted(row["offset"] for row in rows)


def test_batch_that_was_not_committed_is_read_again(handover: Handover) -> None:
    handover.first.open()
    handover.first.put(0, range(ROWS, 2 * ROWS))
    tail = handover.first.tail()
    planned = tail.latestOffset(handover.offset, ALL)
    handover.publish(handover.first)
    lab = handover.and_back()
    with pytest.raises(ForeignDataError, match="by a reset or from the lake") as refused:
        lab.tail().partitions(handover.offset, planned)
    assert offsets_that_go_on(lab, refused) == [*range(ROWS, 2 * ROWS)]


def test_first_batch_that_was_not_committed_is_read_again(handover: Handover) -> None:
    lab = handover.and_back()
    with pytest.raises(ForeignDataError, match="by a reset or from the lake") as refused:
        lab.tail().partitions(handover.start, handover.offset)
    assert offsets_that_go_on(lab, refused) == [*range(ROWS)]


def test_shards_of_the_other_root_are_named_as_they_are_there(handover: Handover) -> None:
    handover.second.create_topic({3: 0}, lake=handover.lake)
    handover.second.put(3, range(ROWS))
    handover.second.close()
    handover.begin_in(handover.second)
    with pytest.raises(ForeignDataError, match="that of another root") as refused:
        handover.second.tail().latestOffset(handover.offset, ALL)
    assert offsets_that_go_on(handover.second, refused) == [*range(ROWS)]


def test_shard_that_the_other_root_lacks_is_told(handover: Handover) -> None:
    handover.second.create_topic({3: 0}, lake=handover.lake)
    handover.second.put(3, range(ROWS))
    with pytest.raises(ForeignDataError, match=r"; shards \[0\], .* are not here") as refused:
        handover.second.tail().latestOffset(handover.offset, ALL)
    assert offsets_that_go_on(handover.second, refused) == [*range(ROWS)]
