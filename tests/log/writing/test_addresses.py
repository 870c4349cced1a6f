"""Addresses of a batch's own: strictly increasing, and what is there already is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import AppendReport, CorruptionError, InvalidRequestError, LostRangeError
from tests.unit.storage_core.strategies import many


@pytest.mark.parametrize(
    "addresses",
    [
        [1, 1],
        [2, 1],
        [-1, 0],
        [0, 2**62],
        [0, 2**63],
        [0, 2**70],
        [0.0, 1.0],
        [True, False],
        ["0", "1"],
        [None, 1],
        [0],
        [0, 1, 2],
        [[0, 1]],
        [[0], [1, 2]],
        5,
        "01",
        1.5,
    ],
)
def test_addresses_that_do_not_fit_are_refused(bench, addresses):
    with pytest.raises(InvalidRequestError, match="addresses"):
        bench.append([1, 2], addresses=addresses)
    bench.commit()
    assert bench.stream.committed() == {0: 0}


def test_stored_addresses_of_a_block_without_gaps_are_known_without_reading_it(bench):
    bench.append([1, 2, 3])
    bench.close()
    bench.call_heads_written(3)
    bench.damage_block(0)
    bench.open()
    assert bench.append([2], addresses=[1]) == AppendReport(duplicates=1)


def test_block_with_gaps_that_cannot_be_read_says_so_and_is_lost(bench):
    bench.append([1, 2], addresses=[5, 9])
    bench.close()
    bench.call_heads_written(10)
    bench.damage_block(5)
    bench.open()
    with pytest.raises(CorruptionError, match=r"addresses \[5, 10\)"):
        bench.append([1], addresses=[5])
    assert bench.stream.lost_ranges() == {0: [(5, 10)]}
    with pytest.raises(LostRangeError):
        bench.append([1], addresses=[5])


def test_lost_range_between_stored_addresses_is_no_hindrance(bench):
    for address in (5, 9, 12):
        bench.append([1], addresses=[address])
    bench.close()
    bench.damage_block(9)
    bench.open()
    assert bench.append([1, 1], addresses=[5, 12]) == AppendReport(duplicates=2)


some = st.sets(st.integers(0, 20), min_size=1)


@many
@given(blocks=st.lists(some, min_size=1, max_size=3), again=some)
def test_address_is_a_duplicate_iff_a_row_has_it_however_blocks_were_cut(
    lasting_bench, blocks, again
):
    begin = base = lasting_bench.shard.tail.next
    stored: set[int] = set()
    for block in blocks:
        addresses = sorted(base + address for address in block)
        lasting_bench.append([1] * len(addresses), addresses=addresses)
        stored.update(addresses)
        base = addresses[-1] + 1
    addresses = sorted(begin + address for address in again)
    if {address for address in addresses if address < base} <= stored:
        report = lasting_bench.append([1] * len(addresses), addresses=addresses)
        assert report.duplicates == len(stored & set(addresses))
    else:
        with pytest.raises(InvalidRequestError, match="nothing was stored there"):
            lasting_bench.append([1] * len(addresses), addresses=addresses)


def test_address_in_a_lost_range_is_refused(bench):
    bench.append([1], addresses=[5])
    bench.append([2], addresses=[9])
    bench.close()
    bench.damage_block(9)
    bench.open()
    with pytest.raises(LostRangeError, match=r"addresses \[9, 10\)"):
        bench.append([2], addresses=[9])


def test_address_in_a_gap_that_was_accepted_counts_as_there(bench):
    bench.append([1])
    bench.close()
    bench.damage_block(0)
    bench.open().accept_loss(0, 0, 1)
    assert bench.append([1], addresses=[0]) == AppendReport(duplicates=1)


def test_addresses_need_a_shard_where_there_are_several(make_bench):
    bench = make_bench(shards=2)
    with pytest.raises(InvalidRequestError, match="belong to one shard"):
        bench.append([1], addresses=[5])
    assert bench.append([1], addresses=[5], shard=1).appended == 1
    assert bench.commit() == {0: 0, 1: 6}


def test_source_alone_moves_the_tail_past_addresses_without_rows(bench):
    bench.append([], source={"next": 50})
    assert bench.commit() == {0: 50}
    with pytest.raises(InvalidRequestError, match="address 20 lies below the tail 50"):
        bench.append([1], addresses=[20])
    bench.append([1], addresses=[60])
    assert bench.commit() == {0: 61}
    assert bench.arrivals() == [1]


LAST = 2**62 - 1


def test_nothing_is_taken_behind_the_last_address(bench):
    bench.append([1], addresses=[LAST])
    bench.commit()
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match=f"no address left.*{LAST} is the last"):
            bench.stream.append(2, 1, b"b")
        with pytest.raises(InvalidRequestError, match="no address left"):
            bench.append([2])
        bench.reopen()
    assert bench.commit() == {0: LAST + 1}
    assert bench.tail("address") == [LAST]


def test_last_addresses_are_taken_and_no_more(bench):
    bench.append([1], addresses=[LAST - 3])
    with pytest.raises(InvalidRequestError, match="no address left"):
        bench.append([2, 3, 4, 5])
    bench.append([2])
    bench.stream.append(3, 1, b"")
    bench.stream.append(4, 1, b"")
    with pytest.raises(InvalidRequestError, match="no address left"):
        bench.stream.append(5, 1, b"")
    bench.commit()
    assert bench.tail("address") == [LAST - 3, LAST - 2, LAST - 1, LAST]
    assert bench.primaries() == [1, 2, 3, 4]
    assert bench.stream.verify().is_clean
