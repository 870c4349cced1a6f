"""A place that is not the stream's own, or not as it must be, is refused by one line."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
    UnsupportedFormatError,
)
from storage_core.lake.app_id import LakeStream
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from tests.lake.support.stores import DirectoryStore, Store
from tests.lake.support.table_lab import COLUMNS, SHARD, STREAM, TableLab


def both_refuse(
    target: LakeTarget, kind: type[ShardlogError], text: str, stream: LakeStream = STREAM
) -> None:
    """Expect that neither who opens a place nor who would make a table there takes it."""
    calls: tuple[Callable[[], object], ...] = (
        lambda: LakeTable.open(target, stream),
        lambda: LakeTable.create(target, stream, COLUMNS),
    )
    for call in calls:
        with pytest.raises(kind, match=text) as error:
            call()
        assert "\n" not in str(error.value)


def made_elsewhere(
    target: LakeTarget, configuration: Mapping[str, str] | None = None, **how: Any
) -> None:
    """Let somebody make a table there who is not shardlog, or says that they are."""
    if target.directory is not None:
        target.directory.mkdir(parents=True)
    columns = how.pop("columns", COLUMNS.insert(0, pa.field("shard", pa.int32())))
    DeltaTable.create(
        target.uri,
        Schema.from_arrow(columns),
        partition_by=how.pop("partition_by", ["shard"]),
        configuration=configuration,
        storage_options=dict(target.options),
        **how,
    )


def test_table_that_shardlog_did_not_make_is_refused(store: Store) -> None:
    made_elsewhere(store.target(), description="all orders")
    both_refuse(store.target(), ForeignDataError, "was not made by shardlog")


def test_table_that_another_owner_is_about_to_make_is_nobody_elses(tmp_path: Path) -> None:
    target = DirectoryStore(tmp_path).target()
    assert target.directory is not None
    log = target.directory / "_delta_log"
    log.mkdir(parents=True)
    (log / "_commit_of_another.json.tmp").touch()
    assert LakeTable.create(target, STREAM, COLUMNS).version == 0


def test_log_without_its_first_commits_is_refused(tmp_path: Path) -> None:
    target = DirectoryStore(tmp_path).target()
    assert target.directory is not None
    log = target.directory / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{7:020}.json").write_text("{}\n")
    with pytest.raises(ShardlogError):
        LakeTable.create(target, STREAM, COLUMNS)


def test_table_of_another_stream_is_refused(store: Store) -> None:
    lab = TableLab(store)
    other = LakeStream("clicks", STREAM.identity)
    both_refuse(lab.target, ForeignDataError, "is of the stream 'orders'", other)


def test_table_of_a_topic_that_was_made_anew_is_refused(store: Store) -> None:
    lab = TableLab(store)
    other = LakeStream(STREAM.name, "another-id")
    both_refuse(lab.target, ForeignDataError, r"topic-id, here another-id.*made anew", other)


def test_table_that_is_partitioned_otherwise_is_refused(store: Store) -> None:
    made_elsewhere(store.target(), description=STREAM.description, partition_by=["address"])
    both_refuse(store.target(), ForeignDataError, "is partitioned by")


def test_files_without_a_table_are_refused_by_who_would_make_one(store: Store) -> None:
    store.write(store.target(), "shard=3/part.parquet", b"PAR1")
    assert LakeTable.open(store.target(), STREAM) is None
    with pytest.raises(ForeignDataError, match=r"no table at .*, but files \(shard=3\)"):
        LakeTable.create(store.target(), STREAM, COLUMNS)


def test_place_beside_others_is_free(store: Store) -> None:
    store.write(store.target("orders-2"), "part.parquet", b"PAR1")
    assert TableLab(store, store.target("orders")).table.version == 0


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "delta.setTransactionRetentionDuration",
            "interval 7 days",
            r"property delta.setTransactionRetentionDuration: .*; unset it",
        ),
        ("delta.appendOnly", "true", "property delta.appendOnly: .*; unset it"),
        (
            "delta.enableChangeDataFeed",
            "true",
            "property delta.enableChangeDataFeed: .*; unset it",
        ),
    ],
)
def test_property_that_breaks_a_promise_is_refused(store: Store, name, value, text) -> None:
    made_elsewhere(store.target(), {name: value}, description=STREAM.description)
    both_refuse(store.target(), InvalidRequestError, text)


def test_property_that_comes_meanwhile_is_refused_too(store: Store) -> None:
    lab = TableLab(store)
    lab.delta().alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 7 days"}
    )
    with pytest.raises(InvalidRequestError, match="unset it"):
        lab.table.commit(SHARD, [], [], 7)


def test_table_that_needs_more_of_delta_is_refused(store: Store) -> None:
    columns = pa.schema([pa.field("shard", pa.int32()), pa.field("at", pa.timestamp("us"))])
    made_elsewhere(store.target(), columns=columns, description=STREAM.description)
    both_refuse(store.target(), UnsupportedFormatError, r"\(timestampNtz\); publish to another")


def test_damaged_log_is_told(store: Store) -> None:
    store.write(store.target(), "_delta_log/00000000000000000000.json", b"garbage")
    both_refuse(store.target(), CorruptionError, "log of the table is damaged")


def test_table_that_is_gone_is_told(store: Store) -> None:
    lab = TableLab(store)
    for path in store.paths(lab.target):
        store.delete(lab.target, path)
    with pytest.raises(UnavailableError, match="is gone"):
        lab.table.reload()


def test_table_that_was_replaced_takes_no_commit(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    for path in store.paths(lab.target):
        store.delete(lab.target, path)
    new = TableLab(store)
    new.keep(1)
    new.keep(2)
    with pytest.raises(ShardlogError):
        lab.table.commit(SHARD, lab.add(3), [], 4)
    assert new.addresses() == [1, 2]


def test_place_that_is_a_file_is_refused(tmp_path) -> None:
    store = DirectoryStore(tmp_path)
    (tmp_path / "table").write_bytes(b"")
    with pytest.raises(ShardlogError) as error:
        LakeTable.create(store.target(), STREAM, COLUMNS)
    assert "\n" not in str(error.value)


def test_type_that_delta_does_not_have_is_refused(store: Store) -> None:
    columns = COLUMNS.append(pa.field("at", pa.time64("us")))
    with pytest.raises(InvalidRequestError, match=r"no such type.*Time64"):
        LakeTable.create(store.target(), STREAM, columns)


def test_description_of_ours_that_lacks_the_identity_is_none_of_ours(store: Store) -> None:
    made_elsewhere(store.target(), description="shardlog stream orders")
    both_refuse(store.target(), ForeignDataError, "was not made by shardlog")
