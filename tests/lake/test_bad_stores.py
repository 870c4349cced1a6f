"""Stores that are not as they must be, that refuse, or are away: one line, and nothing is lost."""

import socket
from contextlib import suppress
from threading import Thread

import pytest

from storage_core import InvalidRequestError, ShardlogError, UnavailableError
from storage_core.lake.delta import atomic_create
from storage_core.lake.delta.state import log_path
from storage_core.lake.file_store import store_options
from storage_core.lake.maintenance.unread import UnreadFileError, one_file_alone
from storage_core.lake.table import LakeConflictError, LakeTable
from storage_core.lake.target import LakeTarget, lake_target
from tests.lake.support.fixtures import ROUNDS_OF_USERS
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import KEYS, BucketStore, DirectoryStore
from tests.lake.support.table_lab import COLUMNS, SHARD, STREAM, TableLab, path_of

WAIT_S = 600.0
# They end sooner what is not answered; a machine under load answers in that time.
SHORT = {"timeout": "2s", "max_retries": "1", "retry_timeout": "5s"}


@pytest.fixture(scope="module")
def shared_proxy(s3_server):
    with S3Proxy(s3_server) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared_proxy):
    yield shared_proxy
    shared_proxy.pass_on()


@pytest.fixture
def behind(bucket_store: BucketStore, proxy: S3Proxy) -> BucketStore:
    """A bucket, by way of the proxy."""
    return bucket_store.through(proxy.url)


def refused(target: LakeTarget, kind: type[ShardlogError], text: str) -> None:
    """Expect that a place can neither be opened nor made, by one line without secrets."""
    for call in (
        lambda: LakeTable.open(target, STREAM),
        lambda: LakeTable.create(target, STREAM, COLUMNS),
    ):
        with pytest.raises(kind, match=text) as error:
            call()
        assert type(error.value) is kind
        assert "\n" not in str(error.value)
        assert not any(secret in str(error.value) for secret in KEYS.values())


@pytest.fixture
def rounds_of_users(monkeypatch):
    """A store is tried as often as users' are."""
    monkeypatch.setattr(atomic_create, "ROUNDS", ROUNDS_OF_USERS)


@pytest.mark.usefixtures("rounds_of_users")
def test_store_that_creates_over_a_file_is_refused(behind, proxy):
    proxy.drop_conditions()
    with pytest.raises(InvalidRequestError, match="lets two writers create one file"):
        LakeTable.create(behind.target(), STREAM, COLUMNS)
    assert behind.paths(behind.target()) == []


@pytest.mark.usefixtures("rounds_of_users")
def test_store_that_looks_first_and_then_creates_is_refused(behind, proxy):
    proxy.race_conditions()
    with pytest.raises(InvalidRequestError, match="lets two writers create one file"):
        LakeTable.create(behind.target(), STREAM, COLUMNS)
    assert behind.paths(behind.target()) == []


def test_refused_credentials_are_told(behind, proxy):
    proxy.refuse_credentials()
    refused(behind.target(), InvalidRequestError, "refuses the credentials.*InvalidAccessKeyId")


def test_missing_bucket_is_told(bucket_store):
    options = {**bucket_store.options, **SHORT}
    target = lake_target(f"s3://{bucket_store.bucket}-missing/table", options)
    refused(target, InvalidRequestError, "bucket does not exist")


def test_store_that_nobody_serves_is_told(bucket_store):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        target = bucket_store.through(url).target(**SHORT)
        refused(target, UnavailableError, "cannot be reached")


def test_store_that_does_not_answer_is_told(behind, proxy):
    proxy.stall()
    refused(behind.target(**SHORT), UnavailableError, "cannot be reached")


def test_store_that_answers_that_it_cannot_is_told(behind, proxy):
    proxy.fail()
    refused(behind.target(**SHORT), UnavailableError, "answers with an error.*503")


def test_file_that_is_not_given_is_told_alone_only_where_others_are_given(behind, proxy, tmp_path):
    lab = TableLab(behind, behind.target(**SHORT))
    lab.keep(1)
    path, into = path_of(1, 1), tmp_path / "file"
    behind.archive(lab.target, path)
    with pytest.raises(UnreadFileError, match=f"{path}.* in an archive"), one_file_alone(lab.table):
        lab.table.get(path, into)
    behind.delete(lab.target, log_path(lab.table.version))
    with pytest.raises(UnreadFileError, match="in an archive"), one_file_alone(lab.table):
        lab.table.get(path, into)
    proxy.refuse_files()
    with pytest.raises(UnreadFileError, match="refuses the credent"), one_file_alone(lab.table):
        lab.table.get(path, into)
    proxy.fail()
    with pytest.raises(UnavailableError, match="503"), one_file_alone(lab.table):
        lab.table.get(path, into)
    proxy.refuse_credentials()
    with pytest.raises(InvalidRequestError, match="credentials"), one_file_alone(lab.table):
        lab.table.get(path, into)


