"""One log publishes a shard: another is refused, unless it is told to take over."""

import json
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from connectors.cli.exit_codes import EXIT_FOREIGN
from storage_core import StreamReader
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import open_store
from storage_core.format.shard_state import KEY_LAKE_PREDECESSOR, encode_int
from storage_core.lake.app_id import owner_number, stream_of
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.ownership import LakeOwnerError
from storage_core.lake.status import lake_status
from storage_core.lake.table import LakeTable
from tests.lake.publish.owners_lab import SHARD, Owner, Owners
from tests.lake.support.stores import DirectoryStore
from tests.log.topics import NAME
from tests.unit.connectors.command import runner


def number_of(owner: Owner) -> int:
    with StreamReader.open(owner.copy.root, NAME) as reader:
        return owner_number(reader.lineage(SHARD))


def named_owner(owners: Owners) -> int | None:
    with StreamReader.open(owners.all[0].copy.root, NAME) as reader:
        table = LakeTable.open(owners.target, stream_of(reader))
    assert table is not None
    return table.owner(SHARD)


def named_files(owners: Owners) -> set[str]:
    return set(DeltaTable(owners.target.uri).file_uris())


def seen_owner(owner: Owner, owners: Owners) -> str | None:
    return lake_status(owner.copy.root, NAME, owners.target).shards[SHARD].owner


def follow(heir: Owner, first: Owner) -> None:
    """Let a log remember that it began from what another had published."""
    heir.copy.stream.close()
    batch = Batch()
    batch.put(KEY_LAKE_PREDECESSOR, encode_int(number_of(first)))
    with closing(open_store(heir.copy.database(SHARD), "strict")) as store:
        store.write(batch)
    heir.copy.open(SHARD)


def forget_owner(lake: DirectoryStore) -> None:
    """Make the table one whose commits noted nothing of owners."""
    for path in lake.paths(lake.target()):
        if path.startswith("_delta_log/"):
            actions = map(json.loads, lake.read(lake.target(), path).splitlines())
            lines = [without_note(action) for action in actions if "/owner" not in str(action)]
            lake.write(lake.target(), path, "\n".join(lines).encode())


def without_note(action: dict[str, Any]) -> str:
    action.get("commitInfo", {}).pop("shardlog", None)
    return json.dumps(action)


def test_table_names_the_log_that_published_a_shard(owners):
    first = owners.begin(100)
    first.seal(100, 150)
    first.publish()
    assert named_owner(owners) == number_of(first)
    assert seen_owner(first, owners) == "this log"


def test_another_log_is_refused_and_changes_nothing(owners):
    first, second = owners.begin(100), owners.begin(100)
    first.seal(100, 150)
    first.publish()
    second.seal(100, 200)
    with pytest.raises(LakeOwnerError, match="--take-over") as raised:
        second.publish()
    assert (raised.value.stream, raised.value.shard) == (NAME, SHARD)
    assert seen_owner(second, owners) == "another log"
    assert owners.addresses() == list(range(100, 150))


def test_command_refuses_by_one_line(owners, capsys):
    first, second = owners.begin(100), owners.begin(150)
    first.seal(100, 150)
    first.publish()
    second.seal(150, 200)
    second.copy.stream.alter(lake=owners.target.uri)
    publish = ("lake", "publish", second.copy.root, NAME)
    shardlog = runner(capsys)
    refused = shardlog(*publish)
    assert (refused.code, refused.out, refused.err.count("\n")) == (EXIT_FOREIGN, "", 1)
    accepted = shardlog(*publish, "--take-over")
    assert (accepted.code, accepted.err) == (0, "")
    assert owners.addresses() == list(range(100, 200))


def test_command_does_not_take_over_by_a_log_that_has_less(owners, capsys):
    first, second = owners.begin(100), owners.begin(100)
    first.seal(100, 150)
    first.publish()
    second.seal(100, 120)
    second.copy.stream.alter(lake=owners.target.uri)
    done = runner(capsys)("lake", "publish", second.copy.root, NAME, "--take-over")
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    assert f"shard {SHARD} has parts up to 120 here" in done.out
    assert "published it up to 150" in done.out
    assert named_owner(owners) == number_of(first)


