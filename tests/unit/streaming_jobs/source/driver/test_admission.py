"""How much a batch takes: Kafka's shares, and batches that wait for enough."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from storage_core.testing import ManualClock
from streaming_jobs.source.driver.admission import BatchDelay, share_out

BACKLOGS = st.dictionaries(
    st.integers(0, 50), st.tuples(st.integers(0, 2**40), st.integers(0, 10**6)), min_size=1
)


def share(limit, sizes):
    begins = dict.fromkeys(range(len(sizes)), 100)
    ends = {shard: 100 + size for shard, size in enumerate(sizes)}
    return [end - 100 for end in share_out(limit, begins, ends).values()]


def test_share_is_in_proportion_to_the_backlog():
    assert share(100, [300, 100]) == [75, 25]


def test_share_is_rounded_down_but_up_where_below_one():
    assert share(10, [997, 3]) == [9, 1]
    assert share(10, [2, 1]) == [2, 1]


def test_shard_without_backlog_stays():
    assert share(10, [0, 5]) == [0, 5]
    assert share(10, [0, 0]) == [0, 0]


@given(st.integers(1, 10**7), BACKLOGS)
def test_every_backlog_moves_and_none_passes_its_end(limit, backlogs):
    begins = {shard: begin for shard, (begin, _) in backlogs.items()}
    ends = {shard: begin + size for shard, (begin, size) in backlogs.items()}
    reached = share_out(limit, begins, ends)
    assert all(begins[n] <= reached[n] <= ends[n] for n in ends)
    assert all(reached[n] > begins[n] for n in ends if ends[n] > begins[n])
    assert sum(reached.values()) - sum(begins.values()) <= limit + len(ends)


def test_batch_waits_until_there_is_enough():
    delay = BatchDelay(10, timedelta(minutes=1), ManualClock())
    assert not delay.holds_back(1)
    assert delay.holds_back(9)
    assert not delay.holds_back(10)


def test_batch_waits_no_longer_than_the_delay():
    clock = ManualClock()
    delay = BatchDelay(10, timedelta(minutes=1), clock)
    delay.holds_back(1)
    clock.advance(59)
    assert delay.holds_back(9)
    clock.advance(1)
    assert not delay.holds_back(9)
