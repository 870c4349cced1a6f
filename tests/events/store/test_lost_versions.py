"""Goal: an older copy of `_types` that is put back hides no field, nor gives a version twice.

Method: `_types` is copied, versions and types are defined and stored behind that, and the copy is
put back while nobody has the store open.
"""

import shutil

import pytest

from storage_core import drop_stream
from tests.events.store.bench import rows_of
from tests.snapshots import copy_of
from typed_events.answer import Status

TYPES = "_types"


@pytest.fixture
def set_back(bench):
    """Let steps be taken of which the types know nothing afterwards."""

    def take(*commands):
        bench.close()
        copy = copy_of(bench.root / TYPES, bench.root.parent / "copy of types")
        bench.reopen()
        for command in commands:
            answer = bench.do(command)
            assert answer.status is Status.OK, answer.message
        bench.close()
        shutil.rmtree(bench.root / TYPES)
        copy_of(copy, bench.root / TYPES)
        bench.reopen()

    return take


def versions_of(bench, name):
    return {row["version"] for row in rows_of(bench.do(f"DESCRIBE {name}"))}


def test_fields_of_rows_are_there_again_once_somebody_stores(bench, set_back):
    set_back(
        'DEFINE pay FIELDS { amount: "int", to: "string | null", by: ["card", "cash"] }',
        'STORE pay FOR ann PAYLOAD { "amount": 1, "to": "bob", "by": "card" }',
    )
    bench.must("order", "ann", amount=1)
    assert versions_of(bench, "pay") == {1, 2}
    (row,) = rows_of(bench.do('QUERY pay WHERE to = "bob" AND by = "card"'))
    assert row["version"] == 2
    payloads = [row["payload"] for row in rows_of(bench.do("REPLAY FOR ann"))]
    assert payloads[0] == '{"amount":1,"to":"bob","by":"card"}'


def test_version_of_rows_is_not_given_to_other_fields(bench, set_back):
    set_back(
        'DEFINE pay FIELDS { amount: "int", to: "string | null" }',
        'DEFINE pay FIELDS { amount: "int", by: "string" }',
        'STORE pay FOR ann PAYLOAD { "amount": 1, "by": "cash" }',
    )
    # Of version 2 no row is there.
    assert bench.define("pay", amount="int", at="int").message == "defined pay version 4"
    assert versions_of(bench, "pay") == {1, 3, 4}
    refused = bench.do('STORE pay AS 2 FOR ann PAYLOAD { "amount": 1 }')
    assert "no version 2: its newest is 4" in refused.message
    bench.must("pay", "ann", amount=1, at=2)
    assert [version for _, version, _ in bench.events("pay")] == [3, 4]


def test_type_that_only_its_rows_know_is_defined_by_them(bench, set_back):
    set_back(
        'DEFINE refund FIELDS { amount: "int" }',
        'STORE refund FOR ann PAYLOAD { "amount": 3 }',
    )
    assert bench.do('DEFINE refund FIELDS { amount: "string" }').status is Status.BAD_REQUEST
    again = bench.define("refund", amount="int")
    assert again.message == "refund version 1 has these fields already"
    bench.must("refund", "ann", "EXPECT 1", amount=4)
    bench.reopen()
    assert [row["amount"] for row in rows_of(bench.do("QUERY refund"))] == [3, 4]


def test_type_of_state_that_only_its_rows_know_stays_of_state(bench, set_back):
    set_back(
        'DEFINE cursor FIELDS { line: "int" } AS STATE TTL 30m',
        'STORE cursor FOR ann ROW "doc" PAYLOAD { "line": 3 }',
    )
    refused = bench.do('DEFINE cursor FIELDS { line: "int" }')
    assert "of state with TTL 30m and cannot become one of events" in refused.message
    bench.must("order", "ann", "EXPECT NONE", amount=1)
    assert [row["line"] for row in rows_of(bench.do("QUERY cursor"))] == [3]


def test_dropped_type_has_no_version_of_rows_that_went_with_it(bench, set_back):
    set_back(
        'DEFINE pay FIELDS { amount: "int", to: "string | null" }',
        'STORE pay FOR ann PAYLOAD { "amount": 1, "to": "bob" }',
    )
    bench.close()
    drop_stream(bench.root, "pay")
    bench.reopen()
    assert bench.define("pay", amount="int", at="int").message == "defined pay version 2"