def test_log_that_took_over_is_the_owner_and_the_other_one_is_refused(owners):
    first, second = owners.begin(100), owners.begin(100)
    first.seal(100, 150)
    first.publish()
    second.seal(100, 150)
    assert second.take_over().rows == 0
    assert named_owner(owners) == number_of(second)
    first.seal(150, 200)
    with pytest.raises(LakeOwnerError):
        first.publish()
    assert second.publish().commits == 0


def test_log_that_began_from_the_lake_goes_on_and_fences_its_predecessor(owners):
    first, heir = owners.begin(100), owners.begin(150)
    first.seal(100, 150)
    first.publish()
    follow(heir, first)
    assert seen_owner(heir, owners) == "its predecessor"
    heir.publish()
    assert named_owner(owners) == number_of(heir)
    first.seal(150, 160)
    with pytest.raises(LakeOwnerError):
        first.publish()
    heir.seal(150, 170)
    heir.publish()
    assert owners.addresses() == list(range(100, 170))


def test_log_that_is_behind_its_predecessor_leaves_it_the_owner(owners):
    first, heir = owners.begin(100), owners.begin(120)
    first.seal(100, 150)
    first.publish()
    follow(heir, first)
    assert heir.publish().commits == 0
    assert named_owner(owners) == number_of(first)


def test_shard_without_an_owner_goes_to_who_publishes_first(owners, lake):
    first, second = owners.begin(100), owners.begin(150)
    first.seal(100, 150)
    first.publish()
    forget_owner(lake)
    assert named_owner(owners) is None
    second.seal(150, 200)
    second.publish()
    assert named_owner(owners) == number_of(second)
    with pytest.raises(LakeOwnerError):
        first.publish()


def test_reads_of_parts_that_only_the_lake_has_outlast_a_second_root(owners):
    first = owners.begin(0)
    first.seal(0, 100)
    first.seal(100, 200)
    first.copy.stream.alter(lake=owners.target.uri, keep_local=timedelta(0))
    first.copy.stream.trim()
    publish_stream(first.copy.root, NAME)
    assert not any(part.path.exists() for part in first.copy.stream.parts())
    files = named_files(owners)
    second = owners.begin(0)
    second.seal(0, 150)
    second.seal(150, 250)
    with pytest.raises(LakeOwnerError):
        second.publish()
    assert named_files(owners) == files
    with StreamReader.open(first.copy.root, NAME) as reader:
        assert reader.read(columns=["address"]).num_rows == 200
    first.seal(200, 300)
    assert first.publish().end == 300


def test_predecessor_that_takes_over_again_is_the_owner_from_then_on(owners):
    first, heir = owners.begin(100), owners.begin(100)
    first.seal(100, 150)
    first.publish()
    heir.seal(100, 150)
    follow(heir, first)
    heir.publish()
    assert seen_owner(heir, owners) == "this log"
    first.seal(150, 200)
    first.publish(take_over=True)
    assert seen_owner(heir, owners) == "another log"
    heir.seal(150, 250)
    with pytest.raises(LakeOwnerError, match="--take-over"):
        heir.publish()
    assert owners.addresses() == list(range(100, 200))


def test_log_of_the_table_is_not_read_for_who_owned_a_shard_that_nobody_took(
    owners, lake, monkeypatch
):
    def refused(*_: object) -> bool:
        message = "who owned the shard was read from the table's log"
        raise AssertionError(message)

    monkeypatch.setattr(LakeTable, "has_owned", refused)
    first = owners.begin(100)
    for end in (150, 200):
        first.seal(end - 50, end)
        first.publish()
    forget_owner(lake)
    first.seal(200, 250)
    first.publish()
    assert owners.addresses() == list(range(100, 250))
