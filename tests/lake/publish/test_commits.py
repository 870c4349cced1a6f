"""One commit publishes all shards of a stream, and asks the store for little."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from storage_core import CorruptionError, Stream, StreamOptions, StreamReader, UnavailableError
from storage_core.lake.app_id import stream_of
from storage_core.lake.publish import publish_shard, publish_shards, publish_stream
from storage_core.lake.publishing import rounds
from storage_core.lake.publishing.mirror import STEP_PARTS_MAX
from storage_core.lake.publishing.open_tables import OpenTables
from storage_core.lake.publishing.ownership import LakeOwnerError
from storage_core.lake.publishing.report import PublishReport
from storage_core.lake.publishing.rounds import Rounds
from storage_core.lake.table import LakeTable
from storage_core.lake.target import lake_target
from storage_core.parts.snapshot import Part
from tests.lake.publish.publish_lab import Changes, dying
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore

NAME: Final = "readings"
SHARDS: Final = 4
# What a file costs beside its bytes: a multipart upload is begun and ended, and looked at twice.
UPLOAD: Final = ("/shard%3D", "/shard=")
COMMIT_REQUESTS_MAX: Final = 12
# Of the log each file behind the last checkpoint, twice.
OPENED_REQUESTS_MAX: Final = 2
IDLE_REQUESTS_MAX: Final = 5
LOADED_COMMIT_REQUESTS_MAX: Final = 11
LOADED_IDLE_REQUESTS_MAX: Final = 3


class ManyShards:
    """A stream of many shards, its table in a bucket, and what is asked of that."""

    def __init__(self, root: Path, store: BucketStore, proxy: S3Proxy) -> None:
        self.root, self._proxy, self._store = root, proxy, store
        behind = store.through(proxy.url)
        self.target = behind.target()
        self.changes = Changes(behind, self.target)
        self.stream = Stream.create(root, NAME, StreamOptions(shards=SHARDS, unit="s"))
        self._second = 0

    def seal(self, shards: Iterable[int] = range(SHARDS)) -> None:
        """Seal a row of each shard, or of some."""
        for shard in shards:
            self.stream.append(self._second, shard, b"warm")
        self._second += 1
        self.stream.commit()
        self.stream.seal()

    def publish(self) -> tuple[PublishReport, Counter[str]]:
        """Publish, and return what was asked of the store for it."""
        self._proxy.requests()
        report = publish_stream(self.root, NAME, self.target)
        return report, self._requests()

    def publish_one(self, tables: OpenTables) -> tuple[int, Counter[str]]:
        """Publish a shard, as a process does that has the table loaded from the call before."""
        self._proxy.requests()
        with StreamReader.open(self.root, NAME) as reader:
            done = publish_shard(reader, 0, self.target, tables=tables)
        return done.commits, self._requests()

    def publish_some(self, shards: Iterable[int], commits_max: int) -> Rounds:
        """Publish shards by a call that leaves a rest, as the process of a worker does."""
        with StreamReader.open(self.root, NAME) as reader:
            return publish_shards(reader, list(shards), self.target, commits_max=commits_max)

    def commits(self) -> int:
        """Return how many versions of the table have published something."""
        table = DeltaTable(self.target.uri, storage_options=dict(self.target.options))
        return sum("published" in commit for commit in table.history())

    def name_other_owner(self, shard: int) -> None:
        """Let the table say that another log publishes a shard, as one in another root does."""
        with StreamReader.open(self.root, NAME) as reader:
            table = LakeTable.open(self.target, stream_of(reader))
        assert table is not None
        table.commit(shard, [], [], table.published(shard) or 0, owner=1)

    def delete_table(self) -> None:
        """Let nothing be left where the table was."""
        for path in self._store.paths(self.target):
            self._store.delete(self.target, path)

    def has_table(self) -> bool:
        """Tell whether anything lies where the table is to be."""
        return bool(self._store.paths(self.target))

    def part(self, shard: int) -> Part:
        """Return the one part of a shard."""
        (part,) = (part for part in self.stream.parts() if part.shard == shard)
        return part

    def damage(self, shard: int) -> None:
        """Let the one part of a shard have another last byte."""
        path = self.part(shard).path
        path.write_bytes(path.read_bytes()[:-1] + b"?")

    def damage_log(self, shard: int, name: str) -> None:
        """Let a file of a shard's log be no such file."""
        (self.root / NAME / f"shard-{shard:04}" / name).write_bytes(b"?" * 100)

    def published_rows(self) -> list[Any]:
        """Return of each row of the table the shard."""
        table = DeltaTable(self.target.uri, storage_options=dict(self.target.options))
        return table.to_pyarrow_table(columns=["shard"]).column("shard").to_pylist()

    def write_newest_commit(self, text: bytes) -> None:
        """Let the file of the newest commit have another text."""
        self._store.write(self.target, self._commit_files()[-1], text)

    def leave_a_checkpoint_alone(self) -> None:
        """Let the table's log have no commits, but a checkpoint of them."""
        options = dict(self.target.options)
        DeltaTable(self.target.uri, storage_options=options).create_checkpoint()
        for path in self._commit_files():
            self._store.delete(self.target, path)

    def _commit_files(self) -> list[str]:
        paths = self._store.paths(self.target)
        return sorted(path for path in paths if re.fullmatch(r"_delta_log/\d+\.json", path))

    def _requests(self) -> Counter[str]:
        return Counter("file" if is_of_file(one) else "log" for one in self._proxy.requests())


