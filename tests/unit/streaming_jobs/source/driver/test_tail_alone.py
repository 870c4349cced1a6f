"""The tail as PySpark 4.0 and 4.1 call it, which hand it neither where it stands nor a limit.

After a restart they ask for the partitions of nothing first, from the last offset that they have.
"""

import json

import pytest

from streaming_jobs.source.driver import tail as module
from tests.unit.streaming_jobs.source.source_lab import NAME, numbers_of


@pytest.fixture
def ten(lab):
    lab.create()
    lab.append(10)
    return lab


def restarted(lab, last, **options):
    """Return the reader of a query that was started again at its last offset."""
    reader = lab.tail(**options)
    assert numbers_of(reader, reader.partitions(last, last)) == []
    return reader


def run(reader, start):
    """Return the rows of each batch until there is nothing new, and the last offset."""
    batches = []
    while (end := json.loads(json.dumps(reader.latestOffset()))) != start:
        batches.append(numbers_of(reader, reader.partitions(start, end)))
        start = end
    return batches, start


def rows_of(batches):
    return sorted(row for rows in batches for row in rows)


def test_query_takes_no_more_at_a_time_than_it_may(ten):
    reader = ten.tail(startingOffsets="earliest", maxOffsetsPerTrigger=4)
    batches, _ = run(reader, reader.initialOffset())
    assert rows_of(batches) == list(range(10))
    assert max(map(len, batches)) == 4


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": 4}])
def test_restarted_query_goes_on_where_it_stands(ten, limit):
    options = {"startingOffsets": "earliest", **limit}
    _, last = run(reader := ten.tail(**options), reader.initialOffset())
    ten.append(10, first=10)
    batches, end = run(restarted(ten, last, **options), last)
    assert rows_of(batches) == list(range(10, 20))
    assert max(map(len, batches)) == limit.get("maxOffsetsPerTrigger", 10)
    assert end["@"]["birth"] == last["@"]["birth"]


def test_batch_that_comes_again_is_what_the_query_stands_behind(ten):
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    reader = ten.tail(**options)
    start = reader.initialOffset()
    end = reader.latestOffset()
    again = restarted(ten, end, **options)
    first = numbers_of(again, again.partitions(start, end))
    assert rows_of([first, *run(again, end)[0]]) == list(range(10))


def test_batch_whose_rows_nobody_reads_is_passed(ten):
    reader = ten.tail(startingOffsets="earliest", maxOffsetsPerTrigger=4)
    reader.initialOffset()
    ends = [reader.latestOffset()[NAME] for _ in range(4)]
    assert [sum(end.values()) for end in ends] == [4, 8, 10, 10]


def test_only_batch_of_a_run_is_asked_for_before_its_beginning(ten):
    """As Trigger.AvailableNow does there when a query begins."""
    reader = ten.tail()
    end = reader.latestOffset()
    start = reader.initialOffset()
    assert end[NAME] == start[NAME]
    assert end["@"]["birth"] == start[NAME]


def test_run_with_an_end_leaves_what_comes_meanwhile(ten):
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4, "availableNow": "true"}
    reader = ten.tail(**options)
    start = reader.initialOffset()
    first = reader.latestOffset()
    ten.append(10, first=10)
    batches, last = run(reader, first)
    assert rows_of([numbers_of(reader, reader.partitions(start, first)), *batches]) == list(
        range(10)
    )
    assert rows_of(run(restarted(ten, last, **options), last)[0]) == list(range(10, 20))


@pytest.mark.parametrize("has_admission", [True, False])
def test_limit_that_ends_a_run_early_is_told_once(ten, monkeypatch, caplog, has_admission):
    monkeypatch.setattr(module, "HAS_ADMISSION", has_admission)
    reader = ten.tail(startingOffsets="earliest", maxOffsetsPerTrigger=4)
    run(reader, reader.initialOffset())
    warnings = [each for each in caplog.messages if "maxOffsetsPerTrigger ends early" in each]
    assert len(warnings) == (0 if has_admission else 1)
