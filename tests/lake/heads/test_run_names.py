"""Which runs are read: those that follow each other, or cover as much as there is."""

from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_names import (
    RunName,
    chain_of,
    run_path,
    runs_among,
    uncovered,
)

ADDRESSES = st.integers(0, 12)
RANGES = st.tuples(ADDRESSES, ADDRESSES).filter(lambda pair: pair[0] < pair[1])


def run(begin: int, end: int) -> RunName:
    path = run_path(3, begin, end, 7, bytes(16))
    return RunName(begin, end, 7, "0" * 32, path, 100)


def ranges(runs: list[RunName]) -> list[tuple[int, int]]:
    return [(each.begin, each.end) for each in runs]


def chosen(*pairs: tuple[int, int], begin: int = 0, end: int = 10) -> list[tuple[int, int]]:
    return ranges(chain_of([run(*pair) for pair in pairs], begin, end))


def test_name_tells_what_it_was_made_of() -> None:
    addresses = "00000000000000000005-00000000000000000009"
    path = f"_shardlog/shard=3/heads-{addresses}-00000000000000ff-" + "0f" * 16
    assert run_path(3, 5, 9, 255, b"\x0f" * 16) == f"{path}.parquet"
    (named,) = runs_among({f"{path}.parquet": 7})
    assert (named.begin, named.end, named.log) == (5, 9, 255)
    assert (named.digest, named.size) == ("0f" * 16, 7)


def test_other_files_are_no_runs() -> None:
    path = run_path(3, 5, 9, 1, bytes(16))
    assert runs_among({f"{path}#1": 1, path.replace("heads", "tails"): 1, "heads.parquet": 1}) == []
    assert runs_among({run_path(3, 9, 9, 1, bytes(16)): 1}) == []


def test_runs_that_follow_each_other_are_taken() -> None:
    assert chosen((0, 4), (4, 7), (7, 10)) == [(0, 4), (4, 7), (7, 10)]


def test_merged_run_is_taken_in_place_of_those_it_was_merged_of() -> None:
    assert chosen((0, 4), (4, 7), (0, 7), (7, 10)) == [(0, 7), (7, 10)]


def test_run_of_a_commit_that_failed_is_not_taken() -> None:
    assert chosen((0, 4), (4, 12)) == [(0, 4)]
    assert chosen((0, 4), (4, 8), (4, 6), (6, 10)) == [(0, 4), (4, 6), (6, 10)]


def test_run_that_begins_earlier_is_taken_too() -> None:
    assert chosen((0, 4), (4, 10), begin=2) == [(0, 4), (4, 10)]


def test_runs_with_addresses_in_common_are_taken_where_no_others_reach() -> None:
    assert chosen((0, 6), (4, 10)) == [(0, 6), (4, 10)]


def test_ranges_that_no_run_covers_are_missing() -> None:
    some = [run(1, 3), run(2, 4), run(6, 9)]
    gaps = (AddressRange(0, 1), AddressRange(4, 6), AddressRange(9, 12))
    assert uncovered(some, 0, 12) == gaps
    assert uncovered([], 0, 5) == (AddressRange(0, 5),)
    assert uncovered([], 5, 5) == ()


@given(pairs=st.lists(RANGES, max_size=12), begin=ADDRESSES, end=ADDRESSES)
def test_chain_covers_all_that_any_run_covers(pairs, begin, end) -> None:
    runs = [run(*pair) for pair in pairs if pair[1] <= end]
    chain = chain_of([run(*pair) for pair in pairs], begin, end)
    assert set(chain) <= set(runs)
    assert uncovered(chain, begin, end) == uncovered(runs, begin, end)
    assert len(chain) <= len(set(runs))
