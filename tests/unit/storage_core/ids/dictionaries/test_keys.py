"""The numbers of keys: each is given once, and what is remembered of them is bounded."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError, InvalidRequestError
from storage_core.engine.key_value import Batch
from storage_core.format.keys import INT32_MAX, encode_key_number, number_key
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.ids.dictionaries import keys as keys_module
from storage_core.ids.dictionaries.keys import KeyNumbers, put_new_keys
from tests.log.batches import puts_of
from tests.log.workbench import batch_of
from tests.unit.storage_core.strategies import few

some_keys = st.none() | st.sampled_from([b"", b"\0", b"a", b"a\0", b"b"]) | st.binary(max_size=3)


def rows_of_keys(keys: Iterable[bytes | None]) -> Rows:
    column = list(keys)
    batch = batch_of(range(len(column)), secondary=None, key=column)
    return rows_from_arrow(batch, 1, has_keys=True)


class Dictionary:
    """A dictionary with its store, which is a plain dict."""

    def __init__(self) -> None:
        self.store: dict[bytes, bytes] = {}
        self.lookups = 0
        self.assigned = 0
        self.open()

    def open(self) -> None:
        """Forget what is remembered."""
        self.numbers = KeyNumbers(self._load, "stream", 0)

    def append(self, *keys: bytes | None, is_written: bool = True) -> list[int]:
        """Number keys, and write the entries of new ones."""
        numbered = self.numbers.number(rows_of_keys(keys), self.assigned)
        if is_written:
            batch = Batch()
            self.assigned = put_new_keys(batch, numbered.new, self.assigned)
            self.store |= {key: value for _, key, value in puts_of(batch)}
            self.numbers.accept(numbered.new)
        numbers: list[int] = numbered.rows.secondary.tolist()
        return numbers

    def _load(self, keys: list[bytes]) -> list[bytes | None]:
        self.lookups += len(keys)
        return [self.store.get(key) for key in keys]


def test_number_of_a_batch_that_was_not_written_is_given_again():
    dictionary = Dictionary()
    assert dictionary.append(b"a", is_written=False) == [0]
    assert dictionary.append(b"b") == [0]
    assert dictionary.append(b"a") == [1]


@few
@given(st.lists(st.lists(some_keys, max_size=6), max_size=9), st.sampled_from([1, 2, 2**15]))
def test_each_key_has_one_number_for_ever(batches, remembered):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "RECENT_KEYS_MAX", remembered)
        dictionary, expected = Dictionary(), dict[bytes, int]()
        for number, batch in enumerate(batches):
            if number % 3 == 2:
                dictionary.open()
            for key in batch:
                if key is not None:
                    expected.setdefault(key, len(expected))
            expected_numbers = [-1 if key is None else expected[key] for key in batch]
            assert dictionary.append(*batch) == expected_numbers
        assert dictionary.assigned == len(expected)


def test_key_that_came_lately_is_not_looked_up():
    dictionary = Dictionary()
    dictionary.append(b"a", b"b")
    lookups = dictionary.lookups
    dictionary.append(b"b", b"a")
    assert dictionary.lookups == lookups


def test_what_is_remembered_is_bounded_in_keys_and_in_bytes(monkeypatch):
    monkeypatch.setattr(keys_module, "RECENT_KEYS_MAX", 8)
    monkeypatch.setattr(keys_module, "RECENT_BYTES_MAX", 100)
    dictionary = Dictionary()
    for number in range(100):
        dictionary.append(b"%d" % number, b"x" * number)
        recent = dictionary.numbers._recent
        remembered = recent._young | recent._old
        assert len(remembered) <= 16
        assert sum(map(len, remembered)) <= 200
    dictionary.append(*(b"many-%d" % number for number in range(50)))
    assert len(dictionary.numbers._recent._young) <= 8


def test_entry_of_a_number_that_was_not_given_is_damage():
    dictionary = Dictionary()
    dictionary.store[number_key(b"a")] = encode_key_number(5)
    with pytest.raises(CorruptionError, match="has number 5, but only 0 were assigned") as raised:
        dictionary.append(b"a")
    assert (raised.value.stream, raised.value.shard) == ("stream", 0)


def test_no_number_is_given_beyond_the_last_one():
    dictionary = Dictionary()
    dictionary.assigned = INT32_MAX - 1
    assert dictionary.append(b"last") == [INT32_MAX - 1]
    with pytest.raises(InvalidRequestError, match="can number no more"):
        dictionary.append(b"one more")
