"""What failed is tried later and later: a stream's store for all shards, damage for its own."""

import pytest

from connectors.ingest.lake.store_pauses import FIRST_S, LONGEST_S, StorePauses
from connectors.kafka import Partition
from storage_core import CorruptionError, UnavailableError
from storage_core.testing import ManualClock

A, B, OTHER = Partition("orders", 0), Partition("orders", 1), Partition("clicks", 0)
AWAY, DAMAGED = UnavailableError("the store is away"), CorruptionError("a part is damaged", shard=0)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def pauses(clock):
    return StorePauses(clock)


def test_store_that_is_away_pauses_all_shards_of_its_stream(pauses):
    pauses.failed(A, AWAY)
    assert [pauses.has(at) for at in (A, B, OTHER)] == [True, True, False]


def test_damage_pauses_its_shard_alone(pauses):
    pauses.failed(A, DAMAGED)
    assert [pauses.has(at) for at in (A, B)] == [True, False]


def test_damage_of_the_table_pauses_all_shards_of_its_stream(pauses):
    pauses.failed(A, CorruptionError("the log of the table is damaged"))
    assert [pauses.has(at) for at in (A, B, OTHER)] == [True, True, False]


def test_each_failure_in_a_row_doubles_the_pause_up_to_a_minute(pauses, clock):
    spans_s = []
    for _ in range(8):
        pauses.failed(A, AWAY)
        begun_s = clock.monotonic_s()
        while pauses.has(A):
            clock.advance(FIRST_S)
        spans_s.append(clock.monotonic_s() - begun_s)
    assert spans_s == [1, 2, 4, 8, 16, 32, LONGEST_S, LONGEST_S]


def test_success_ends_the_pause_and_the_next_one_is_short_again(pauses, clock):
    for _ in range(5):
        pauses.failed(A, AWAY)
    pauses.succeeded(B)
    assert not pauses.has(A)
    pauses.failed(A, AWAY)
    clock.advance(FIRST_S)
    assert not pauses.has(A)
