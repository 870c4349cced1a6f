"""The writer of a shard: what is taken, written, durable and visible, and in which state."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import AppendReport, CorruptionError, InvalidRequestError
from tests.log.disks import STALL_MAX_S, BesideThread
from tests.log.on_disk import KEYS_OF_THE_LOG, attachment_key
from tests.log.workbench import batch_of

COLUMNS = ["primary", "secondary", "payload"]


@pytest.fixture
def reined(make_bench, disk):
    """A workbench whose disk the test holds by the reins."""
    return make_bench(disk=disk)


# --- taken, written, durable, visible ---------------------------------------------------------


def test_nothing_is_shown_before_its_commit(bench):
    bench.append([1, 2])
    bench.stream.append(3, 1, b"")
    assert (bench.primaries(), bench.stream.committed()) == ([], {0: 0})
    assert bench.commit() == {0: 3}
    assert bench.primaries() == [1, 2, 3]


def test_commit_beside_one_that_is_publishing_waits_for_it(make_bench, hooked):
    bench = make_bench(environment=hooked.environment)
    seen = []
    hooked.on("before publish", lambda: seen.append(bench.shard.needs_commit))
    bench.keep([1])
    assert (seen, bench.shard.needs_commit) == ([True], False)


def test_read_of_a_damaged_block_tells_it_though_another_thread_is_syncing(reined, disk):
    reined.append([1])
    reined.close()
    reined.call_heads_written(through=1)
    reined.damage_block(0)
    reined.open()
    reined.append([2])
    disk.stall()
    with BesideThread(reined.commit):
        assert disk.stalled.wait(STALL_MAX_S)
        with pytest.raises(CorruptionError, match=r"cannot be read.*addresses \[0, 1\)"):
            reined.arrivals(end=1)
        disk.go_on()


@pytest.mark.parametrize(
    ("rows", "newest"),
    [([(1000, 7), (5, 9)], {7: 1000, 9: 5}), ([(1000, 7), (2000, 9), (5, 7)], {7: 1000, 9: 2000})],
)
def test_buffer_that_a_caller_uses_again_changes_nothing_that_was_appended(bench, rows, newest):
    primary, secondary = np.zeros(1, np.int64), np.zeros(1, np.int32)
    for primary[0], secondary[0] in rows:
        columns: list[Any] = [pa.array(primary), pa.array(secondary), pa.array([b""])]
        bench.stream.append_batch(pa.RecordBatch.from_arrays(columns, names=COLUMNS))
    secondary[0] = 16 - secondary[0]
    bench.commit()
    primaries = {key: record.primary for key, record in bench.stream.latest().items()}
    assert primaries == newest
    assert bench.stream.verify().is_clean


@pytest.mark.parametrize(
    ("names", "reported"),
    [
        (
            ["primary", "secondery", "payload"],
            "columns secondery; did you mean secondary",
        ),
        (["primary", "secondary", "payload", "payload"], "repeated columns: payload"),
    ],
)
def test_columns_of_a_batch_that_are_wrong_are_named(bench, names, reported):
    arrays = [pa.array([b"x"]) if name == "payload" else pa.array([1]) for name in names]
    with pytest.raises(InvalidRequestError, match=reported):
        bench.stream.append_batch(pa.RecordBatch.from_arrays(arrays, names))


def test_full_builder_writes_by_itself_unseen(make_bench):
    bench = make_bench(block_records=3)
    for primary in range(7):
        bench.stream.append(primary, 1, b"")
    assert (bench.shard.tail.next, bench.primaries()) == (6, [])


def test_builder_full_of_bytes_writes_by_itself(make_bench):
    bench = make_bench(block_bytes=10)
    for _ in range(4):
        bench.stream.append(1, 1, b"12345")
    assert bench.shard.tail.next == 4


def test_large_batch_is_cut_into_even_blocks(make_bench):
    bench = make_bench(block_records=300)
    bench.keep(range(3030))
    rows = [batch.num_rows for batch in bench.stream.tail(0)]
    assert rows == [336, 337, 337, 336, 337, 337, 336, 337, 337]


@pytest.mark.parametrize(
    "record",
    [
        (2**63, 1, b""),
        (1, 2**31, b""),
        (1, 1, "text"),
        (1, 1, b"123456"),
        (1, 1, b"", -1),
        (None, 1, b""),
    ],
)
def test_refused_record_changes_nothing(make_bench, record):
    bench = make_bench(payload_bytes_max=5)
    bench.stream.append(1, 1, b"12345")
    with pytest.raises(InvalidRequestError):
        bench.stream.append(*record)
    assert bench.commit() == {0: 1}


def test_refused_batch_changes_nothing(make_bench):
    bench = make_bench(payload_bytes_max=5)
    with pytest.raises(InvalidRequestError, match="payload of row 1 has 6 bytes"):
        bench.append([1, 2], payload=[b"", b"123456"])
    with pytest.raises(InvalidRequestError, match="colour"):
        bench.stream.append_batch(batch_of([1]).append_column("colour", batch_of([1])["payload"]))
    assert (bench.commit(), bench.stream.stats().records) == ({0: 0}, 0)


# --- what is written with rows ----------------------------------------------------------------


def test_attachments_are_kept_with_their_rows(bench):
    bench.append([1], attachments=[("default", b"xnote", b"1"), ("default", b"xnote2", b"2")])
    bench.close()
    assert [bench.stored(attachment_key(key)) for key in (b"xnote", b"xnote2")] == [b"1", b"2"]


@pytest.mark.parametrize(
    "attachments",
    [
        5,
        [5],
        [("log", b"k", b"v")],
        [("default", "k", b"v")],
        [("default", b"k")],
    ],
)
def test_attachment_that_does_not_fit_is_refused_with_its_rows(bench, attachments):
    with pytest.raises(InvalidRequestError, match="attachment"):
        bench.append([1], attachments=attachments)
    assert bench.commit() == {0: 0}


@pytest.mark.parametrize("key", [b"", *KEYS_OF_THE_LOG])
def test_attachment_under_any_key_changes_no_answer(bench, key):
    bench.append([10, 2**62], attachments=[("default", key, b"?")])
    bench.keep([5])
    for _ in range(2):
        assert (bench.primaries(), bench.arrivals()) == ([5, 10, 2**62], [10, 2**62, 5])
        assert bench.stream.latest(1)[1].primary == 2**62
        assert list(bench.stream.dead_letters(0)) == []
        assert not bench.stream.transaction("mine", 1).is_replay
        assert bench.stream.verify().is_clean
        bench.reopen()


@pytest.mark.parametrize(
    "source", [5, [1], "next", {"next": -1}, {"next": "1"}, {"next": 2**63}, {"raw": b"bytes"}]
)
def test_source_that_does_not_fit_is_refused_with_its_rows(bench, source):
    with pytest.raises(InvalidRequestError, match="source"):
        bench.append([1], source=source)
    assert (bench.commit(), bench.stream.source(0)) == ({0: 0}, None)


@pytest.mark.parametrize(
    "append",
    [
        lambda bench: bench.append([], source={"epoch": 5}),
        lambda bench: bench.append([], attachments=[("default", b"xnote", b"1")]),
        lambda bench: bench.append([1], addresses=[0], source={"epoch": 5}),
    ],
    ids=["source", "attachment", "source of duplicates"],
)
def test_commit_syncs_what_moves_no_tail(reined, disk, append):
    reined.keep([1], addresses=[0])
    append(reined)
    disk.reset()
    reined.commit()
    assert disk.syncs == 1


# --- states -----------------------------------------------------------------------------------


def test_batch_of_expired_rows_only_writes_no_block(bench):
    bench.expire_below(100)
    assert bench.append([1, 2]) == AppendReport(expired=2)
    assert bench.commit() == {0: 0}
    assert bench.stream.stats().expired == 2


@pytest.mark.parametrize("is_noted", [True, False])
def test_rows_of_many_ids_are_judged_after_reopens_as_by_every_head(make_bench, is_noted):
    bench = make_bench(block_records=10)
    ids = list(range(400))
    bench.keep([1000 + one for one in ids], secondary=ids)
    bench.keep([1], secondary=9999)
    bench.close()
    assert bench.has_head_on_disk(399)
    if not is_noted:
        bench.forget_largest_of_heads()
    bench.open()
    primaries = [999 + one if one % 3 else 1000 + one for one in ids]
    assert bench.append(primaries, secondary=ids).late == sum(1 for one in ids if one % 3)
    assert bench.append([1400] * 400, secondary=ids) == AppendReport(appended=400)
    assert bench.append([1399] * 400, secondary=ids).late == 400


@pytest.mark.parametrize("column", ["key", "headers"])
def test_large_keys_and_headers_make_small_blocks(bench, column):
    large = bytes(2**14)
    value = large if column == "key" else [{"key": "k", "value": large}]
    bench.stream.append_batch(batch_of([1] * 256, **{column: [value] * 256}))
    bench.stream.commit()
    blocks = list(bench.stream.tail(0, columns=[column]))
    assert sum(block.num_rows for block in blocks) == 256
    assert max(block.nbytes for block in blocks) <= 2**20
