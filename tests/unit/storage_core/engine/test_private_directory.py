"""A reader's directory lives as long as the reader, and no longer than the next one."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from storage_core import UnavailableError
from storage_core.engine.private_directory import PrivateDirectory
from storage_core.platform.clock import SystemClock
from tests.descriptors import open_files


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))
    return tmp_path


def aged(path):
    """Make a directory look as if it had been there for an hour."""
    (path / "LOG").write_text("left behind")
    an_hour_ago = SystemClock().now_ns() / 10**9 - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    return path


def test_interruption_of_a_removal_is_told_and_not_what_it_broke(monkeypatch, temporary):
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            os.close(-1)

    made = PrivateDirectory(SystemClock())
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.remove()
    made.remove()
    assert list(temporary.iterdir()) == []


FORKED = """
import os
from storage_core.platform.clock import SystemClock
from storage_core.engine.private_directory import PrivateDirectory

made = PrivateDirectory(SystemClock())
child = os.fork()
if not child:
    made.remove()
    os._exit(0)
os.waitpid(child, 0)
print(made.path.exists())
made.remove()
"""


def test_forked_child_that_closes_leaves_the_directory_to_its_reader():
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, check=True)
    assert ran.stdout == b"True\n"


def test_directory_of_a_dead_reader_is_swept_by_the_next(temporary):
    orphan = temporary / "shardlog-reader-dead"
    orphan.mkdir()
    aged(orphan)
    PrivateDirectory(SystemClock()).remove()
    assert not orphan.exists()


@pytest.mark.usefixtures("temporary")
def test_directory_of_a_living_reader_is_left_alone():
    living = PrivateDirectory(SystemClock())
    aged(living.path)
    PrivateDirectory(SystemClock()).remove()
    assert (living.path / "LOG").exists()
    living.remove()


def test_directory_that_is_being_made_is_left_alone(temporary):
    young = temporary / "shardlog-reader-young"
    young.mkdir()
    PrivateDirectory(SystemClock()).remove()
    assert young.exists()


def test_directories_of_others_are_left_alone(temporary):
    other = temporary / "something-else"
    other.mkdir()
    aged(other)
    PrivateDirectory(SystemClock()).remove()
    assert other.exists()


def test_temporary_directory_that_is_gone_is_told_with_what_to_do(temporary):
    temporary.rmdir()
    with pytest.raises(UnavailableError, match=rf"TMPDIR.*No such file.*{temporary}"):
        PrivateDirectory(SystemClock())


def test_machine_without_a_temporary_directory_is_told_with_what_to_do(monkeypatch):
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(UnavailableError, match=r"TMPDIR.*No usable temporary directory"):
        PrivateDirectory(SystemClock())


def test_directory_that_cannot_be_locked_is_not_left_behind(temporary, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = open_files(temporary)
    with pytest.raises(UnavailableError, match="No locks available"):
        PrivateDirectory(SystemClock())
    assert (list(temporary.iterdir()), open_files(temporary)) == ([], before)
