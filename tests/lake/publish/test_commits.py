"""One commit publishes all shards of a stream, and asks the store for little."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from storage_core import CorruptionError, Stream, StreamOptions
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.report import PublishReport
from tests.lake.publish.publish_lab import Changes
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore

NAME: Final = "readings"
SHARDS: Final = 4
# What a file costs beside its bytes: a multipart upload is begun and ended, and looked at twice.
UPLOAD: Final = ("/shard%3D", "/shard=")
COMMIT_REQUESTS_MAX: Final = 40
IDLE_REQUESTS_MAX: Final = 30


class ManyShards:
    """A stream of many shards, its table in a bucket, and what is asked of that."""

    def __init__(self, root: Path, store: BucketStore, proxy: S3Proxy) -> None:
        self.root, self._proxy = root, proxy
        behind = store.through(proxy.url)
        self.target = behind.target()
        self.changes = Changes(behind, self.target)
        self.stream = Stream.create(root, NAME, StreamOptions(shards=SHARDS, unit="s"))
        self._second = 0

    def seal(self) -> None:
        """Seal a row of each shard."""
        for shard in range(SHARDS):
            self.stream.append(self._second, shard, b"warm")
        self._second += 1
        self.stream.commit()
        self.stream.seal()

    def publish(self) -> tuple[PublishReport, Counter[str]]:
        """Publish, and return what was asked of the store for it."""
        self._proxy.requests()
        report = publish_stream(self.root, NAME, self.target)
        requests = self._proxy.requests()
        return report, Counter("file" if is_of_file(one) else "log" for one in requests)


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
    for _ in range(7):
        many.seal()
        report, requests = many.publish()
        assert report.commits == 1
        assert requests["file"] <= 5 * SHARDS
        assert requests["log"] <= COMMIT_REQUESTS_MAX
    _, requests = many.publish()
    assert requests["file"] == 0
    assert requests["log"] <= IDLE_REQUESTS_MAX


def test_shard_that_cannot_be_published_is_out_and_the_others_come(many):
    many.seal()
    part = next(part for part in many.stream.parts() if part.shard == 3)
    part.path.write_bytes(part.path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptionError, match="cannot be published"):
        many.publish()
    many.changes.check()
    assert {shard for shard, _ in many.changes.rows} == {*range(SHARDS)} - {3}
