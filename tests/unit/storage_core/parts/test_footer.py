"""What it means that the bytes of a part could not be read."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from storage_core import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.parts.footer import read_error

PATH = Path("part-0000000000.parquet")


def refused(number):
    return read_error(PATH, OSError(number, os.strerror(number)))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_right_that_lacks_says_nothing_of_the_file(number):
    rows = refused(number)
    assert isinstance(rows, InvalidRequestError)
    assert "give this process the right to read here" in str(rows)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_the_system_refuses_says_nothing_of_the_file(number):
    rows = refused(number)
    assert isinstance(rows, UnavailableError)
    assert os.strerror(number) in str(rows)
    assert rows.path == PATH


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed")])
def test_memory_that_lacks_says_nothing_of_the_file(error):
    rows = read_error(PATH, error)
    assert isinstance(rows, UnavailableError)
    assert rows.path == PATH


@pytest.mark.parametrize("number", [errno.EISDIR, errno.ENOTDIR, errno.ELOOP])
def test_what_is_no_file_is_damage(number):
    assert isinstance(refused(number), CorruptionError)


@pytest.mark.parametrize("error", [OSError("no Parquet"), pa.ArrowInvalid("no\nParquet")])
def test_bytes_that_are_no_part_are_damage(error):
    rows = read_error(PATH, error)
    assert isinstance(rows, CorruptionError)
    assert str(rows).count("\n") == 0
    assert str(PATH) in str(rows)


def test_file_that_is_gone_is_looked_for_anew():
    assert isinstance(refused(errno.ENOENT), FileNotFoundError)
