"""Goal: whatever options.json says of archived logs, nothing but this stream's own is removed.

Method: an options.json from elsewhere, whole by its checksum, names other places; or links lie
where directories should. What a reader leaves of a log that has gone is nobody's.
"""

from typing import Any

import pytest

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    Stream,
    StreamReader,
    archived_shard_directory,
    archived_shards,
    drop_stream,
    remove_archived_shards,
)
from storage_core.platform.durable_file import encode_document, read_document
from tests.log.topics import NAME, TOPIC, TopicCopy
from tests.log.workbench import column_of

ROWS = [0, 1, 2]
LINEAGE = "0123456789abcdef" * 2


class HostileCopy(TopicCopy):
    """A topic's copy of two shards, the log of the first archived, beside another stream."""

    def __init__(self, root):
        super().__init__(root)
        self.add({0: 0, 1: 0})
        with self.open() as stream:
            self.append(0, ROWS)
            self.append(1, ROWS)
            stream.commit()
        (self.archived,) = Stream.archive_shards(root, NAME, {0: 0})
        Stream.create(root, "other", origin=TOPIC).close()
        Stream.add_shards(root, "other", {0: 0})

    def says(self, **changes):
        """Have options.json say something else of the archived log."""
        path = self.directory / "options.json"
        document: dict[str, Any] = read_document(path)
        document["archived"][0].update(changes)
        path.write_bytes(encode_document(document))

    def says_of_shards(self, **directories):
        path = self.directory / "options.json"
        document: dict[str, Any] = read_document(path)
        document["directories"].update(directories)
        path.write_bytes(encode_document(document))

    @property
    def place(self):
        return archived_shard_directory(self.root, NAME, self.archived)

    def expect_others_whole(self):
        """Expect the logs that are in force, and the other stream, as they were."""
        with StreamReader.open(self.root, "other") as reader:
            assert reader.refresh() == {0: 0}
        assert (self.directory / "shard-0001" / "marker").exists()


@pytest.fixture
def copy(tmp_path):
    return HostileCopy(tmp_path)


NAMES = [
    "..",
    ".",
    "",
    "../other",
    "../other/shard-0000",
    "../../somewhere",
    "/tmp",  # noqa: S108 - a place that is not the stream's
    "~archived",
    "staging",
    "shard-0001",
    f"shard-0000~{LINEAGE[:16]}",
    "shard-0000/db",
    7,
    None,
]


@pytest.mark.parametrize("name", NAMES)
def test_directory_that_is_not_the_logs_own_is_refused_and_nothing_is_removed(copy, name):
    copy.says(directory=name)
    with pytest.raises(CorruptionError, match=r"options\.json"):
        remove_archived_shards(copy.root, NAME)
    copy.expect_others_whole()


@pytest.mark.parametrize(
    "changes",
    [
        {"lineage": "../../other"},
        {"lineage": "../" * 10 + "x" * 2},
        {"lineage": ""},
        {"lineage": 5},
        {"lineage": LINEAGE.upper()},
        {"shard": 1},
        {"shard": -1},
        {"shard": "../other"},
        {"shard": True},
        {"end": "x"},
        {"more": 1},
    ],
)
def test_values_that_nobody_wrote_are_refused_and_nothing_is_removed(copy, changes):
    copy.says(**changes)
    with pytest.raises(CorruptionError, match=r"options\.json"):
        remove_archived_shards(copy.root, NAME)
    copy.expect_others_whole()


def test_log_in_force_is_never_taken_for_an_archived_one(copy):
    with StreamReader.open(copy.root, NAME) as reader:
        lineage = reader.lineage(1)
    copy.says(shard=1, lineage=lineage, directory="shard-0001")
    with pytest.raises(CorruptionError):
        remove_archived_shards(copy.root, NAME)
    with pytest.raises(CorruptionError):
        Stream.open(copy.root, NAME)
    copy.expect_others_whole()


def test_another_log_in_an_archived_ones_place_stays(copy):
    """The name of a log that was never made, and the directory of one that is in force."""
    copy.says(shard=1, lineage=LINEAGE, directory="shard-0001")
    with pytest.raises(ForeignDataError, match="another log"):
        remove_archived_shards(copy.root, NAME)
    with pytest.raises(ForeignDataError, match="another log"):
        Stream.open(copy.root, NAME)
    copy.expect_others_whole()


@pytest.mark.parametrize("name", ["../other/shard-0000", "shard-0001", "/", 3])
def test_shard_in_a_directory_that_is_not_its_own_is_refused(copy, name):
    copy.says_of_shards(**{"0": name})
    with pytest.raises(CorruptionError, match=r"options\.json"):
        StreamReader.open(copy.root, NAME)


@pytest.mark.parametrize("linked", ["log", "archive"])
def test_links_are_not_followed(copy, linked):
    path = copy.place if linked == "log" else copy.place.parent
    elsewhere = copy.root / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(ForeignDataError, match="link"):
        remove_archived_shards(copy.root, NAME)
    assert list(elsewhere.rglob("marker"))


def test_link_within_an_archived_log_is_removed_and_not_what_it_leads_to(copy):
    elsewhere = copy.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (copy.place / "link").symlink_to(elsewhere)
    assert list(remove_archived_shards(copy.root, NAME)) == [copy.archived]
    assert (elsewhere / "file").exists()


def test_removing_that_was_cut_short_goes_on(copy):
    for entry in ("db", "marker"):
        (copy.place / entry).rename(copy.root / entry)
    assert list(remove_archived_shards(copy.root, NAME)) == [copy.archived]
    assert list(archived_shards(copy.root, NAME)) == []


def leave_as_a_reader(directory):
    """Make what rocksdict makes where a reader opens a store that has just gone."""
    (directory / "db").mkdir(parents=True)
    (directory / "db" / "rocksdict-config.json").write_text("{}")


def test_what_a_reader_left_of_an_archived_log_disturbs_nobody(copy):
    place = copy.place
    leave_as_a_reader(copy.directory / copy.archived.directory)
    with StreamReader.open(copy.root, NAME, archived=copy.archived.lineage) as reader:
        assert column_of(reader.tail(0), "address") == ROWS
    with Stream.open(copy.root, NAME) as stream:
        assert stream.committed() == {0: 0, 1: 3}
    assert archived_shard_directory(copy.root, NAME, copy.archived) == place
    Stream.archive_shards(copy.root, NAME, {0: 0, 1: 0})
    assert not (copy.directory / copy.archived.directory).exists()


def test_what_a_reader_left_of_a_dropped_stream_is_no_stream_and_another_begins(copy):
    drop_stream(copy.root, NAME)
    leave_as_a_reader(copy.directory / "shard-0001")
    with pytest.raises(InvalidRequestError, match="no such stream"):
        StreamReader.open(copy.root, NAME)
    Stream.create(copy.root, NAME, origin=TOPIC).close()
    Stream.add_shards(copy.root, NAME, {1: 0})
    with Stream.open(copy.root, NAME) as stream:
        assert stream.committed() == {1: 0}


def test_damaged_store_without_a_list_of_its_files_is_no_leftover(copy):
    drop_stream(copy.root, NAME)
    leave_as_a_reader(copy.directory / "shard-0001")
    (copy.directory / "shard-0001" / "db" / "000012.sst").touch()
    with pytest.raises(ShardlogError, match=r"stream\.json is missing"):
        StreamReader.open(copy.root, NAME)