def is_of_file(request: str) -> bool:
    return any(part in request for part in UPLOAD)


@pytest.fixture(scope="module")
def proxy(s3_server: str) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server) as proxy:
        yield proxy


@pytest.fixture
def many(tmp_path: Path, bucket_store: BucketStore, proxy: S3Proxy) -> Iterator[ManyShards]:
    many = ManyShards(tmp_path / "root", bucket_store, proxy)
    yield many
    many.stream.close()


def test_all_shards_come_in_one_commit(many):
    many.seal()
    report, _ = many.publish()
    assert (report.commits, report.files_added, report.rows) == (1, SHARDS, SHARDS)
    many.changes.check()
    assert len(many.changes.rows) == SHARDS


def test_commit_asks_for_little_however_many_shards_and_versions_there_are(many):
    many.seal()
    many.publish()
    for version in range(1, 5):
        many.seal()
        report, requests = many.publish()
        assert report.commits == 1
        assert requests["file"] <= 5 * SHARDS
        assert requests["log"] <= COMMIT_REQUESTS_MAX + OPENED_REQUESTS_MAX * (version + 1)
    report, requests = many.publish()
    assert report.commits == 0
    assert {shard.end for shard in report.shards.values()} == {5}
    assert requests["file"] == 0
    assert requests["log"] <= IDLE_REQUESTS_MAX


def test_what_others_did_to_the_table_is_seen_where_nothing_else_has_changed(many):
    many.seal()
    for _ in range(2):
        many.publish()
    many.name_other_owner(2)
    with pytest.raises(LakeOwnerError):
        many.publish()


def test_table_that_is_gone_is_told_though_nothing_else_has_changed(many):
    many.seal()
    for _ in range(2):
        many.publish()
    many.delete_table()
    with pytest.raises(UnavailableError, match="there is no table"):
        many.publish()
    assert not many.has_table()


def test_what_others_did_to_a_shard_during_a_publish_of_others_is_seen_by_the_next(
    many, monkeypatch
):
    many.seal()
    many.publish()
    many.seal([0])
    usual = LakeTable.commit_all

    def commit_all(table, changes):
        monkeypatch.setattr(LakeTable, "commit_all", usual)
        many.name_other_owner(2)
        return usual(table, changes)

    monkeypatch.setattr(LakeTable, "commit_all", commit_all)
    report, _ = many.publish()
    assert report.rows == 1
    with pytest.raises(LakeOwnerError):
        many.publish()


def test_process_that_has_the_table_loaded_asks_for_less(many):
    tables = OpenTables()
    many.seal()
    many.publish_one(tables)
    for _ in range(2):
        many.seal()
        commits, requests = many.publish_one(tables)
        assert commits == 1
        assert requests["log"] <= LOADED_COMMIT_REQUESTS_MAX
    commits, requests = many.publish_one(tables)
    assert (commits, requests["file"]) == (0, 0)
    assert requests["log"] <= LOADED_IDLE_REQUESTS_MAX
    many.changes.check()


