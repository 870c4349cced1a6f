"""Filters of `shardlog dlq`, and what they choose."""

import pytest

from connectors.cli.input.dead_letter_filters import selection_of
from connectors.cli.parsing.dead_letter_filters import DeadLetterFilters
from connectors.dlq.record import DeadLetter, encode_dead_letter
from storage_core import InvalidRequestError

UNKNOWN = "unknown schema: schema id 7: there is none"


class Kept:
    """Dead dead letters by offset."""

    def __init__(self, dead_letters: dict[int, bytes]) -> None:
        self._dead_letters = dead_letters

    def dead_letters(self, shard, start=0, end=None):
        assert shard == 0
        return (
            (offset, raw)
            for offset, raw in self._dead_letters.items()
            if start <= offset and (end is None or offset < end)
        )


def raw(offset: int, reason: str, value: bytes | None, headers=None) -> bytes:
    return encode_dead_letter(
        DeadLetter(reason, "topic", 0, offset, 1000 + offset, 0, None, value, headers)
    )


KEPT = Kept(
    {
        1: raw(1, UNKNOWN, b"\x00\x00\x00\x00\x07body"),
        2: raw(2, UNKNOWN, b"\x00\x00\x00\x00\x08body"),
        3: raw(3, "framing: value begins with 0x6e", b"no"),
        4: raw(4, UNKNOWN, b"body", [("__value_schema_id", b"\x00\x00\x00\x00\x07")]),
        5: b"of another writer",
        6: raw(6, "key of 6 bytes; an integer key has 4", None),
    }
)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"partition": [0]}, [1, 2, 3, 4, 5, 6]),
        ({"partition": [1]}, []),
        ({"offsets": "2..4"}, [2, 3, 4]),
        ({"offsets": "3.."}, [3, 4, 5, 6]),
        ({"offsets": "..2"}, [1, 2]),
        ({"offsets": "3"}, [3]),
        ({"since": "1003"}, [3, 4, 6]),
        ({"until": "1970-01-01T00:00:01.002Z"}, [1, 2]),
        ({"reason": ["unknown_schema"]}, [1, 2, 4]),
        ({"reason": ["framing", "key"]}, [3, 6]),
        ({"reason": ["other"]}, [5]),
        ({"schema_id": [7]}, [1, 4]),
        ({"schema_id": [7, 8], "offsets": "2.."}, [2, 4]),
    ],
)
def test_filters_choose(options, chosen) -> None:
    selection = selection_of(DeadLetterFilters(**options))
    assert [kept.offset for kept in selection.dead_letters(KEPT, 0)] == chosen
    batches = list(selection.batches(KEPT, 0))
    assert [kept.offset for batch in batches for kept in batch] == chosen


@pytest.mark.parametrize("offsets", ["..", "a..b", "4..2", "-1", "1...2", ""])
def test_offsets_that_are_no_range_are_refused(offsets) -> None:
    with pytest.raises(InvalidRequestError, match="--offsets"):
        selection_of(DeadLetterFilters(offsets=offsets))
