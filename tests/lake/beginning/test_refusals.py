"""What keeps a log from beginning from its table is told in one line, and changes nothing."""

import shutil

import pytest
from deltalake import DeltaTable

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    Stream,
    StreamOptions,
    UnavailableError,
)
from storage_core.lake import begin_from_lake, begin_prospects, lake_positions, lake_target
from tests.lake.beginning.beginning_lab import NAME, SHARD


def begin(root, **named):
    return begin_from_lake(root.root, NAME, [SHARD], **named)


def test_shard_that_was_never_published_does_not_begin(lab):
    heir = lab.new_root()
    assert begin(heir) == {}
    assert lake_positions(heir.root, NAME, [SHARD]) == {}
    lab.published(50)
    assert begin_from_lake(heir.root, NAME, [7]) == {}


def test_stream_without_an_origin_is_refused(lab):
    Stream.create(lab.owner.root, "plain", StreamOptions(lake=lab.target.uri)).close()
    with pytest.raises(InvalidRequestError, match="only a stream that copies a topic begins"):
        begin_from_lake(lab.owner.root, "plain", [0])


def test_stream_without_a_lake_is_refused(lab):
    with pytest.raises(InvalidRequestError, match="set its option `lake`"):
        begin(lab.new_root(lake=None))


def test_other_place_than_the_stream_s_own_is_refused(lab):
    with pytest.raises(InvalidRequestError, match="begins from no other"):
        begin(lab.new_root(), target=lake_target("/elsewhere"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jitter": 5000}, "jitter is 0, and here it is 5000"),
        ({"unit": "us"}, "unit is ms, and here it is us"),
        ({"key_mode": "dictionary"}, "key_mode is none, and here it is dictionary"),
    ],
)
def test_stream_of_other_settings_is_refused(lab, options, message):
    lab.published(50)
    heir = lab.new_root(**options)
    with pytest.raises(ForeignDataError, match=message):
        begin(heir)
    assert not list(heir.root.rglob("shard-*"))


@pytest.mark.parametrize("shard", [SHARD, 99])
def test_table_that_another_program_wrote_is_refused_until_it_is_restored(lab, shard):
    lab.published(50)
    table = DeltaTable(lab.target.uri)
    version, heir = table.version(), lab.new_root()
    table.update(updates={"shard": str(shard)})
    for ask in (begin_from_lake, begin_prospects):
        with pytest.raises(InvalidRequestError, match=r"another program .*RESTORE"):
            ask(heir.root, NAME, [SHARD])
    assert not list(heir.root.rglob("shard-*"))
    # Who has a log of the shard goes on with it.
    assert lake_positions(lab.owner.root, NAME, [SHARD])[SHARD].is_own
    table.restore(version)
    lab.take_over(heir)
    lab.check()


def test_shard_that_is_written_to_is_refused(lab):
    lab.published(50)
    with pytest.raises(ShardLockedError):
        begin(lab.owner)
    lab.append(50)
    lab.check()


def test_file_that_the_store_lacks_is_named(lab):
    lab.published(50, 50)
    lost = lab.files()[0]
    lost.unlink()
    with pytest.raises(CorruptionError, match=lost.name):
        begin(lab.new_root())


@pytest.mark.parametrize("place", [-30, 20])
def test_file_that_is_damaged_is_named(lab, place):
    lab.published(50, 50)
    file = lab.out_of_order_file()
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    heir = lab.new_root()
    with pytest.raises(CorruptionError, match=file.name):
        begin(heir)
    assert not list(heir.root.rglob("db"))


def test_table_that_tells_no_schemas_is_refused(lab):
    lab.published(50)
    lab.forget_runs()
    with pytest.raises(CorruptionError, match="no heads run tells schema 0 of its values"):
        begin(lab.new_root())


def test_heads_that_nobody_noted_are_made_of_the_files(lab):
    lab.append_years(40)
    lab.owner.stream.seal()
    lab.publish()
    lab.forget_runs()
    lab.take_over()
    lab.check()
    lab.append(80)
    lab.check()


def test_disk_of_the_lake_that_is_away_is_no_damage(lab):
    lab.published(50)
    assert lab.target.directory is not None
    away = lab.target.directory.rename(lab.target.directory.with_name("away"))
    heir = lab.new_root()
    assert begin(heir) == {}
    shutil.move(away, lab.target.directory)
    assert begin(heir)[SHARD].files > 0


def published_here(lab):
    lab.published(50)


def begun_here(lab):
    lab.published(50)
    lab.take_over()


def begun_anew_here(lab):
    first = lab.owner
    begun_here(lab)
    lab.publish()
    lab.take_over(first)


@pytest.mark.parametrize("history", [published_here, begun_here, begun_anew_here])
def test_root_that_knows_its_table_takes_no_disk_that_is_away_for_one_without_shards(lab, history):
    history(lab)
    lab.append(10)
    lab.owner.stream.close()
    assert lab.target.directory is not None
    away = lab.target.directory.rename(lab.target.directory.with_name("away"))
    for ask in (begin_from_lake, begin_prospects, lake_positions):
        with pytest.raises(UnavailableError, match="there is no table"):
            ask(lab.owner.root, NAME, [SHARD])
    shutil.move(away, lab.target.directory)
    assert lake_positions(lab.owner.root, NAME, [SHARD])[SHARD].is_own
