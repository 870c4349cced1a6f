"""Goal: a stream answers alike before, while and after its files go, over any store.

Method: rows of every kind are published; their files go by `keep_local`, and the store goes too.
"""

from datetime import timedelta

import pytest

from connectors.settings.lake_settings import LakeSettings
from storage_core import CorruptionError, StreamReader, UnavailableError
from storage_core.lake import publish_stream, vacuum_stream
from storage_core.lake.delta import vacuum
from storage_core.lake.options_file import LAKE_OPTIONS_VARIABLE
from storage_core.lake.target import lake_target
from storage_core.parts.part_home import has_part
from storage_core.sql import connect
from tests.lake.repair.repair_lab import RepairLab, path_of
from tests.lake.support.stores import BucketStore
from tests.log.parts.parts_lab import NAME, SCHEMAS

# Nobody listens there.
NOWHERE = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "MAX_RETRIES": "0", "RETRY_TIMEOUT": "1s"}
QUERY = f'SELECT count(*), sum(address), sum("primary"), count(temperature) FROM {NAME}'


@pytest.fixture
def lab(root, store):
    return RepairLab(root, store)


@pytest.fixture
def archiving(lab):
    """Return what archives the store's file of a part; some stores have no archive."""
    if not isinstance(lab.store, BucketStore):
        pytest.skip("a directory gives all that it has")
    return lambda part: lab.store.archive(lab.target, path_of(part))


@pytest.fixture(autouse=True)
def reach(lab, tmp_path, monkeypatch):
    """Return what lets all reads reach the store by other options."""

    def reaching(**options):
        file = tmp_path / "options.toml"
        lines = {**lab.target.options, **options}.items()
        file.write_text("\n".join(f'{name} = "{value}"' for name, value in lines))

    monkeypatch.setenv(LAKE_OPTIONS_VARIABLE, str(tmp_path / "options.toml"))
    reaching()
    return reaching


@pytest.fixture
def reached_as_in_a_worker(monkeypatch):
    """Let reads reach the store by the options of a worker's settings alone."""

    def reached(lab):
        monkeypatch.delenv(LAKE_OPTIONS_VARIABLE)
        environment: dict[str, str] = {}
        LakeSettings(options=dict(lab.target.options)).hand_down(environment)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return reached


def published_and_gone(lab):
    """Publish what is sealed, and let the files go; return how many did."""
    lab.stream.alter(keep_local=timedelta(0))
    report = publish_stream(lab.root, NAME)
    return sum(shard.files_gone for shard in report.shards.values())


def answers(lab):
    with connect(lab.root) as streams:
        answer = streams.sql(QUERY).fetchall()
    return lab.rows(), answer


def here(lab):
    return [part for part in lab.stream.parts() if part.path.exists()]


def test_answers_are_the_same_before_while_and_after_files_go(lab):
    lab.fill(300).fill(200)
    before = answers(lab)
    with StreamReader.open(lab.root, NAME) as reader:
        batches = [reader.tail(shard) for shard in reader.committed()]
        first = [next(batch).num_rows for batch in batches]
        assert published_and_gone(lab)
        rest = sum(batch.num_rows for rows in batches for batch in rows)
    assert sum(first) + rest == len(before[0])
    lab.stream.trim()
    assert answers(lab) == before
    lab.fill(100).fill(100).fill(100)
    lab.stream.compact()
    published_and_gone(lab)
    lab.check()


def test_parts_of_a_stream_with_a_lake_are_published_as_they_lie(lab):
    lab.append_values(
        SCHEMAS[0], [{"temperature": 0.1 * n, "version": "1", "tags": {}} for n in range(99)], 10
    )
    lab.stream.seal()
    assert published_and_gone(lab) == len(lab.stream.parts())
    assert not here(lab)


def test_other_files_go_beside_one_that_the_store_does_not_give(lab, archiving):
    publish_stream(lab.fill(200).root, NAME)
    archived, *_ = here(lab)
    assert len({part.shard for part in here(lab)}) > 1
    archiving(archived)
    with pytest.raises(UnavailableError, match="restore it there") as raised:
        published_and_gone(lab)
    assert path_of(archived) in str(raised.value)
    assert "only" not in str(raised.value)
    assert raised.value.shard == archived.shard
    assert here(lab) == [archived]