def test_disk_of_this_machine_that_refuses_is_no_fault_of_the_store(tmp_path):
    lab = TableLab(DirectoryStore(tmp_path))
    lab.keep(1)
    with pytest.raises(UnavailableError) as refused, one_file_alone(lab.table):
        lab.table.get(path_of(1, 1), tmp_path)
    assert refused.value.path == tmp_path


def test_what_cannot_be_uploaded_whole_is_not_there(behind, proxy):
    lab = TableLab(behind, behind.target(**SHORT))
    proxy.cut_uploads()
    with pytest.raises(UnavailableError, match="uploading shard=3"):
        lab.add(1)
    assert path_of(1, 1) not in behind.paths(lab.target)
    proxy.pass_on()
    lab.keep(1)
    assert lab.addresses() == [1]


def test_commit_that_fails_is_none_and_can_be_repeated(behind, proxy):
    lab = TableLab(behind, behind.target(**SHORT))
    files = lab.add(1)
    proxy.fail()
    with pytest.raises(UnavailableError):
        lab.table.commit(SHARD, files, [], 2)
    proxy.pass_on()
    assert lab.addresses() == []
    lab.table.reload()
    lab.table.commit(SHARD, files, [], 2)
    assert lab.addresses() == [1]


@pytest.mark.parametrize("retries", ["0", "3"])
def test_commit_whose_answer_is_lost_is_found(behind, proxy, retries):
    """Where delta-rs asks again it is told that there is such a file; else that nobody answers."""
    lab = TableLab(behind, behind.target(max_retries=retries))
    files = lab.add(1)
    proxy.lose_answers(1)
    lab.table.commit(SHARD, files, [], 2)
    assert (lab.table.published(SHARD), lab.table.version) == (2, 1)
    assert (lab.addresses(), lab.streamed()) == ([1], [1])


def test_commits_whose_answers_are_lost_are_found_by_two_who_publish_at_once(behind, proxy):
    lab = TableLab(behind, behind.target(max_retries="0"))

    def publish() -> None:
        own = TableLab(behind, lab.target)
        for _ in range(6):
            own.table.reload()
            begin = own.table.published(SHARD) or 0
            with suppress(LakeConflictError):
                own.table.commit(SHARD, own.add(begin), [], begin + 1)

    proxy.lose_answers(5)
    threads = [Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    last = lab.other().published(SHARD)
    assert last is not None
    assert lab.addresses() == lab.streamed() == list(range(last))


def test_options_win_over_the_environment(bucket_store, monkeypatch):
    lab = TableLab(bucket_store)
    for name in ("AWS_ENDPOINT_URL", "aws_endpoint_url", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    lower = {name.lower(): value for name, value in lab.target.options.items()}
    for options in (lab.target.options, lower):
        other = lab.other(lake_target(lab.target.uri, options))
        other.commit(SHARD, lab.add(other.version), [], other.version + 1)
    assert lab.addresses() == [0, 1]


def test_waits_are_bounded_unless_the_caller_bounds_them(bucket_store):
    assert store_options(bucket_store.target())["timeout"] == "60s"
    options = store_options(bucket_store.target(Timeout="9s", connect_timeout="7s"))
    assert "timeout" not in options
    assert (options["Timeout"], options["connect_timeout"]) == ("9s", "7s")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": "soon"}, "options of the lake"),
        ({"max_retries": "few"}, "options of the lake"),
        ({"AWS_ALLOW_HTTP": "false"}, "needs the option AWS_ALLOW_HTTP"),
    ],
)
def test_wrong_option_is_told(bucket_store, options, text):
    refused(bucket_store.target(**options), InvalidRequestError, text)


def test_credentials_that_are_not_whole_are_told(bucket_store):
    options = dict(bucket_store.options)
    del options["AWS_SECRET_ACCESS_KEY"]
    target = lake_target(bucket_store.target().uri, options)
    refused(target, InvalidRequestError, "incomplete or damaged")
