"""Earliest and a time begin with what is there: what had expired by then is owed to nobody.

A row of the fourth hour comes first, rows of two older hours behind it, then more of the fourth.
"""

from datetime import timedelta
from itertools import pairwise

import pytest

from pyspark_shardlog import snapshot
from storage_core import LostRangeError
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, NAME, numbers_of
from tests.unit.streaming_jobs.source.test_moving_ends import Frame

HOUR_MS = 3_600_000
KEPT = 5
EARLIEST = {"startingOffsets": "earliest"}
BY_TIME = {"startingTimestamp": str(FIRST_MS + 3 * HOUR_MS)}
LEFT = [0, *range(21, 40)]


class FromStart:
    """A query of one batch over all there is, planned when it is made."""

    def __init__(self, lab, **options):
        self.tail = lab.tail(**options)
        start = self.tail.initialOffset()
        end = self.tail.latestOffset(start, self.tail.getDefaultReadLimit())
        self.tasks = self.tail.partitions(start, end)

    def numbers(self):
        return numbers_of(self.tail, self.tasks)


def put(lab, hour, numbers):
    for number in numbers:
        lab.writer.append(FIRST_MS + hour * HOUR_MS + number, number, b"%d" % number)
    lab.writer.commit()


def expire(lab, hour):
    """Let what is older than so many hours go; return how many blocks went."""
    return lab.writer.expire(FIRST_MS + (hour + KEPT) * HOUR_MS).blocks


@pytest.fixture
def aged(lab):
    lab.create(shards=1, retention=timedelta(hours=KEPT))
    put(lab, 3, [0])
    put(lab, 0, range(1, 11))
    put(lab, 1, range(11, 21))
    put(lab, 3, range(21, 30))
    put(lab, 2, range(30, 35))
    put(lab, 3, range(35, 40))
    return lab


@pytest.mark.parametrize("reads", [FromStart, Frame])
@pytest.mark.parametrize("options", [EARLIEST, BY_TIME], ids=["earliest", "time"])
@pytest.mark.parametrize("tolerance", ["true", "false"])
def test_what_had_expired_behind_a_row_is_no_loss(aged, caplog, reads, options, tolerance):
    assert expire(aged, 2) == 2
    seen = reads(aged, **options, failOnDataLoss=tolerance).numbers()
    assert seen == [0, *range(21, 40)]
    assert "lost" not in caplog.text


@pytest.mark.parametrize("reads", [FromStart, Frame])
def test_given_offset_is_owed_what_has_expired_above_it(aged, reads):
    assert expire(aged, 2) == 2
    with pytest.raises(LostRangeError, match=r"\[1, 21\)"):
        reads(aged, startingOffsets={NAME: {"0": 0}}).numbers()


@pytest.mark.parametrize("is_first", [True, False], ids=["first hole", "second hole"])
def test_what_expires_behind_a_row_once_a_query_has_begun_is_a_loss(aged, caplog, is_first):
    if not is_first:
        assert expire(aged, 2) == 2
    query = FromStart(aged, **EARLIEST)
    tolerant = FromStart(aged, **EARLIEST, failOnDataLoss="false")
    assert expire(aged, 2 if is_first else 3) > 0
    lost, count = (r"\[1, 21\)", 20) if is_first else (r"\[30, 35\)", 5)
    with pytest.raises(LostRangeError, match=f"data were lost.*{lost}"):
        query.numbers()
    left = [0, *range(21, 40)] if is_first else [0, *range(21, 30), *range(35, 40)]
    assert tolerant.numbers() == left
    assert f"{count} offsets" in caplog.text


def test_hole_that_grows_once_a_query_has_begun_is_a_loss(aged):
    assert expire(aged, 1) == 1
    query = FromStart(aged, **EARLIEST)
    assert expire(aged, 2) == 1
    with pytest.raises(LostRangeError, match=r"data were lost.*\[1, 21\)"):
        query.numbers()


def test_frame_follows_what_expires_behind_a_row(aged):
    frame = Frame(aged, **EARLIEST)
    assert len(frame.numbers()) == 40
    assert expire(aged, 2) == 2
    assert frame.numbers() == LEFT
    assert expire(aged, 3) == 1
    assert frame.numbers() == [0, *range(21, 30), *range(35, 40)]


def test_snapshot_shows_what_was_there_and_loses_what_expires_since(aged):
    assert expire(aged, 2) == 2
    text = snapshot(aged.root, NAME)
    assert Frame(aged, snapshot=text).numbers() == LEFT
    assert expire(aged, 3) == 1
    with pytest.raises(LostRangeError, match=r"\[30, 35\)"):
        Frame(aged, snapshot=text).numbers()


def test_later_batches_and_their_replays_know_when_the_query_began(aged):
    assert expire(aged, 2) == 2
    tail = aged.tail(**EARLIEST, maxOffsetsPerTrigger="10")
    ends = [tail.initialOffset()]
    while (end := tail.latestOffset(ends[-1], tail.getDefaultReadLimit())) != ends[-1]:
        ends.append(end)
    batches = list(pairwise(ends))
    again = aged.tail(**EARLIEST, maxOffsetsPerTrigger="10")
    for reader in (tail, again):
        seen = [numbers_of(reader, reader.partitions(*batch)) for batch in batches]
        assert seen == [[0], [], list(range(21, 30)), list(range(30, 40))]
    assert expire(aged, 3) == 1
    with pytest.raises(LostRangeError, match=r"\[30, 35\)"):
        numbers_of(tail, tail.partitions(*batches[-1]))
