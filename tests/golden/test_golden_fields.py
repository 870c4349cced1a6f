"""Parts of an earlier program that lack fields of their rows have them once they are made again."""

from contextlib import closing

import pytest

from storage_core import Stream
from storage_core.cold.sql import batches_of
from storage_core.format.keys import FAMILY_LOG, log_key
from storage_core.store.key_value import Batch
from storage_core.store.rocks import open_store
from tests.golden.write_v3_fields import NUMBERS, ROWS

STORE = "v3-fields"
# What a field is called as a column.
COLUMNS = {"shard": "value_shard", "value_shard": "value_value_shard"}
NAMES = pytest.mark.parametrize("name", NUMBERS)


def shown(root, name):
    """Return the fields of a stream's rows, as SQL shows them."""
    columns = ", ".join(COLUMNS.get(field, field) for field in NUMBERS[name])
    _, batches = batches_of(root, f"SELECT {columns} FROM {name} ORDER BY address")
    rows = [list(row.values()) for batch in batches for row in batch.to_pylist()]
    return dict(zip(NUMBERS[name], map(list, zip(*rows, strict=True)), strict=True))


@NAMES
def test_mending_makes_parts_again_that_lack_fields_of_their_rows(root, name):
    assert shown(root, name) != NUMBERS[name]
    with Stream.open(root, name) as stream:
        before = list(stream.parts())
        rows = [batch.to_pylist() for batch in stream.tail(0)]
        mended = stream.seal(mend=True).mended[0]
        assert [one.part for one in mended] == [part.entry for part in before]
        assert all("earlier version" in one.what for one in mended)
        assert shown(root, name) == NUMBERS[name]
        assert [batch.to_pylist() for batch in stream.tail(0)] == rows
        assert stream.verify().is_clean
        assert stream.seal(mend=True).mended == {0: ()}


def test_part_of_trimmed_blocks_that_was_made_again_is_their_only_copy_and_whole(root):
    with Stream.open(root, "meet") as stream:
        stream.seal(mend=True)
    with Stream.open(root, "meet") as stream:
        (part,) = stream.parts()
        assert part.entry.rows == ROWS
        assert stream.verify().is_clean
        assert stream.read().num_rows == ROWS


def test_part_that_the_log_cannot_make_again_stays_as_it_is(root):
    with closing(open_store(root / "bare" / "shard-0000" / "db", "strict")) as store:
        item = store.view().at_or_after(FAMILY_LOG, log_key(0))
        assert item is not None
        batch = Batch()
        batch.put(item[0], item[1][:-1] + bytes([item[1][-1] ^ 1]), family=FAMILY_LOG)
        store.write(batch)
        store.sync()
    with Stream.open(root, "bare") as stream:
        before = list(stream.parts())
        assert stream.seal(mend=True).mended == {0: ()}
        assert list(stream.parts()) == before
        assert not stream.verify().is_clean
