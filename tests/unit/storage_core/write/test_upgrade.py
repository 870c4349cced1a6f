"""Shards of format version 1: what they remember and hold is found once they are upgraded.

It reaches inside: nothing writes version 1 any more, so a shard is set back to it key by key.
"""

from collections.abc import Collection
from contextlib import suppress

import pytest

from storage_core import CorruptionError, ShardPoisonedError, StreamReader
from storage_core.format.keys import (
    PREFIX_ATTACHMENT,
    PREFIX_DONE,
    PREFIX_PLACE,
    attachment_key,
    meta_key,
    prefix_end,
)
from storage_core.format.shard_state import (
    KEY_TRANSACTIONS,
    STATE_RANGE,
    TransactionProgress,
    decode_ledger,
    encode_progress,
    transaction_key,
)
from storage_core.ground.durable_file import encode_document, read_document
from storage_core.store.key_value import Batch
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from storage_core.transactions.staged_rows import BATCH_BYTES_TARGET
from tests.log.workbench import Workbench

OF_VERSION_1 = [
    b"m",
    b"mine",
    b"mtxn",
    b"mzz",
    b"a",
    b"t1",
    b"o\x00",
    b"k",
    b"x note",
    b"{",
    b"\xff",
]


def transact(bench: Workbench, *names: str) -> None:
    for name in names:
        with bench.stream.transaction(name, 2) as transaction:
            transaction.append(int(name), 1, b"")
            transaction.append(int(name), 1, b"")


def set_back_to_version_1(bench: Workbench, attached: Collection[bytes]) -> None:
    """Turn a stream that is not open into what version 1 would have left."""
    store, batch = bench.store(), Batch()
    view = store.view()
    for prefix in (PREFIX_DONE, PREFIX_PLACE, PREFIX_ATTACHMENT):
        for key, value in view.items("default", prefix, prefix_end(prefix)):
            batch.delete(key)
            if prefix == PREFIX_DONE:
                batch.put(transaction_key(key[1:].decode()), value)
    item = view.at_or_after("default", KEY_TRANSACTIONS)
    assert item is not None
    begun = decode_ledger(item[1]).begun
    if begun is not None:
        batch.put(transaction_key(begun[0]), encode_progress(begun[1]))
    batch.delete(KEY_TRANSACTIONS)
    for key in attached:
        batch.put(key, b"of " + key)
    view.close()
    store.write(batch)
    store.close()
    for name in ("stream.json", "options.json"):
        document = read_document(bench.directory / name) | {"format_version": 1}
        if name == "options.json":
            del document["options"]["transactions_kept"]  # type: ignore[attr-defined]  # a JSON object
        (bench.directory / name).write_bytes(encode_document(document))


@pytest.fixture
def older(bench):
    """A stream of version 1 with transactions, attachments, and a row from the future."""
    transact(bench, "1", "2")
    bench.append([10**18])
    bench.close()
    set_back_to_version_1(bench, OF_VERSION_1)
    return bench


def attached(bench: Workbench) -> list[bytes]:
    bench.close()
    store = bench.store()
    found = store.get_many([attachment_key(key) for key in OF_VERSION_1])
    left = store.get_many(OF_VERSION_1)
    store.close()
    assert [key for key, value in zip(OF_VERSION_1, left, strict=True) if value] == []
    return [value for value in found if value is not None]


def test_ids_of_version_1_are_known(older):
    older.open()
    transact(older, "1", "2", "3")
    older.reopen()
    transact(older, "1", "2", "3")
    assert older.arrivals() == [1, 1, 2, 2, 10**18, 3, 3]


def test_attachments_of_version_1_move_to_keys_of_their_own(older):
    older.open()
    older.append([3])
    assert attached(older) == [b"of " + key for key in OF_VERSION_1]
    older.open()
    assert older.stream.verify().is_clean


