"""A table that was published and is gone is told by each command; none is made in its place.

Method: all files of the table are taken away, as where a disk is not mounted, and put back.
"""

import shutil
from contextlib import contextmanager
from datetime import timedelta

import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from storage_core.lake import lake_target
from tests.log.parts.parts_lab import NAME

COMMANDS = (
    ("publish",),
    ("publish", "--json"),
    ("status",),
    ("status", "--json"),
    ("check",),
    ("check", "--json"),
    ("check", "--read"),
    ("repair",),
    ("repair", "--json"),
    ("vacuum",),
)


@pytest.fixture(params=[None, timedelta(0)], ids=["parts here", "parts in the lake alone"])
def published(lab, request):
    """A lab whose parts are all in the table, and here or not."""
    lab.stream.alter(keep_local=request.param)
    lab.fill(200)
    assert lab.lake("publish").code == 0
    return lab


def take_away(lab):
    """Take all of the table away; return its files."""
    files = {path: lab.store.read(lab.target, path) for path in lab.store.paths(lab.target)}
    for path in files:
        lab.store.delete(lab.target, path)
    if lab.target.directory is not None:
        shutil.rmtree(lab.target.directory)
    return files


@contextmanager
def table_away(lab, *, has_directory=True):
    """Take all of the table away for a while; where it was mounted, a directory may be left."""
    files = take_away(lab)
    if lab.target.directory is not None and has_directory:
        lab.target.directory.mkdir()
    yield
    for path, data in files.items():
        lab.store.write(lab.target, path, data)


def expect_lost(lab, *command):
    ran = lab.lake(*command)
    assert (ran.code, ran.out, ran.err.count("\n")) == (EXIT_UNAVAILABLE, "", 1), command
    assert f"there is no table at {lab.target.uri}, " in ran.err
    assert f"`shardlog alter {lab.root} {NAME} lake=…`" in ran.err


@pytest.mark.parametrize("has_directory", [True, False])
def test_lost_table_is_told_by_each_command_and_none_is_made_in_its_place(published, has_directory):
    with table_away(published, has_directory=has_directory):
        for command in COMMANDS:
            expect_lost(published, *command)
        assert published.store.paths(published.target) == []
        if published.target.directory is not None:
            assert published.target.directory.exists() == has_directory
    assert published.lake("check", "--read").code == 0


def test_new_rows_are_not_published_in_the_place_of_a_lost_table(published):
    with table_away(published):
        published.fill(50)
        expect_lost(published, "publish")
        assert published.store.paths(published.target) == []
    assert published.lake("publish").code == 0
    published.check()


def test_verify_says_after_a_publish_in_vain_what_it_said_before(lab, shardlog, monkeypatch):
    monkeypatch.setenv("SHARDLOG_LAKE_OPTIONS_FILE", str(lab.root.parent / "options.toml"))
    lab.stream.alter(keep_local=timedelta(0))
    lab.fill(50)
    assert lab.lake("publish").code == 0
    with table_away(lab):
        before = shardlog("verify", lab.root, NAME)
        expect_lost(lab, "publish")
        assert shardlog("verify", lab.root, NAME) == before
    assert before.code == EXIT_UNAVAILABLE


def test_store_that_is_gone_for_good_is_left_for_another_from_the_first_part_on(lab):
    lab.fill(200)
    assert lab.lake("publish").code == 0
    take_away(lab)
    lab.target = lake_target(f"{lab.target.uri}-2", lab.target.options)
    lab.stream.alter(lake=lab.target.uri)
    ran = lab.lake("publish")
    assert (ran.code, ran.err) == (0, "")
    assert set(lab.places()) == lab.visible()
    assert lab.lake("check", "--read").code == 0


def test_table_that_is_gone_for_good_is_made_anew_where_that_is_said(published):
    is_here = published.stream.options.keep_local is None
    take_away(published)
    ran = published.lake("publish", "--create-table")
    if not is_here:
        assert (ran.code, ran.out) == (EXIT_UNAVAILABLE, "")
        assert published.store.paths(published.target) == []
        return
    assert (ran.code, ran.err) == (0, "")
    published.check()
    assert published.lake("check", "--read").code == 0


def test_table_is_not_made_anew_while_a_shard_cannot_be_read(lab):
    lab.fill(200)
    assert lab.lake("publish").code == 0
    lab.stream.close()
    (lab.root / NAME / "shard-0000" / "marker").unlink()
    take_away(lab)
    ran = lab.lake("publish", "--create-table")
    assert (ran.code, ran.out) == (EXIT_UNAVAILABLE, "")
    assert lab.store.paths(lab.target) == []
