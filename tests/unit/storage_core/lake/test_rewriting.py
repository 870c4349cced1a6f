"""A part is written anew by pieces: each visible row once, in its order, in bounded memory."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import FileProof, ShardParts
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange
from storage_core.lake.casts import Casts
from storage_core.lake.rewriting import Rewritten, Visible, rewrite
from storage_core.parts.part_file import GROUP_BYTES, PartWriter, write_part
from storage_core.parts.part_proof import digest_of, read_part
from storage_core.parts.row_groups import PartFile
from tests.unit.storage_core.strategies import few

ORDER = ("secondary", "primary", "address")
SHARD = 3
ROWS = 20_000
GROUPS = 30
AS_THEY_ARE = Casts([], [])


def rows_of(count: int, payload: bytes = b"x") -> pa.Table:
    """Return rows in the order of a part, whose addresses lie all over it."""
    addresses = np.random.default_rng(3).permutation(count)
    return pa.table(
        {
            "shard": np.full(count, SHARD, np.int32),
            "secondary": np.sort(np.arange(count, dtype=np.int32) % 7),
            "primary": np.arange(count),
            "address": addresses,
            "state": np.where(addresses % 11, State.NORMAL, State.EXPIRED).astype(np.uint8),
            "payload": [payload] * count,
        }
    )


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FileProof]:
    """Return a part of several row groups."""
    path = tmp_path_factory.mktemp("part") / "part"
    return path, write_part(path, rows_of(ROWS), ORDER)


def rewritten(
    part: tuple[Path, FileProof], parts: ShardParts, pieces: list[AddressRange], directory: Path
) -> list[Rewritten]:
    with PartFile(*part) as file:
        named = [(piece, directory / f"piece-{n}") for n, piece in enumerate(pieces)]
        for _, path in named:
            path.unlink(missing_ok=True)
        return rewrite(file, Visible(SHARD, parts), AS_THEY_ARE, named)


def parts_of(
    floor: int = INT64_MIN, cut: int = 0, gaps: tuple[AddressRange, ...] = ()
) -> ShardParts:
    """Return what hides some of the rows."""
    return ShardParts(ROWS, (), floor, cut, gaps)


hiding = st.builds(
    parts_of,
    st.sampled_from([INT64_MIN, 1, ROWS // 2, ROWS]),
    st.sampled_from([0, 100]),
    st.sampled_from([(), (AddressRange(50, 9000),)]),
)


def is_visible(row: dict[str, Any], parts: ShardParts) -> bool:
    return (
        row["state"] != State.EXPIRED
        and row["primary"] >= parts.floor
        and row["address"] >= parts.cut
        and not any(gap.start <= row["address"] < gap.end for gap in parts.gaps)
    )


@few
@given(edges=st.lists(st.integers(0, ROWS + 5), max_size=3, unique=True).map(sorted), parts=hiding)
def test_each_visible_row_is_in_its_piece(part, tmp_path_factory, edges, parts):
    pieces = [AddressRange(*pair) for pair in pairwise([0, *edges, ROWS + 10])]
    files = rewritten(part, parts, pieces, tmp_path_factory.mktemp("pieces"))
    rows = [row for row in rows_of(ROWS).to_pylist() if is_visible(row, parts)]
    by_piece = [
        [row for row in rows if piece.start <= row["address"] < piece.end] for piece in pieces
    ]
    expected = [of_piece for of_piece in by_piece if of_piece]
    assert [made.rows for made in files] == [len(of_piece) for of_piece in expected]
    for made, of_piece in zip(files, expected, strict=True):
        table = pa.Table.from_batches(list(read_part(made.path)))
        assert table.to_pylist() == of_piece
        assert (made.first, made.last) == (
            min(row["address"] for row in of_piece),
            max(row["address"] for row in of_piece),
        )
        assert digest_of(made.path) == made.proof.digest


def test_pieces_without_rows_leave_no_file(part, tmp_path):
    nothing = [AddressRange(0, 0), AddressRange(ROWS, ROWS + 9)]
    assert rewritten(part, parts_of(), nothing, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_rewriting_again_makes_the_same_file(part, tmp_path):
    pieces = [AddressRange(0, ROWS)]
    (first,) = rewritten(part, parts_of(), pieces, tmp_path)
    (second,) = rewritten(part, parts_of(), pieces, tmp_path)
    assert first == second


class WatchedPart(PartFile):
    """A part that notes how much memory Arrow has whenever a row group is read."""

    def __init__(self, path: Path, proof: FileProof) -> None:
        super().__init__(path, proof)
        self.allocated: list[int] = []

    @override
    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        self.allocated.append(pa.total_allocated_bytes())
        return super().read(group, columns)


def test_memory_is_that_of_some_row_groups(tmp_path):
    # Each row group takes as many bytes as one may.
    payload = b"." * 32_768
    rows = rows_of(GROUP_BYTES // len(payload) - 9, payload)
    with PartWriter(tmp_path / "part", rows, ORDER) as writer:
        for _ in range(GROUPS):
            writer.write(rows)
        proof = writer.finish()
    del rows
    before = pa.total_allocated_bytes()
    with WatchedPart(tmp_path / "part", proof) as file:
        pieces = [
            (AddressRange(0, 200), tmp_path / "below"),
            (AddressRange(200, 9999), tmp_path / "above"),
        ]
        rewrite(file, Visible(SHARD, parts_of()), AS_THEY_ARE, pieces)
    assert len(file.allocated) >= GROUPS
    assert max(file.allocated) - before < GROUPS // 3 * GROUP_BYTES
