"""Who is asked for which addresses: every one that is to be had, of one root each, and no other."""

from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import INT64_MIN
from storage_core.protocol import ShardExtent
from storage_core.remote.coverage import AWAY, Coverage, Piece, begun, covered, owner_of

MOST = 12


def piece_of(root: int, born: int, start: int, committed: int, *, is_held: bool = False) -> Piece:
    holder = "process 1" if is_held else None
    return Piece(root, ShardExtent(born, start, committed, INT64_MIN, holder))


@st.composite
def all_pieces(draw: st.DrawFn) -> list[Piece]:
    pieces = []
    for root in range(draw(st.integers(1, 4))):
        born, start, committed = sorted(draw(st.integers(0, MOST)) for _ in range(3))
        is_away = draw(st.booleans())
        place = AWAY if is_away else root
        pieces.append(piece_of(place, born, start, committed, is_held=draw(st.booleans())))
    return pieces


def addresses_of(ranges: object) -> list[int]:
    return [address for part in ranges for address in range(part.start, part.end)]  # type: ignore[attr-defined]


@given(all_pieces())
def test_each_address_that_a_root_has_is_asked_of_one_that_has_it(pieces: list[Piece]) -> None:
    end = max(piece.extent.committed for piece in pieces)
    coverage = covered(pieces, end)
    here = [piece for piece in pieces if piece.root != AWAY]
    had = {a for one in here for a in range(one.extent.start, one.extent.committed)}
    assert addresses_of(coverage.segments) == sorted(had)
    for segment in coverage.segments:
        extent = next(one.extent for one in here if one.root == segment.root)
        assert extent.start <= segment.start < segment.end <= extent.committed


@given(all_pieces())
def test_what_only_a_silent_root_has_is_lacking_and_nothing_is_left_out(
    pieces: list[Piece],
) -> None:
    end = max(piece.extent.committed for piece in pieces)
    coverage = covered(pieces, end)
    here = [piece for piece in pieces if piece.root != AWAY]
    had = {a for one in here for a in range(one.extent.start, one.extent.committed)}
    away = {
        address
        for piece in pieces
        if piece.root == AWAY
        for address in range(piece.extent.start, piece.extent.committed)
    }
    lacking = addresses_of(coverage.lacking)
    assert away - had <= set(lacking)
    parts = sorted([*addresses_of(coverage.segments), *lacking, *addresses_of(coverage.expired)])
    assert parts == list(range(parts[0] if parts else end, end))


def shape(coverage: Coverage) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    return (
        [(one.root, one.start, one.end) for one in coverage.segments],
        [(one.start, one.end) for one in coverage.lacking],
    )


def test_owner_is_asked_for_all_that_it_has() -> None:
    pieces = [piece_of(0, 0, 0, 90), piece_of(1, 80, 80, 120, is_held=True)]
    assert shape(covered(pieces, 120)) == ([(0, 0, 80), (1, 80, 120)], [])
    # Before the new owner has caught up, the old one has the newest.
    pieces = [piece_of(0, 0, 0, 90), piece_of(1, 80, 80, 80, is_held=True)]
    assert shape(covered(pieces, 90)) == ([(0, 0, 90)], [])


def test_shard_that_nobody_fed_says_nothing() -> None:
    pieces = [piece_of(0, 0, 0, 30, is_held=True), piece_of(1, 50, 50, 50)]
    assert begun(pieces) == pieces[:1]
    assert shape(covered(pieces, 30)) == ([(0, 0, 30)], [])


def test_longest_of_those_that_hold_it_is_the_owner() -> None:
    frozen, owner = piece_of(0, 0, 0, 90, is_held=True), piece_of(1, 80, 80, 120, is_held=True)
    assert owner_of([frozen, owner]) is owner
    assert owner_of([piece_of(0, 0, 0, 90)]) is None
