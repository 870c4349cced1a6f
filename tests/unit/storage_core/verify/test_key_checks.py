"""Verify against dictionaries that were changed under whole checksums: each falsehood is told."""

from typing import Any

import pytest

from storage_core import Environment
from storage_core.errors import CorruptionError
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    encode_key_number,
    number_key,
)
from storage_core.format.record import rows_from_arrow
from storage_core.format.shard_state import KEY_KEYS, encode_int
from storage_core.testing import ManualClock
from storage_core.verify import key_checks
from storage_core.write.entry import Entry
from tests.log.workbench import Workbench, batch_of

KEYS = [b"a", b"b", None, b"", b"b", b"c"]


@pytest.fixture
def keyed(make_bench):
    """Six rows of four keys and of none, in one shard; the stream is closed."""
    bench = make_bench(key_mode="dictionary")
    bench.keep(range(6), secondary=None, key=KEYS)
    bench.close()
    return bench


def findings(bench: Workbench) -> list[tuple[Any, ...]]:
    """Return kind, first address and key of each problem."""
    bench.open()
    problems = bench.stream.verify().problems
    return [(problem.kind, problem.start, problem.key) for problem in problems]


def put(bench: Workbench, key: bytes, number: bytes) -> None:
    bench.change((FAMILY_DEFAULT, number_key(key), number))


@pytest.mark.parametrize("numbers_at_once", [1, 3, 2**26])
def test_whole_dictionary_is_clean_in_any_number_of_passes(keyed, monkeypatch, numbers_at_once):
    monkeypatch.setattr(key_checks, "NUMBERS_AT_ONCE", numbers_at_once)
    assert findings(keyed) == []


def test_row_whose_key_has_another_number_is_told(keyed):
    put(keyed, b"b", encode_key_number(3))
    assert findings(keyed) == [("dictionary", 1, None), ("dictionary", None, number_key(b"c"))]


def test_row_whose_key_has_no_entry_is_told(keyed):
    keyed.change(deletes=[number_key(b"c")])
    assert findings(keyed) == [("dictionary", 5, None), ("dictionary", None, KEY_KEYS)]


def test_number_that_was_not_given_is_told(keyed):
    put(keyed, b"stray", encode_key_number(4))
    key = number_key(b"stray")
    assert findings(keyed) == [("dictionary", None, key), ("dictionary", None, KEY_KEYS)]


@pytest.mark.parametrize("entries_at_once", [1, 2**14])
def test_number_of_two_keys_is_told_though_their_count_is_right(
    keyed, monkeypatch, entries_at_once
):
    monkeypatch.setattr(key_checks, "ENTRIES_AT_ONCE", entries_at_once)
    keyed.change((FAMILY_DEFAULT, KEY_KEYS, encode_int(5)))
    put(keyed, b"again", encode_key_number(0))
    assert findings(keyed) == [("dictionary", None, number_key(b"again"))]


@pytest.mark.parametrize("value", [b"", b"\0\0\0", bytes(8), *map(encode_key_number, (-1, 4))])
@pytest.mark.parametrize("ask", [lambda reads: reads.read, lambda reads: reads.latest])
def test_entry_that_is_no_number_given_is_damage_to_who_reads_by_the_key(keyed, value, ask):
    put(keyed, b"c", value)
    keyed.open()
    with pytest.raises(CorruptionError, match=r"key b'c' has number .* shard 0"):
        ask(keyed.stream)(keys=[b"c"])


def test_entry_that_is_no_number_given_is_damage_to_a_reader_too(keyed):
    put(keyed, b"c", encode_key_number(4))
    reader = keyed.read_beside(Environment(ManualClock()))
    with reader, pytest.raises(CorruptionError, match="number 4, but only 4"):
        reader.read(keys=[b"c"])


@pytest.mark.parametrize("count", [-5, 2**62])
def test_count_that_cannot_be_is_told_in_bounded_time(keyed, count):
    keyed.change((FAMILY_DEFAULT, KEY_KEYS, encode_int(count)))
    assert ("dictionary", None, KEY_KEYS) in findings(keyed)


def test_entry_of_another_length_is_told(keyed):
    put(keyed, b"c", b"\0\0\0")
    problems = findings(keyed)
    assert problems[0] == ("dictionary", 5, None)
    assert problems[1] == ("dictionary", None, number_key(b"c"))


def test_row_in_a_shard_that_no_read_of_its_key_asks_is_told(make_bench):
    bench = make_bench(key_mode="dictionary", shards=2)
    bench.keep(range(4), secondary=None, key=[b"%d" % number for number in range(4)])
    first, second = bench.shards()
    view = second.snapshots.committed()
    key = view.item_at_or_after(b"k")
    view.close()
    assert key is not None
    batch = batch_of([9], secondary=None, key=[key[0][1:]])
    first.append(Entry(rows_from_arrow(batch, 10, has_keys=True)))
    bench.commit()
    (problem,) = bench.stream.verify().problems
    assert (problem.kind, problem.shard) == ("dictionary", 0)
    assert "another shard" in problem.message


def test_entries_in_a_stream_without_a_dictionary_are_told(bench):
    bench.keep([1])
    bench.close()
    put(bench, b"a", encode_key_number(0))
    assert ("dictionary", None, KEY_KEYS) in findings(bench)
