"""`shardlog verify` and `shardlog accept-loss`, on stores that are whole and that are not."""

import shutil

import pytest

from storage_core import Stream, StreamOptions, StreamReader

NAME = "orders"


@pytest.fixture
def root(tmp_path):
    """A stream of three records; its shard 0 held two of them."""
    with Stream.create(tmp_path, NAME, StreamOptions(shards=2)) as stream:
        stream.append(1, 0, b"a")
        stream.append(2, 0, b"b")
        stream.append(1, 1, b"c")
    return tmp_path


@pytest.fixture
def damaged(root):
    """The same; the store of shard 0 is gone, and a writer has noticed."""
    shutil.rmtree(root / NAME / "shard-0000" / "db")
    Stream.open(root, NAME).close()
    return root


def test_whole_stream_is_called_so(shardlog, root):
    ran = shardlog("verify", root)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[:2] == [
        "orders: 3 rows checked, 0 of them late: no problems",
        "  read: 2 blocks of the log, 0 parts",
    ]
    assert all("not checked: " in line for line in ran.lines[2:])
    assert len(ran.lines) > 2


def test_damage_is_named_and_ends_with_exit_code_5(shardlog, damaged):
    ran = shardlog("verify", damaged, NAME)
    assert ran.code == 5
    assert ran.lines[0].endswith(": 1 problem")
    assert [NAME, "0", "0", "2"] in [line.split()[:4] for line in ran.lines]
    (parsed,) = shardlog("verify", damaged, NAME, "--json").json_lines
    assert [(one["shard"], one["start"], one["end"]) for one in parsed] == [(0, 0, 2)]


def lost(root):
    with StreamReader.open(root, NAME) as reader:
        return reader.lost_ranges()[0]


def test_loss_is_accepted_only_when_told_to(shardlog, damaged):
    loss = ["--shard=0", "--start=0", "--end=2"]
    ran = shardlog("accept-loss", damaged, NAME, *loss)
    assert ran.code == 0
    assert "--execute" in ran.out
    assert lost(damaged) == [(0, 2)]
    assert shardlog("accept-loss", damaged, NAME, *loss, "--execute").code == 0
    assert lost(damaged) == []
    assert shardlog("read", damaged, NAME, "--count").out == "1\n"


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_range_that_is_not_lost_is_refused_and_those_lost_are_named(shardlog, damaged, execute):
    loss = ["--shard=0", "--start=0", "--end=1", *execute]
    ran = shardlog("accept-loss", damaged, NAME, *loss)
    assert (ran.code, ran.out) == (2, "")
    assert "[0,2)" in ran.err
