"""The numbers of schemas: each is given once, and what is remembered of them is bounded."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import CorruptionError, InvalidRequestError, SchemaEntry
from storage_core.engine.key_value import Batch
from storage_core.format.keys import INT32_MAX
from storage_core.format.record import rows_from_arrow
from storage_core.format.row_columns import SCHEMA
from storage_core.format.schema_entry import schema_number_key
from storage_core.ids.dictionaries import schemas as schemas_module
from storage_core.ids.dictionaries.schemas import SchemaNumbers, put_new_schemas, schema_of
from tests.log.batches import puts_of
from tests.log.workbench import batch_of
from tests.unit.storage_core.strategies import few

ENTRIES = tuple(
    SchemaEntry(number, bytes([mark]), f"{number} {mark}") for number in (1, -1) for mark in (5, 6)
)
A, B, C, D = ENTRIES
some_schemas = st.lists(st.none() | st.sampled_from(ENTRIES), max_size=5)


class Dictionary:
    """A dictionary with its store, which is a plain dict."""

    def __init__(self) -> None:
        self.store: dict[bytes, bytes] = {}
        self.lookups = 0
        self.assigned = 0
        self.open()

    def open(self) -> None:
        """Forget what is remembered."""
        self.numbers = SchemaNumbers(self._load, "stream", 0)

    def append(self, *schemas: SchemaEntry | None, is_written: bool = True) -> list[int | None]:
        """Number schemas, and write the entries of new ones."""
        named = tuple(dict.fromkeys(one for one in schemas if one is not None))
        places = [None if one is None else named.index(one) for one in schemas]
        rows = rows_from_arrow(batch_of(range(len(places)), schema=places), 1, schemas=named)
        if not rows.schemas:
            return [None] * len(places)
        numbered = self.numbers.number(rows, self.assigned)
        if is_written:
            batch = Batch()
            self.assigned = put_new_schemas(batch, numbered.new, self.assigned)
            self.store |= {key: value for _, key, value in puts_of(batch)}
            self.numbers.accept(numbered.new)
        numbers: list[int | None] = numbered.rows.envelope[SCHEMA].to_pylist()
        return numbers

    def entries(self) -> list[SchemaEntry]:
        """Return the schemas by number."""
        return [schema_of(number, self.assigned, self.store.get) for number in range(self.assigned)]

    def _load(self, keys: Iterable[bytes]) -> list[bytes | None]:
        self.lookups += 1
        return [self.store.get(key) for key in keys]


def test_number_of_a_batch_that_was_not_written_is_given_again():
    dictionary = Dictionary()
    assert dictionary.append(A, is_written=False) == [0]
    assert dictionary.append(B) == [0]
    assert dictionary.append(A) == [1]


def test_two_texts_of_one_identity_are_one_schema():
    again = SchemaEntry(A.registry_id, A.fingerprint, "otherwise written")
    dictionary = Dictionary()
    assert dictionary.append(A, again) == [0, 0]
    assert dictionary.append(again) == [0]
    assert dictionary.entries() == [A]


@few
@given(st.lists(some_schemas, max_size=9), st.sampled_from([1, 2, 1024]))
def test_each_schema_has_one_number_for_ever(batches, remembered):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemas_module, "RECENT_SCHEMAS_MAX", remembered)
        dictionary, expected = Dictionary(), list[SchemaEntry]()
        for number, batch in enumerate(batches):
            if number % 3 == 2:
                dictionary.open()
            expected += [one for one in dict.fromkeys(batch) if one and one not in expected]
            numbers = [None if one is None else expected.index(one) for one in batch]
            assert dictionary.append(*batch) == numbers
            assert dictionary.entries() == expected
            assert len(dictionary.numbers._recent) <= remembered


def test_schema_that_came_lately_is_not_looked_up():
    dictionary = Dictionary()
    for _ in range(5):
        dictionary.append(A)
    assert dictionary.lookups == 0
    dictionary.open()
    for _ in range(5):
        dictionary.append(A)
    assert dictionary.lookups == 1


def test_last_number_is_given_and_none_behind_it():
    dictionary = Dictionary()
    dictionary.assigned = INT32_MAX - 1
    assert dictionary.append(A) == [INT32_MAX - 1]
    with pytest.raises(InvalidRequestError, match=f"has numbered {INT32_MAX} schemas"):
        dictionary.append(B)


@pytest.mark.parametrize("value", [b"", b"\0\0\0", b"\1\0\0\0", b"\xff\xff\xff\xff"])
def test_entry_that_is_no_number_given_is_refused(value):
    dictionary = Dictionary()
    dictionary.append(A)
    dictionary.store[schema_number_key(*A.identity)] = value
    dictionary.open()
    with pytest.raises(CorruptionError, match="schema 1 with fingerprint 05 has"):
        dictionary.append(A)


@pytest.mark.parametrize("number", [-1, 1])
def test_number_that_was_not_given_is_refused(number):
    dictionary = Dictionary()
    dictionary.append(A)
    with pytest.raises(CorruptionError, match=f"a row has schema number {number}, but only 1 were"):
        schema_of(number, dictionary.assigned, dictionary.store.get)
