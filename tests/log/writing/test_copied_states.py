"""Goal: rows of a copy keep the states that they had, and what follows from these holds.

Method: rows are appended with their addresses and a column of states; what reads, heads and verify
say afterwards is compared with what the states say.
"""

from typing import Any

import pyarrow as pa
import pytest

from storage_core import (
    RETRY_SHARDS_FROM,
    InvalidRequestError,
    State,
    Stream,
    StreamOptions,
)
from tests.log.topics import TopicCopy

FIRST_MS = 1_700_000_000_000
NORMAL, LATE, AHEAD, EXPIRED = State.NORMAL, State.LATE, State.AHEAD, State.EXPIRED


def copied(stream, primaries, states, first=0, **how):
    count = len(primaries)
    columns: dict[str, Any] = {
        "primary": pa.array([FIRST_MS + one for one in primaries]),
        "secondary": pa.array([1] * count, pa.int32()),
        "payload": pa.array([b"x"] * count),
        "state": pa.array(states, pa.uint8()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    placed = {"shard": 0, "addresses": range(first, first + count), **how}
    return stream.append_batch(batch, **placed)


@pytest.fixture
def stream(tmp_path):
    with Stream.create(tmp_path, "copy", StreamOptions(shards=1)) as stream:
        yield stream


def states_of(stream):
    return [state for batch in stream.tail(0) for state in batch.column("state").to_pylist()]


def test_states_are_those_given_and_the_rows_are_whole(stream):
    states = [NORMAL, AHEAD, LATE, EXPIRED, NORMAL]
    report = copied(stream, [50, 90, 10, 5, 60], states)
    stream.commit()
    assert (report.late, report.ahead, report.expired) == (1, 1, 1)
    assert states_of(stream) == states
    assert stream.latest(1)[1].primary == FIRST_MS + 90
    assert stream.verify().problems == ()


def test_row_that_follows_is_judged_by_the_heads_of_the_states_given(stream):
    copied(stream, [50, 90], [NORMAL, AHEAD])
    stream.append(FIRST_MS + 40, 1, b"late")
    stream.append(FIRST_MS + 60, 1, b"normal")
    stream.commit()
    assert states_of(stream) == [NORMAL, AHEAD, LATE, NORMAL]


def test_rows_that_come_again_are_passed_over_with_their_states(stream):
    copied(stream, [50, 10], [NORMAL, LATE])
    report = copied(stream, [50, 10, 20], [NORMAL, LATE, LATE])
    stream.commit()
    assert (report.duplicates, report.appended) == (2, 1)
    assert states_of(stream) == [NORMAL, LATE, LATE]


def test_retried_letters_that_were_late_where_they_came_from_are_sound(tmp_path):
    copy = TopicCopy(tmp_path, jitter=5)
    copy.add({RETRY_SHARDS_FROM: 0})
    with copy.open(RETRY_SHARDS_FROM) as stream:
        copied(stream, [50, 47, 60, 70], [LATE, LATE, NORMAL, NORMAL], shard=RETRY_SHARDS_FROM)
        stream.commit()
        assert stream.verify().problems == ()


@pytest.mark.parametrize(
    ("states", "how", "message"),
    [
        ([NORMAL, NORMAL], {}, "row 1 has state 0"),
        ([NORMAL, 4], {}, "states are 0 to 3"),
        ([NORMAL, LATE], {"addresses": None}, "give their shard and addresses"),
        ([NORMAL, LATE], {"shard": None}, "give their shard and addresses"),
        ([NORMAL, None], {}, "without nulls"),
    ],
)
def test_states_that_cannot_be_are_refused(stream, states, how, message):
    with pytest.raises(InvalidRequestError, match=message):
        copied(stream, [50, 10], states, **how)
    assert stream.commit() == {0: 0}
