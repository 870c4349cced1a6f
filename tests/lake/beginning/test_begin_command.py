"""`shardlog lake begin`: what it would do, what it did, and where it would lose rows one line."""

import shutil

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_UNAVAILABLE, EXIT_USAGE
from storage_core import Stream
from tests.lake.beginning.beginning_lab import BORN, NAME, SHARD
from tests.lake.support.damaged_logs import lose_shard
from tests.log.workbench import batch_of
from tests.unit.connectors.command import runner

SECOND = SHARD + 1
# Where no broker listens.
NOBODY = "127.0.0.1:1"


@pytest.fixture
def shardlog(capsys):
    return runner(capsys)


@pytest.fixture
def begin(lab, shardlog):
    def run(*arguments):
        return shardlog("lake", "begin", lab.owner.root, NAME, "--shard", SHARD, *arguments)

    return run


def lose_store(lab):
    lab.owner.stream.close()
    shutil.rmtree(next(lab.owner.root.glob(f"{NAME}/shard-*/db")))


def expect_refusal(ran, code, complaint):
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert complaint in ran.err


def test_damaged_log_begins_anew_when_it_is_to(lab, begin):
    lab.published(100)
    end = lab.owner.stream.committed()[SHARD]
    lose_store(lab)
    would = begin()
    assert would.lines[0].endswith(f"its log, which goes up to {end}, would be archived")
    assert would.lines[1:] == ["nothing was changed; add --execute to do it"]
    done = begin("--execute")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0].startswith(f"shard {SHARD} began from the lake: ")
    assert done.lines[0].endswith(f"up to {end}, where Kafka goes on; the log before is archived")
    lab.owner.open()
    lab.check()


def test_log_with_rows_of_its_own_is_left_in_place(lab, begin):
    lab.published(100)
    published = lab.owner.stream.committed()[SHARD]
    lab.append(20)
    committed = lab.owner.stream.committed()[SHARD]
    lose_store(lab)
    ran = begin("--execute")
    expect_refusal(ran, EXIT_USAGE, "--accept-loss")
    assert f"addresses [{published}, {committed})" in ran.err
    assert begin("--execute", "--accept-loss").code == 0
    lab.owner.open()
    assert lab.owner.stream.committed()[SHARD] == published


def test_log_that_does_not_tell_how_far_it_goes_is_left_in_place(lab, begin, shardlog):
    lab.published(100)
    lab.owner.stream.close()
    next(lab.owner.root.glob(f"{NAME}/shard-*/marker")).unlink()
    expect_refusal(begin("--execute"), EXIT_USAGE, "nobody knows how far this log goes")
    assert begin("--execute", "--accept-loss").code == 0
    listed = shardlog("drop", lab.owner.root, NAME, "--archived")
    assert listed.lines[0].startswith(f"shard {SHARD}: offsets from {BORN} on, ")


def test_shard_that_was_never_published_is_refused(lab, begin):
    lab.fill(20)
    expect_refusal(begin("--execute"), EXIT_USAGE, "the table has nothing of this shard")


@pytest.mark.parametrize("also", [(), ("--execute",), ("--execute", "--accept-loss")])
def test_shard_that_was_never_published_is_refused_before_kafka_is_asked(lab, begin, also):
    lab.fill(20)
    ran = begin(*also, "--bootstrap", NOBODY)
    expect_refusal(ran, EXIT_USAGE, "the table has nothing of this shard")


def test_shard_that_is_written_to_is_refused(lab, begin):
    lab.published(20)
    expect_refusal(begin("--execute"), EXIT_UNAVAILABLE, "")


def test_what_began_is_told_as_json(lab, begin):
    lab.published(20)
    lab.owner.stream.close()
    (would,) = begin("--json").json_lines
    (done,) = begin("--json", "--execute").json_lines
    assert [(one["shard"], one["is_executed"]) for one in (*would, *done)] == [
        (SHARD, False),
        (SHARD, True),
    ]


@pytest.fixture
def with_second_shard(lab):
    """Return the lab once another shard of its owner is published, too, and written to."""
    lab.published(20)
    lab.owner.stream.close()
    Stream.add_shards(lab.owner.root, NAME, {SECOND: 0})
    with Stream.open(lab.owner.root, NAME, [SECOND]) as stream:
        stream.append_batch(batch_of([0]), shard=SECOND, addresses=[0])
        stream.commit()
        stream.seal()
        lab.publish()
        yield lab


@pytest.mark.usefixtures("with_second_shard")
def test_shards_that_began_before_another_is_refused_are_told(begin):
    ran = begin("--shard", SECOND, "--execute")
    assert (ran.code, ran.err.count("\n")) == (EXIT_UNAVAILABLE, 1)
    assert f"shard {SECOND}" in ran.err
    assert [line.split(":")[0] for line in ran.lines] == [f"shard {SHARD} began from the lake"]


@pytest.mark.usefixtures("with_second_shard")
def test_shards_that_began_before_another_is_refused_are_told_as_json(begin):
    ran = begin("--shard", SECOND, "--execute", "--json")
    assert ran.code == EXIT_UNAVAILABLE
    assert [one["shard"] for one in ran.json_lines[0]] == [SHARD]


def heads_runs(lab):
    """Return the files of the shard's heads runs, the oldest first."""
    return sorted((lab.target.directory / "_shardlog" / f"shard={SHARD}").iterdir())


def damage(file):
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("loss", ["damaged", "gone"])
def test_heads_run_that_is_lost_is_told(lab, begin, loss):
    lab.published(50, 50)
    lab.owner.stream.close()
    run = heads_runs(lab)[0]
    if loss == "damaged":
        damage(run)
    else:
        run.unlink()
    ran = begin("--execute")
    assert (ran.code, ran.err) == (EXIT_DAMAGE, "")
    _, *damages, unknown = ran.lines
    assert [run.name in line for line in damages] == [True] * (loss == "damaged")
    assert unknown.startswith(f"  no heads run covers addresses [{BORN}, ")
    assert unknown.endswith("): dead letters that lie there are not known")


def test_shard_whose_schemas_a_damaged_heads_run_alone_tells_is_refused(lab, begin):
    lab.published(50)
    lab.owner.stream.close()
    (run,) = heads_runs(lab)
    damage(run)
    ran = begin("--execute")
    expect_refusal(ran, EXIT_DAMAGE, f"{run.name} is damaged: `shardlog lake repair`")


def test_damaged_log_is_told_with_the_command_that_begins_it_anew(lab, shardlog):
    lab.published(100)
    published = lab.owner.stream.committed()[SHARD]
    lab.owner.stream.close()
    lose_shard(next(lab.owner.root.glob(f"{NAME}/shard-*")))
    for verb in ("check", "repair", "status"):
        ran = shardlog("lake", verb, lab.owner.root, NAME)
        assert ran.code == EXIT_DAMAGE, verb
        assert f"stream {NAME!r}, shard {SHARD}, at {lab.owner.root}" in ran.out, verb
        assert f"`shardlog lake begin {lab.owner.root} {NAME} --shard {SHARD}`" in ran.out, verb
    (status,) = shardlog("lake", "status", lab.owner.root, NAME, "--json").json_lines
    (unread,) = status["unread"]
    assert (status["shards"], unread["shard"], unread["published"]) == ([], SHARD, published)
    assert (unread["exit_code"], "lake begin" in unread["way_out"]) == (EXIT_DAMAGE, True)