@pytest.mark.parametrize("crash_at", range(2, 8))
def test_upgrade_that_was_cut_short_goes_on(bench, crash_at):
    transact(bench, "1")
    bench.close()
    # Callers' keys may be such as others would have once they are moved.
    keys = {
        b"a" * depth + b"%s%d" % (first, number)
        for depth in range(4)
        for first in (b"Z", b"x")
        for number in range(0, 500 - depth, depth + 1)
    }
    keys |= {b"", b"a", b"aa", b"aaa"}
    set_back_to_version_1(bench, keys)
    disk = FaultyDisk(crash_at=crash_at)
    with pytest.raises(SimulatedCrash):
        bench.open(environment=disk.environment(ManualClock()))
    disk.bury()
    bench.open()
    view = bench.shard.views.committed()
    ranges = ((b"", b"d"), (b"x", b"y"), (b"mattachments", b"mb"))
    found = [item for first, end in ranges for item in view.meta_items(first, end)]
    view.close()
    assert dict(found) == {attachment_key(key): b"of " + key for key in keys}
    transact(bench, "1", "2")
    assert bench.arrivals() == [1, 1, 2, 2]


def test_reader_of_version_1_finds_its_rows_and_changes_nothing(older):
    before = (older.directory / "options.json").read_bytes()
    with StreamReader.open(older.root, older.name) as reader:
        assert reader.latest(1)[1].primary == 10**18
        assert reader.read()["primary"].to_pylist() == [1, 1, 2, 2, 10**18]
    assert (older.directory / "options.json").read_bytes() == before


def test_writer_makes_older_versions_refuse_the_stream(older):
    older.open()
    assert read_document(older.directory / "options.json")["format_version"] == 3
    assert read_document(older.directory / "stream.json")["format_version"] == 1


def test_what_is_read_at_each_refresh_holds_no_id_of_version_1(older):
    older.open()
    view = older.shard.views.committed()
    assert [key for key, _ in view.meta_items(*STATE_RANGE) if b"txn" in key] == []
    view.close()
    assert older.shard.transactions.progress("1") == TransactionProgress(2, 2, 2, 0)


@pytest.fixture
def cut_short(make_bench, disk):
    """A stream of version 1 whose process died with half of a transaction written."""
    bench = make_bench(disk=disk, block_records=2)
    bench.keep([1])
    disk.failing = {"third write"}
    # Of large rows few are read at once, and each time it is a write of its own.
    payload = bytes(BATCH_BYTES_TARGET // 3)
    with suppress(ShardPoisonedError), bench.stream.transaction("t", 6) as transaction:
        for primary in range(10, 16):
            transaction.append(primary, 1, payload)
    disk.failing = set()
    bench.crash()
    set_back_to_version_1(bench, [])
    return bench


def test_transaction_that_version_1_began_is_finished(cut_short):
    cut_short.open()
    assert cut_short.arrivals() == [1, 10, 11, 12, 13, 14, 15]
    assert cut_short.remembered() == ["t"]


def test_transaction_that_version_1_began_can_be_given_up(cut_short):
    cut_short.open(give_up_transactions=["t"])
    assert (cut_short.arrivals(), cut_short.remembered()) == ([1], [])
    cut_short.reopen()
    assert cut_short.stream.transaction("t", 6).is_replay is False


def test_transaction_that_version_1_began_stays_unseen_when_the_marker_is_lost(cut_short):
    cut_short.marker.unlink()
    cut_short.open(give_up_marker=True)
    assert cut_short.arrivals() == [1, 10, 11, 12, 13, 14, 15]


@pytest.mark.parametrize(("key", "value"), [(b"t", b"short"), (b"\xff", bytes(32))])
def test_id_of_version_1_that_cannot_be_read_is_told(older, key, value):
    older.change(("default", meta_key("txn/") + key, value))
    with pytest.raises(CorruptionError, match=r"transaction.*cannot be read.*shard 0"):
        older.open()
