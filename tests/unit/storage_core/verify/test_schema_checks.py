"""Verify against dictionaries of schemas that were changed: each falsehood is told."""

from typing import Any

import pytest

from storage_core import SchemaEntry
from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.schema_entry import (
    encode_schema,
    encode_schema_number,
    schema_key,
    schema_number_key,
)
from storage_core.format.shard_state import KEY_SCHEMAS, encode_int
from tests.log.schemas import BYTES, LONG, STRING
from tests.log.workbench import Workbench, batch_of


@pytest.fixture
def filled(bench: Workbench) -> Workbench:
    """Three rows of two schemas and of none; the stream is closed."""
    bench.stream.append_batch(batch_of([0, 1, 2], schema=[0, 1, None]), schemas=[LONG, STRING])
    bench.close()
    return bench


def findings(bench: Workbench) -> list[tuple[Any, ...]]:
    """Return kind, first address and key of each problem."""
    bench.open()
    problems = bench.stream.verify().problems
    return [(problem.kind, problem.start, problem.key) for problem in problems]


def put(bench: Workbench, key: bytes, value: bytes) -> None:
    bench.change((FAMILY_DEFAULT, key, value))


def test_whole_dictionary_is_clean(filled):
    assert findings(filled) == []


def test_number_of_a_row_that_was_not_given_is_told(filled):
    put(filled, KEY_SCHEMAS, encode_int(1))
    assert findings(filled) == [("schema", 1, None), ("schema", None, schema_key(1))]


def test_entry_that_is_gone_is_told(filled):
    filled.change(deletes=[schema_key(1)])
    back = schema_number_key(*STRING.identity)
    assert findings(filled) == [("schema", None, back), ("schema", None, KEY_SCHEMAS)]


def test_entry_whose_bytes_were_changed_is_told(filled):
    put(filled, schema_key(0), encode_schema(LONG)[:-1] + b"x")
    assert findings(filled) == [("schema", None, schema_key(0))]


def test_entry_of_another_schema_is_told_with_both_its_places(filled):
    put(filled, schema_key(0), encode_schema(BYTES))
    assert findings(filled) == [
        ("schema", None, schema_number_key(*BYTES.identity)),
        ("schema", None, schema_number_key(*LONG.identity)),
    ]


def test_number_of_an_identity_that_is_gone_or_wrong_is_told(filled):
    key = schema_number_key(*LONG.identity)
    put(filled, key, encode_schema_number(1))
    assert findings(filled) == [("schema", None, key), ("schema", None, key)]
    filled.close()
    filled.change(deletes=[key])
    assert findings(filled) == [("schema", None, key)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"long"', f"fingerprint {LONG.fingerprint.hex()}, expected {BYTES.fingerprint.hex()}"),
        ("{", "the text of schema 9 is not a schema"),
    ],
)
def test_text_that_does_not_match_its_fingerprint_is_told(bench, text, said):
    wrong = SchemaEntry(9, BYTES.fingerprint, text)
    bench.stream.append_batch(batch_of([0], schema=[0]), schemas=[wrong])
    (problem,) = bench.stream.verify().problems
    assert (problem.kind, problem.key) == ("schema", schema_key(0))
    assert said in problem.message


def test_key_that_is_none_of_a_dictionary_is_told(filled):
    put(filled, b"s\x02stray", b"")
    assert findings(filled) == [("schema", None, b"s\x02stray")]
