"""Shard state: what lies under `m` comes back, and what cannot be read is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError
from storage_core.format.counters import Counters
from storage_core.format.keys import INT64_MIN
from storage_core.format.shard_state import (
    KEY_GENERATION,
    KEY_NEXT,
    KEY_SOURCE,
    KEY_TRANSACTIONS,
    AddressRange,
    Ledger,
    Places,
    ShardState,
    Tail,
    TransactionProgress,
    decode_ledger,
    decode_progress,
    decode_state,
    decode_tail,
    encode_int,
    encode_ledger,
    encode_progress,
    encode_range_end,
    encode_source,
    encode_tail,
    gap_key,
    lost_key,
)
from tests.unit.storage_core.strategies import addresses_one, few

counts = st.integers(0, 2**64 - 1)
counters = st.builds(Counters, *[st.integers(0, 2**40) for _ in Counters._fields])
places = st.builds(Places, addresses_one, addresses_one)
ranges = st.builds(lambda start, size: AddressRange(start, start + size), addresses_one, st.just(1))


@few
@given(addresses_one, addresses_one, counters)
def test_tail_comes_back(next_address, blocks_end, counted):
    tail = Tail(next_address, blocks_end, counted)
    assert decode_tail(encode_tail(tail)) == tail


@few
@given(counts, counts, counts, addresses_one)
def test_progress_comes_back(done, total, of_all_shards, begin):
    progress = TransactionProgress(done, total, of_all_shards, begin)
    assert decode_progress(encode_progress(progress)) == progress
    assert progress.is_done == (done == total)


@few
@given(counters, counters)
def test_counters_add_up_field_by_field(a, b):
    assert a.plus(b) == tuple(map(sum, zip(a, b, strict=True)))
    assert a.plus(b).minus(b) == a


@few
@given(st.sets(ranges), st.sets(ranges))
def test_ranges_come_back(lost, gaps):
    entries = [(lost_key(one.start), encode_range_end(one.end, "why")) for one in lost]
    entries += [(gap_key(one.start), encode_range_end(one.end)) for one in gaps]
    state = decode_state(entries, 0)
    assert (state.lost, state.gaps) == (tuple(sorted(lost)), tuple(sorted(gaps)))


@few
@given(st.text(min_size=1), places, places, st.booleans())
def test_ledger_comes_back(name, named, numbered, is_begun):
    begun = (name, TransactionProgress(1, 2, 3, 4)) if is_begun else None
    ledger = Ledger(begun, named, numbered)
    assert decode_ledger(encode_ledger(ledger)) == ledger
    assert decode_state([(KEY_TRANSACTIONS, encode_ledger(ledger))], 0).ledger == ledger


def test_shard_without_a_ledger_is_told():
    with pytest.raises(CorruptionError, match="transactions"):
        decode_state([(KEY_NEXT, encode_tail(Tail(0, 0, Counters())))], 0)


def test_source_comes_back_with_its_nesting():
    source: dict[str, object] = {"next": 5, "epoch": None, "topic": {"id": "ü", "list": [1, 2]}}
    assert decode_state([(KEY_SOURCE, encode_source(source))], 0).source == source


def test_empty_store_has_the_state_of_birth():
    assert decode_state([], 0) == ShardState()
    assert ShardState().floor == INT64_MIN


def test_entries_of_another_kind_are_passed_over():
    assert decode_state([(b"mnews", b"?")], 0) == ShardState()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY_NEXT, b"short"),
        (KEY_GENERATION, b"short"),
        (KEY_SOURCE, b"{"),
        (KEY_SOURCE, b"\xff"),
        (lost_key(5), b""),
        (KEY_TRANSACTIONS, b"short"),
        (KEY_TRANSACTIONS, encode_ledger(Ledger()) + b"short"),
        (KEY_TRANSACTIONS, encode_ledger(Ledger()) + bytes(32) + b"\xff"),
    ],
)
def test_entry_that_cannot_be_read_is_told_with_its_shard(key, value):
    with pytest.raises(CorruptionError, match="shard 6"):
        decode_state([(key, value)], 6)


@few
@given(ranges, ranges)
def test_ranges_overlap_iff_an_address_lies_in_both(a, b):
    shared = set(range(a.start, a.end)) & set(range(b.start, b.end))
    assert a.overlaps(b.start, b.end) == bool(shared)


def test_number_comes_back_from_its_eight_bytes():
    assert decode_state([(KEY_GENERATION, encode_int(2**62))], 0).generation == 2**62