def test_damage_is_told_before_what_the_store_does_not_give(lab, archiving):
    publish_stream(lab.fill(200).root, NAME)
    archived, *others = here(lab)
    damaged = next(part for part in others if part.shard > archived.shard)
    archiving(archived)
    lab.damage_stored(damaged)
    with pytest.raises(CorruptionError) as raised:
        published_and_gone(lab)
    assert (raised.value.shard, raised.value.start) == (damaged.shard, damaged.entry.first)


def test_other_shards_are_repaired_beside_a_part_that_the_store_does_not_give(lab, archiving):
    published_and_gone(lab.fill(60))
    version = lab.opened().version()
    before = lab.stream.parts()
    published_and_gone(lab.fill(60))
    archived, *others = [part for part in lab.stream.parts() if part not in before]
    assert [part for part in others if part.shard != archived.shard]
    # The table lacks what only its store has.
    lab.opened().restore(version)
    archiving(archived)
    done = lab.try_repair()
    uploaded = [file.file for file in done.repaired]
    assert {path_of(part) for part in others if part.shard != archived.shard} <= set(uploaded)
    assert path_of(archived) not in uploaded
    kinds = {(problem.kind, problem.file) for problem in done.left.problems}
    assert ("unread", path_of(archived)) in kinds
    assert done.errors == ()


def test_rows_above_are_read_while_the_store_is_away(lab, reach, tmp_path):
    lab.fill(300)
    lab.stream.trim()
    ends = lab.stream.committed()
    lab.append(lab.rng, 50)
    assert published_and_gone(lab)
    if lab.target.directory is not None:
        lab.target.directory.rename(tmp_path / "elsewhere")
    reach(**NOWHERE)
    with StreamReader.open(lab.root, NAME) as reader:
        above = sum(rows.num_rows for n in ends for rows in reader.tail(n, ends[n]))
        with pytest.raises(UnavailableError, match="only in the lake") as raised:
            reader.read(columns=["address"])
    assert above == 50
    assert raised.value.start is not None
    if lab.target.directory is not None:
        (tmp_path / "elsewhere").rename(lab.target.directory)
    reach()
    assert len(lab.rows()) == 350


def test_vacuum_leaves_what_nothing_else_has_though_the_table_forgot_it(lab, monkeypatch):
    lab.fill(300)
    lab.stream.trim()
    before = lab.rows()
    assert published_and_gone(lab)
    # A program of somebody else's.
    lab.opened().restore(0)
    monkeypatch.setattr(vacuum, "history_of", lambda _: timedelta(0))
    assert vacuum_stream(lab.root, NAME, grace=timedelta(0)).files == ()
    assert lab.rows() == before
    assert all(has_part(part) for part in lab.stream.parts())


def test_part_is_not_missing_where_the_whole_lake_is(lab, tmp_path):
    lab.fill(100)
    assert published_and_gone(lab)
    if lab.target.directory is None:
        pytest.skip("a bucket that is not there is an error of its own")
    lab.target.directory.rename(tmp_path / "elsewhere")
    # Where it was mounted.
    lab.target.directory.mkdir()
    with pytest.raises(UnavailableError, match="there is no table"):
        lab.stream.verify()
    lab.target.directory.rmdir()
    (tmp_path / "elsewhere").rename(lab.target.directory)
    assert not lab.stream.verify().problems


def test_files_stay_that_another_lake_than_the_streams_own_has(lab, tmp_path):
    lab.fill(100)
    lab.stream.alter(keep_local=timedelta(0))
    publish_stream(lab.root, NAME, lake_target(str(tmp_path / "another")))
    assert here(lab) == lab.stream.parts()


def test_reads_in_a_worker_reach_the_store_by_its_settings(lab, reached_as_in_a_worker):
    lab.fill(60)
    before = answers(lab)
    published_and_gone(lab)
    assert not here(lab)
    reached_as_in_a_worker(lab)
    assert answers(lab) == before
