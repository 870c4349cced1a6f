"""A directory is known again by its inode, where that says something, and a copy never is."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from streaming_jobs.common.same_directory import DirectoryIdentity

FILE = "made.json"


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "one"
    directory.mkdir()
    (directory / FILE).write_text("made")
    return directory


@pytest.fixture
def here(directory):
    return DirectoryIdentity.of(directory, FILE)


def test_directory_stays_the_same_whatever_it_is_called_and_comes_to_hold(directory, here):
    moved = directory.rename(directory.with_name("moved"))
    (moved / "more").write_text("more")
    link = directory.with_name("link")
    link.symlink_to(moved)
    assert here.is_same(DirectoryIdentity.of(moved, FILE))
    assert here.is_same(DirectoryIdentity.of(link, FILE))


def test_copy_is_another_directory(directory, here):
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    assert not here.is_same(DirectoryIdentity.of(copy, FILE))


def test_other_file_system_of_one_machine_has_a_copy(here):
    local = replace(here, is_local=True)
    assert not local.is_same(replace(local, device=here.device + 1))


def test_local_disk_of_another_machine_has_a_copy_though_every_number_is_the_same(here):
    local = replace(here, is_local=True)
    assert not local.is_same(replace(local, machine="another"))


@pytest.mark.parametrize("is_local", [True, False], ids=["server", "client"])
def test_network_file_system_is_known_again_on_another_machine(here, is_local):
    seen = replace(here, is_local=is_local)
    elsewhere = replace(here, machine="another", device=here.device + 1, is_local=False)
    assert seen.is_same(elsewhere)
    assert not seen.is_same(replace(elsewhere, inode=here.inode + 1))
    assert not seen.is_same(replace(elsewhere, made_ns=here.made_ns + 1))
    assert not seen.is_on_one_machine(elsewhere)


@pytest.mark.parametrize("place", ["/proc", "/sys"])
def test_file_system_that_nobody_knows_counts_as_shared(place):
    file = {"/proc": "version", "/sys": "kernel"}[place]
    assert not DirectoryIdentity.of(Path(place), file).is_local


def test_memory_is_local():
    assert DirectoryIdentity.of(Path("/dev/shm"), ".").is_local  # noqa: S108 - nothing is written
