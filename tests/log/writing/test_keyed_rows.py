"""Rows that belong to keys: how they are written, and what is refused."""

import json
import shutil
from collections.abc import Sequence

import pytest

from storage_core import (
    KEY_BYTES_MAX,
    AppendReport,
    InvalidRequestError,
    StagingArea,
    Stream,
    StreamOptions,
    StreamOrigin,
    TransactionId,
)
from tests.log.hooked_disk import HookedDisk
from tests.log.workbench import Workbench, batch_of, column_of
from tests.snapshots import snapshot

Key = bytes | None
_WHEN = ("before", "after")


@pytest.fixture
def keyed(make_bench):
    return make_bench(key_mode="dictionary", shards=4)


def put(bench: Workbench, keys: Sequence[Key], first: int = 0, **columns: object) -> AppendReport:
    """Append rows of keys, whose primaries count from `first`."""
    primaries = range(first, first + len(keys))
    return bench.append(primaries, secondary=None, key=list(keys), **columns)


def keys_of(bench: Workbench) -> list[Key]:
    return column_of(bench.stream.read(), "key")


# --- what is taken ----------------------------------------------------------------------------


def test_rows_of_any_keys_are_stored_and_their_numbers_are_not_shown(keyed):
    keys = [b"b", None, b"", b"\0\xff", b"a" * KEY_BYTES_MAX, b"b"]
    assert put(keyed, keys).appended == 6
    keyed.commit()
    rows = keyed.stream.read()
    assert rows["key"].to_pylist() == sorted(keys, key=lambda key: (key is not None, key or b""))
    assert rows["secondary"].null_count == 6
    assert keyed.stream.verify().is_clean


def test_secondaries_that_are_null_may_stand_beside_keys(keyed):
    batch = batch_of([1, 2], secondary=None, key=[b"a", b"b"])
    keyed.stream.append_batch(batch)
    keyed.stream.append_batch(batch.drop_columns(["secondary"]))
    keyed.commit()
    assert keys_of(keyed) == [b"a", b"a", b"b", b"b"]


def test_key_lies_in_the_shard_of_its_hash_and_no_other(keyed):
    put(keyed, [b"%d" % number for number in range(100)] * 2)
    keyed.commit()
    rows = keyed.stream.read(columns=["key", "shard"]).to_pylist()
    assert len({(row["key"], row["shard"]) for row in rows}) == 100
    assert {row["shard"] for row in rows} == {0, 1, 2, 3}


def test_staged_rows_bring_their_keys(keyed):
    area = StagingArea.open(keyed.root, keyed.name)
    writer = area.writer(TransactionId("spark", 1))
    writer.write(batch_of([2, 1], secondary=None, key=[b"a", b"b"]))
    area.publish(TransactionId("spark", 1), writer.finish())
    keyed.stream.finish_transactions()
    assert keys_of(keyed) == [b"a", b"b"]
    assert keyed.primaries(keys=[b"a"]) == [2]


# --- what is refused --------------------------------------------------------------------------


def test_every_row_has_its_key_wherever_the_process_dies(make_bench, root):
    hooked, copies = HookedDisk(), 0
    moments = [f"{when} {call}" for call in ("write", "sync", "publish") for when in _WHEN]
    bench = make_bench(key_mode="dictionary", disk=hooked)
    put(bench, [b"before"])
    bench.commit()

    def copy_store() -> None:
        nonlocal copies
        dead = root / f"dead-{copies}"
        snapshot(bench.directory, dead / bench.name)
        shutil.copy(bench.root / "root.json", dead)
        copies += 1

    for number, moment in enumerate(moments):
        hooked.on(moment, copy_store)
        put(bench, [b"new-%d" % number, b"before", b"other-%d" % number], first=number)
        bench.commit()
    assert copies == len(moments)
    for number in range(copies):
        with Stream.open(root / f"dead-{number}", bench.name) as stream:
            stream.append_batch(batch_of([99], secondary=None, key=[b"fresh"]))
            assert stream.verify().is_clean


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"secondary": None}, "column 'key' is missing"),
        ({"secondary": [3], "key": [b"a"]}, "column 'secondary' holds ids"),
        ({"secondary": None, "key": [b"a" * 65_536]}, "key of row 0 has 65536 bytes; 65535"),
    ],
)
def test_batch_that_does_not_fit_is_refused_in_a_line(keyed, columns, said):
    with pytest.raises(InvalidRequestError, match=said):
        keyed.append([1], **columns)
    assert keyed.stream.stats().records == 0


def test_single_records_are_refused_in_a_line(keyed):
    for secondary in (1, b"a", None):
        with pytest.raises(InvalidRequestError, match="append batches with a column of keys"):
            keyed.stream.append(1, secondary, b"")
    with (
        pytest.raises(InvalidRequestError, match="append batches with a column of keys"),
        keyed.stream.transaction("one", 1) as transaction,
    ):
        transaction.append(1, 1, b"")


def test_key_is_refused_in_a_shard_where_no_read_would_look_for_it(keyed):
    put(keyed, [b"a"])
    keyed.commit()
    (home,) = set(column_of(keyed.stream.read(), "shard"))
    with pytest.raises(InvalidRequestError, match=f"key of row 1 belongs to shard {home}, not"):
        put(keyed, [None, b"a"], shard=(home + 1) % 4 and 0)
    assert put(keyed, [b"a"], shard=home).appended == 1


def test_mode_is_fixed(keyed):
    with pytest.raises(InvalidRequestError, match="cannot alter key_mode"):
        keyed.stream.alter(key_mode="none")


def test_unknown_mode_is_refused():
    with pytest.raises(InvalidRequestError, match="key_mode: 'text' is not one of none, dict"):
        StreamOptions(key_mode="text")  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize(("mode", "of_origin"), [("dictionary", "none"), ("none", "dictionary")])
def test_options_and_origin_agree_on_a_dictionary(root, mode, of_origin):
    origin = StreamOrigin("kafka", "clicks", "id", of_origin, "timestamp")
    with pytest.raises(InvalidRequestError, match="a dictionary is in both"):
        Stream.create(root, "clicks", StreamOptions(key_mode=mode), origin=origin)


def test_program_that_knows_no_dictionaries_would_refuse_the_stream_by_name(keyed):
    document = json.loads((keyed.directory / "stream.json").read_text())
    assert document["required_to_read"] == document["required_to_write"] == ["key_dictionary"]


def test_stream_without_one_asks_nothing_of_programs(bench):
    document = json.loads((bench.directory / "stream.json").read_text())
    assert document["required_to_read"] == document["required_to_write"] == []
