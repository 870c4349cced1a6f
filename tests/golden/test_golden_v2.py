"""The golden store of format version 2 tells all that it told when it was written.

`write_v2.py` says what is in it. Every test works on a copy.
"""

import pytest

from storage_core import StagingArea, StreamReader
from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.shard_state import KEY_TRANSACTIONS, decode_ledger
from storage_core.store.rocks import open_store
from tests.golden.write_v1 import STREAM
from tests.golden.write_v2 import ATTACHED, BEGUN, NUMBERED, ONCE, told_by

STORE = "v2"


def test_store_holds_each_state_and_a_transaction_half_written(root, expected):
    assert {row["state"] for row in expected["rows"]} == {0, 1, 2}
    assert expected["attached"]["0"] == [key.hex() for key in sorted(ATTACHED)]
    store = open_store(root / STREAM / "shard-0000" / "db", "strict")
    view = store.view()
    item = view.at_or_after(FAMILY_DEFAULT, KEY_TRANSACTIONS)
    assert item is not None
    begun = decode_ledger(item[1]).begun
    view.close()
    store.close()
    assert begun is not None
    assert (begun[0], begun[1].rows_done, begun[1].rows_total) == (BEGUN, 1, 3)


def test_writer_finds_all_as_it_was_written(stream, expected):
    assert told_by(stream) == expected
    assert stream.verify().is_clean


def test_reader_finds_all_but_the_transaction_that_is_not_finished(root, expected):
    with StreamReader.open(root, STREAM) as reader:
        ends = expected["committed"]
        assert reader.committed() == {0: ends["0"] - 3, 1: ends["1"]}
        assert reader.read().num_rows == len(expected["rows"]) - 3


@pytest.mark.parametrize(
    ("name", "is_known"), [("named 0", False), ("named 2", True), (BEGUN, True)]
)
def test_transactions_of_the_store_are_known_as_far_as_they_are_kept(stream, name, is_known):
    assert stream.transaction(name, 3).is_replay == is_known


@pytest.mark.parametrize("transaction", [ONCE, NUMBERED])
def test_staged_transaction_of_the_store_does_not_land_again(stream, root, expected, transaction):
    area = StagingArea.open(root, STREAM)
    writer = area.writer(transaction)
    columns = ("primary", "secondary", "payload")
    for secondary in (4, 5):
        writer.write(stream.read((secondary,), columns=columns, limit=1).to_batches()[0])
    area.publish(transaction, writer.finish())
    stream.finish_transactions()
    assert stream.stats().records == len(expected["rows"])
