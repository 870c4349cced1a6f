"""Owners of one partition that publish into one table, each from a root of its own."""

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE
from storage_core import InvalidRequestError, LostRangeError, StreamReader
from storage_core.lake.publish import publish_shard
from tests.lake.publish.owners_lab import SHARD
from tests.lake.publish.publish_lab import Changes
from tests.lake.support.stores import DirectoryStore
from tests.log.topics import NAME
from tests.unit.connectors.command import runner


@pytest.fixture
def changes(lake: DirectoryStore) -> Changes:
    return Changes(lake, lake.target())


def test_owner_that_begins_at_the_published_address_goes_on(owners, changes):
    first = owners.begin(100)
    first.seal(100, 200)
    assert first.publish().end == 200
    heir = owners.begin(200)
    heir.seal(200, 260)
    done = heir.take_over()
    assert (done.begin, done.end, done.files_removed) == (200, 260, 0)
    assert owners.addresses() == list(range(100, 260))
    changes.check()


def test_owner_that_has_less_than_was_published_changes_nothing(owners):
    first = owners.begin(100)
    first.seal(100, 150)
    heir = owners.begin(100)
    heir.seal(100, 200)
    heir.publish()
    assert first.take_over().commits == 0
    assert owners.addresses() == list(range(100, 200))


def test_owner_that_was_frozen_and_has_more_goes_on_from_what_the_heir_published(owners, changes):
    frozen = owners.begin(100)
    frozen.seal(100, 150)
    frozen.publish()
    frozen.seal(150, 300)
    heir = owners.begin(150)
    heir.seal(150, 210)
    heir.take_over()
    frozen.take_over()
    heir.seal(210, 320)
    heir.take_over()
    assert owners.addresses() == list(range(100, 320))
    changes.check()


def test_owner_that_begins_amid_a_published_file_leaves_it(owners, changes):
    first = owners.begin(100)
    first.seal(100, 200)
    first.publish()
    heir = owners.begin(150)
    heir.seal(150, 260)
    heir.take_over()
    assert owners.addresses() == list(range(100, 260))
    changes.check()


def test_owners_that_publish_in_turns_double_nothing(owners, changes):
    first, second = owners.begin(100), owners.begin(100)
    for start in range(100, 400, 50):
        first.seal(start, start + 50)
        second.seal(start, start + 50)
        first.take_over()
        first.copy.stream.compact()
        second.take_over()
    first.take_over()
    assert owners.addresses() == list(range(100, 400))
    changes.check()


@pytest.mark.parametrize("born", [100, 150, 200])
def test_log_that_was_reset_goes_on_from_what_was_published(owners, changes, born):
    owner = owners.begin(100)
    owner.seal(100, 150)
    owner.seal(150, 200)
    owner.publish()
    owner.reset(born)
    assert owner.take_over().rows == 0
    owner.seal(born, 260)
    owner.publish(take_over=True)
    assert owners.addresses() == list(range(100, 260))
    changes.check()


def test_archived_log_is_not_published(owners):
    owner = owners.begin(100)
    owner.seal(100, 150)
    with StreamReader.open(owner.copy.root, NAME) as reader:
        lineage = reader.lineage(SHARD)
    owner.reset(150)
    with (
        StreamReader.open(owner.copy.root, NAME, archived=lineage) as archived,
        pytest.raises(InvalidRequestError, match="an archived log is not published"),
    ):
        publish_shard(archived, SHARD, owners.target)


def test_owner_that_begins_above_what_was_published_is_refused(owners):
    first = owners.begin(100)
    first.seal(100, 150)
    first.publish()
    first.seal(150, 200)
    heir = owners.begin(180)
    heir.seal(180, 260)
    with pytest.raises(LostRangeError) as raised:
        heir.take_over()
    assert (raised.value.shard, raised.value.start, raised.value.end) == (SHARD, 150, 180)
    first.publish()
    heir.take_over()
    assert owners.addresses() == list(range(100, 260))


def test_hole_that_is_accepted_is_passed_over(owners):
    first = owners.begin(100)
    first.seal(100, 150)
    first.publish()
    heir = owners.begin(180)
    heir.seal(180, 260)
    assert heir.publish(accept_hole=True, take_over=True).begin == 150
    assert owners.addresses() == [*range(100, 150), *range(180, 260)]
    assert heir.take_over().commits == 0


def test_hole_is_passed_over_once_the_command_accepts_it(owners, capsys):
    shardlog = runner(capsys)
    first = owners.begin(100)
    first.seal(100, 150)
    first.publish()
    heir = owners.begin(180)
    heir.seal(180, 260)
    heir.copy.stream.alter(lake=owners.target.uri)
    publish = ("lake", "publish", heir.copy.root, NAME, "--take-over")
    refused = shardlog(*publish)
    assert (refused.code, refused.out) == (EXIT_DAMAGE, "")
    assert "`shardlog lake publish --accept-hole`" in refused.err
    accepted = shardlog(*publish, "--accept-hole")
    assert (accepted.code, accepted.err) == (0, "")
    assert owners.addresses() == [*range(100, 150), *range(180, 260)]
