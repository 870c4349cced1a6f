"""The ledger notices each way in which rows may differ from those of who stored all alone."""

from typing import Any

import pyarrow as pa
import pytest

from tests.broker.lake.ledger.union import expect_equal

WANTED: list[dict[str, Any]] = [
    {"shard": shard, "address": address, "state": address % 2}
    for shard in (0, 1)
    for address in range(3)
]


def rows(*more: dict[str, Any], without: int | None = None) -> pa.Table:
    held = [row for place, row in enumerate(WANTED) if place != without]
    return pa.Table.from_pylist([*held, *more])


def test_equal_rows_pass() -> None:
    expect_equal(rows(), rows(), "all")


@pytest.mark.parametrize(
    ("differing", "text"),
    [
        (rows(without=4), r"missing 1, as \[\(1, 1\)\]"),
        (rows(WANTED[1]), r"twice \[\(0, 1\)\]"),
        (rows({"shard": 1, "address": 9, "state": 0}), r"of nobody \[\(1, 9\)\]"),
        (rows({**WANTED[2], "state": 1}, without=2), "1 differ"),
    ],
    ids=["missing", "twice", "of nobody", "judged otherwise"],
)
def test_difference_is_named(differing: pa.Table, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        expect_equal(differing, rows(), "all")
