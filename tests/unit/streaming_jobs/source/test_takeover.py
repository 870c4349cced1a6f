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
        self._lake = f"file://{place}/lake"
        self.first, self.second = SourceLab(place / "a"), SourceLab(place / "b")
        self.first.create_topic({0: 0}, lake=self._lake)
        self.first.put(0, range(ROWS))
        tail = self.first.tail(startingOffsets="earliest")
        self.offset = tail.latestOffset(tail.initialOffset(), ALL)
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
        self.second.create_topic({0: 0}, lake=self._lake)
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
    starting = re.search(r"startingOffsets=(\S.*}})", str(refused.value))
    assert starting is not None
    tail = lab.tail(startingOffsets=starting[1])
    start = tail.initialOffset()
    rows = rows_of(tail, tail.partitions(start, tail.latestOffset(start, ALL)))
    assert sorted(row["offset"] for row in rows) == [*range(ROWS, 2 * ROWS)]
