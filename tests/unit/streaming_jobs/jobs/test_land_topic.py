"""`land_topic` as a command, and what it refuses: no Spark is started."""

import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from storage_core import ForeignDataError, InvalidRequestError
from storage_core.lake import lake_status, lake_target
from streaming_jobs.jobs.command import outcome
from streaming_jobs.jobs.land_topic import NAME as JOB
from streaming_jobs.jobs.land_topic import application, land_topic
from tests.tidy.tree import ROOT
from tests.unit.streaming_jobs.source.source_lab import NAME, SourceLab
from tests.waiting import await_that

ENDS_WITHIN_S = 600.0
# Where it is refused, nothing is asked of a session.
NO_SPARK: Any = None


@pytest.fixture
def log(tmp_path):
    log = SourceLab(tmp_path / "root")
    log.create(shards=2)
    yield log
    log.close()


@pytest.fixture
def into(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def land(capsys):
    """Run the command; return its exit code and what it said."""

    def run(*words):
        code = outcome(application(), JOB, JOB, [str(word) for word in words])
        printed = capsys.readouterr()
        assert printed.out == ""
        return code, printed.err

    return run


def sealed(log, count, first=0):
    log.append(count, first=first)
    log.writer.seal()


def published(log, into):
    shards = lake_status(log.root, NAME, lake_target(str(into))).shards.values()
    return sum(shard.published or 0 for shard in shards)


def test_command_says_what_has_landed_and_what_is_not_sealed(log, into, land):
    assert land(log.root, NAME, into, "--once") == (
        0,
        f"land_topic: nothing new in file://{into}\n",
    )
    sealed(log, 10)
    log.append(4, first=10)
    assert land(log.root, NAME, into, "--once") == (
        0,
        f"land_topic: 10 rows landed in file://{into}; not sealed yet: 4 addresses\n",
    )
    assert published(log, into) == 10
    sealed(log, 1, first=14)
    log.append(1, first=15)
    assert land(log.root, NAME, into, "--once")[1] == (
        f"land_topic: 5 rows landed in file://{into}; not sealed yet: 1 address\n"
    )


def test_rows_land_where_the_stream_says(log, into, land, monkeypatch):
    sealed(log, 10)
    code, said = land(log.root, NAME, "--once")
    assert code == 2
    assert said.startswith(f"land_topic: {NAME!r} has no lake: name a directory or s3://")
    log.writer.alter(lake=str(into))
    assert land(log.root, NAME, "--once")[0] == 0
    assert published(log, into) == 10
    # A place of this machine may be named as from here.
    monkeypatch.chdir(into.parent)
    assert land("root", NAME, "other", "--once")[0] == 0
    assert published(log, into.parent / "other") == 10


def test_command_goes_on_until_it_is_asked_to_end(log, into):
    sealed(log, 10)
    words = [str(log.root), NAME, str(into), "--trigger", "100 milliseconds"]
    command = [sys.executable, "-m", "streaming_jobs.jobs.land_topic", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as job:
        try:
            await_that(lambda: published(log, into) == 10, "the first rows", ENDS_WITHIN_S)
            sealed(log, 10, first=10)
            await_that(lambda: published(log, into) == 20, "all rows", ENDS_WITHIN_S)
            job.send_signal(signal.SIGINT)
            _, said = job.communicate(timeout=ENDS_WITHIN_S)
        finally:
            job.kill()
    assert job.returncode == 0
    # A part of one shard may land before that of the other.
    landed = re.findall(r"^land_topic: (\d+) rows? landed in ", said, re.MULTILINE)
    assert len(landed) == said.count("\n")
    assert sum(map(int, landed)) == 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--server", "a:8085", NAME], "has no server any more: what owners have sealed"),
        (["--partition=day"], "has no partition any more: engines choose files by"),
        (["--columns", "value"], "has no columns any more: select them where you read"),
        (["--schema", "a.avsc"], "has no schema any more: the table has a column for each"),
        (["--mode", "PERMISSIVE"], "has no mode any more: a value that cannot be read lands as"),
        (["--max-rows", "5"], "has no max_rows any more: a commit has a million rows"),
        (["--skip-lost"], "has no skip_lost any more: `--accept-hole` goes on where"),
        (["--checkpoint", "c"], "has no checkpoint any more: the table itself says"),
        (["--master", "local[2]"], "has no master any more: the command starts no Spark"),
    ],
)
def test_option_of_an_earlier_version_is_refused_with_what_is_there_instead(
    log, into, land, words, message
):
    sealed(log, 10)
    code, said = land(log.root, NAME, into, "--once", *words)
    assert code == 2
    assert said.startswith(f"land_topic: land_topic {message}")
    assert said.count("\n") == 1
    assert not into.exists()