def test_table_that_was_moved_away_meanwhile_is_made_anew(tmp_path):
    place = tmp_path / "lake"
    tables, target = OpenTables(), lake_target(str(place))
    with Stream.create(tmp_path / "root", NAME, StreamOptions(shards=1, unit="s")) as stream:
        for second in range(3):
            stream.append(second, 0, b"warm")
            stream.commit()
            stream.seal()
            with StreamReader.open(tmp_path / "root", NAME) as reader:
                publish_shard(reader, 0, target, tables=tables)
            if second == 1:
                place.rename(tmp_path / "elsewhere")
    assert DeltaTable(place).to_pyarrow_table().num_rows == 3


def test_call_with_a_limit_publishes_all_shards_in_one_commit(many):
    many.seal()
    done = many.publish_some(range(SHARDS), commits_max=1)
    assert [shard.end for shard in done.published.values()] == [1] * SHARDS
    assert (done.errors, done.fault) == ({}, None)
    assert many.commits() == 1


def test_shard_that_fails_keeps_no_other_from_a_call_with_a_limit(many):
    many.seal()
    many.damage(3)
    done = many.publish_some(range(SHARDS), commits_max=4)
    assert {number: shard.is_whole for number, shard in done.published.items()} == dict.fromkeys(
        (0, 1, 2), True
    )
    assert {number: type(error) for number, error in done.errors.items()} == {3: CorruptionError}
    assert done.fault is None


def test_shard_whose_files_cannot_be_read_now_keeps_no_other_from_the_lake(many):
    many.seal()
    part = many.part(3)
    part.path.unlink()
    part.path.mkdir()
    done = many.publish_some(range(SHARDS), commits_max=4)
    assert list(done.published) == [0, 1, 2]
    assert list(done.errors) == [3]


@pytest.mark.parametrize("of_log", ["marker", "db/CURRENT"])
def test_shard_whose_log_is_damaged_keeps_no_other_from_the_lake(many, of_log):
    many.seal()
    many.damage_log(3, of_log)
    done = many.publish_some(range(SHARDS), commits_max=4)
    assert (list(done.published), list(done.errors), done.fault) == ([0, 1, 2], [3], None)


@pytest.mark.parametrize("of_log", ["marker", "db/CURRENT"])
def test_publish_of_a_stream_ends_with_the_damage_of_a_log_behind_all_other_shards(many, of_log):
    many.seal()
    many.damage_log(3, of_log)
    with pytest.raises(CorruptionError):
        many.publish()
    assert sorted(many.published_rows()) == [0, 1, 2]
    with pytest.raises(CorruptionError):
        many.publish()


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"commitInfo":3}'])
def test_newest_commit_that_is_damaged_is_told_by_one_line(many, text):
    many.seal()
    for _ in range(2):
        many.publish()
    many.write_newest_commit(text)
    with pytest.raises(CorruptionError, match="the log of the table is damaged"):
        many.publish()


def test_table_whose_log_is_a_checkpoint_alone_is_compared(many):
    many.seal()
    many.publish()
    many.leave_a_checkpoint_alone()
    for _ in range(2):
        assert many.publish()[0].commits == 0


def test_store_that_fails_behind_a_commit_is_told_beside_what_was_published(many):
    for _ in range(STEP_PARTS_MAX + 1):
        many.seal()
    with dying(2, "commit_all", error=UnavailableError):
        done = many.publish_some([0], commits_max=4)
    assert (done.published[0].rows, done.published[0].is_whole) == (STEP_PARTS_MAX, False)
    assert isinstance(done.fault, UnavailableError)


def test_backlog_of_one_shard_is_published_beside_what_is_new_of_the_others(many, monkeypatch):
    monkeypatch.setattr(rounds, "ROUND_PARTS_MAX", 2)
    for _ in range(3):
        many.seal()
    done = many.publish_some(range(SHARDS), commits_max=4)
    assert many.commits() == 1
    assert not any(shard.is_whole for shard in done.published.values())
    while not all(shard.is_whole for shard in done.published.values()):
        done = many.publish_some(range(SHARDS), commits_max=4)
    many.changes.check()
    assert len(many.changes.rows) == 3 * SHARDS


def test_shard_that_cannot_be_published_is_out_and_the_others_come(many):
    many.seal()
    many.damage(3)
    with pytest.raises(CorruptionError, match="cannot be published"):
        many.publish()
    many.changes.check()
    assert {shard for shard, _ in many.changes.rows} == {*range(SHARDS)} - {3}
