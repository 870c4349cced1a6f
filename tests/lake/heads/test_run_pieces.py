"""Which runs a log writes where some are missing: all is covered then, and never less meanwhile."""

from hypothesis import given
from hypothesis import strategies as st

from storage_core import UnavailableError
from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_names import RunName, run_path, runs_of_owner, uncovered
from storage_core.lake.heads.run_pieces import missing_pieces, pieces_beside

END = 12
OWN, BEFORE = 7, 5
PARTS = ShardParts(END, (), INT64_MIN, 0, ())
ADDRESSES = st.integers(0, END)
RANGES = st.tuples(ADDRESSES, ADDRESSES).filter(lambda pair: pair[0] < pair[1])
RUNS = st.lists(
    st.builds(lambda pair, log: run(pair[0], pair[1], log), RANGES, st.sampled_from([OWN, BEFORE]))
)


def run(begin: int, end: int, log: int = OWN) -> RunName:
    return RunName(begin, end, log, "0" * 32, run_path(3, begin, end, log, bytes(16)), 100)


def lacking(runs: list[RunName]) -> set[int]:
    """Return the addresses of which no run has the heads that counts."""
    holes = uncovered(runs_of_owner(runs, OWN), 0, END)
    return {at for hole in holes for at in range(hole.start, hole.end)}


@given(RUNS)
def test_from_the_end_on_each_run_that_is_written_leaves_fewer_addresses(
    runs: list[RunName],
) -> None:
    runs = runs_of_owner(runs, OWN)
    before = lacking(runs)
    for piece in reversed(missing_pieces(runs, OWN, PARTS, AddressRange(0, END))):
        runs = [*runs, run(piece.start, piece.end)]
        assert lacking(runs) <= before
        before = lacking(runs)
    assert before == set()


def test_run_of_the_log_before_that_is_missing_takes_those_behind_it_along() -> None:
    runs = [run(0, 2, BEFORE), run(5, 8, BEFORE), run(8, END)]
    pieces = missing_pieces(runs, OWN, PARTS, AddressRange(0, END))
    assert pieces == [AddressRange(2, 8)]
    assert missing_pieces(runs[:1], BEFORE, PARTS, AddressRange(0, 2)) == []


def test_what_lies_beside_a_part_that_cannot_be_read_is_left() -> None:
    piece = AddressRange(2, 8)
    for place, beside in [
        ((4, 6), [(2, 4), (6, 8)]),
        ((0, 6), [(6, 8)]),
        ((0, 9), []),
        ((8, 9), []),
    ]:
        error = UnavailableError("archived", start=place[0], end=place[1])
        assert [(left.start, left.end) for left in pieces_beside(piece, error)] == beside
    assert pieces_beside(piece, UnavailableError("away")) == []