def test_parameter_of_an_earlier_version_is_refused_with_what_is_there_instead(log, into):
    with pytest.raises(InvalidRequestError, match="no once any more: a call lands what is sealed"):
        land_topic(NO_SPARK, log.root, NAME, into, once=True)
    with pytest.raises(InvalidRequestError, match="no partition any more"):
        land_topic(NO_SPARK, log.root, NAME, into, partition="day")
    with pytest.raises(TypeError, match="unexpected keyword argument 'onec'"):
        land_topic(NO_SPARK, log.root, NAME, into, onec=True)


def test_servers_are_refused_with_who_publishes(into):
    with pytest.raises(InvalidRequestError, match="no servers any more: what owners have sealed"):
        land_topic(NO_SPARK, "shardlog://a:8085", NAME, into)


def test_directory_of_an_earlier_version_is_left_as_it_is(log, into, land):
    sealed(log, 10)
    (into / "_landing").mkdir(parents=True)
    (into / "_landing" / "landing.json").write_text("{}")
    day = into / "day=2023-11-14"
    day.mkdir()
    code, said = land(log.root, NAME, into, "--once")
    assert code == 2
    assert "an earlier version landed: they stay readable; name another directory" in said
    assert sorted(into.iterdir()) == [into / "_landing", day]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("root/lake", "lies in the root; name a directory beside it"),
        ("file:lake", "'file:lake' is no place for a lake; name it as s3://BUCKET/PATH"),
        ("hdfs://a/b", "'hdfs://a/b' is no place for a lake; name it as s3://BUCKET/PATH"),
    ],
)
def test_what_is_no_place_for_a_table_is_refused(log, land, monkeypatch, place, message):
    sealed(log, 10)
    monkeypatch.chdir(log.root.parent)
    code, said = land(log.root, NAME, place, "--once")
    assert code == 2
    assert message in said
    assert said.count("\n") == 1


def test_stream_of_which_nothing_is_sealed_has_no_frame(log, into):
    log.append(5)
    with pytest.raises(InvalidRequestError, match=r"is sealed yet: `shardlog seal .* seals it"):
        land_topic(NO_SPARK, log.root, NAME, into)


def topic_of(root, count):
    log = SourceLab(root)
    log.create_topic({0: 0})
    log.put(0, range(count))
    log.writer.seal()
    log.close()


def test_another_log_of_a_topic_lands_only_where_it_takes_over(into, land, tmp_path):
    topic_of(tmp_path / "one", 10)
    topic_of(tmp_path / "other", 15)
    words = [NAME, into, "--once"]
    assert land(tmp_path / "one", *words)[0] == 0
    code, said = land(tmp_path / "other", *words)
    assert code == 4
    assert "--take-over" in said
    assert land(tmp_path / "other", *words, "--take-over")[0] == 0
    assert land(tmp_path / "one", *words)[0] == 4


def test_table_of_another_stream_of_the_name_is_refused(log, into, land, tmp_path):
    sealed(log, 10)
    assert land(log.root, NAME, into, "--once")[0] == 0
    other = SourceLab(tmp_path / "other")
    other.create(shards=2)
    sealed(other, 5)
    with pytest.raises(ForeignDataError):
        land_topic(NO_SPARK, other.root, NAME, into)
    other.close()
    assert land(other.root, NAME, into, "--once")[0] == 4


def test_single_option_of_the_environment_stands_above_the_file_that_it_names(
    log, into, land, monkeypatch
):
    file = into.with_suffix(".toml")
    file.write_text('AWS_ENDPOINT_URL = "nowhere"')
    monkeypatch.setenv("SHARDLOG_LAKE_OPTIONS_FILE", str(file))
    sealed(log, 10)
    assert land(log.root, NAME, into, "--once")[0] == 2
    monkeypatch.setenv("SHARDLOG_LAKE__OPTIONS__AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert land(log.root, NAME, into, "--once")[0] == 0
    assert land(log.root, NAME, into, "--once", "--lake-options", file)[0] == 2
