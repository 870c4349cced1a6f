"""Goal: whoever lists the Parquet files of a stream has each sealed row once, and no other row.

Method: files are listed by the patterns that other tools take, while parts are joined, made again
and expire, and after a process is killed between any two changes of names. Lists of before stay
good.
"""

import errno
import os
import shutil
from pathlib import Path
from subprocess import run
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from storage_core import Environment, Stream, UnavailableError
from storage_core.testing import ManualClock
from tests.log.parts.parts_lab import COLUMNS, NAME, PartsLab, rows_in

ROWS = 300


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A lab with parts that can be joined, in each shard and of each kind; its stream is closed."""
    environment = Environment(clock=ManualClock(), has_index_worker=False)
    lab = PartsLab(tmp_path_factory.mktemp("sealed"), environment)
    rng = np.random.default_rng(34)
    for _ in range(6):
        lab.append(rng, ROWS // 6)
        lab.stream.seal()
    lab.stream.close()
    return lab


@pytest.fixture
def lab(sealed, root, clock):
    lab = sealed.copied_to(root, Environment(clock=clock, has_index_worker=False))
    yield lab
    lab.stream.close()


def listed(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


def rows_seen(root: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in listed(root))


def names_of(stream: Stream) -> set[str]:
    return {part.path.stem for part in stream.parts()}


PATTERNS = [f"{NAME}/shard-*/parts/*.parquet", "**/*.parquet"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_row_is_seen_once_behind_a_compaction(lab, pattern):
    before = len(listed(lab.root))
    assert lab.stream.compact().parts_obsolete
    result: Any = duckdb.sql(
        f"SELECT count(*), count(DISTINCT (shard, address)) FROM '{lab.root}/{pattern}'"
    )
    assert result.fetchall() == [(ROWS, ROWS)]
    assert len(listed(lab.root)) < before
    assert {file.stem for file in listed(lab.root)} == names_of(lab.stream)


def test_no_row_is_seen_twice_while_parts_are_joined(lab, monkeypatch):
    seen = []

    def looking(usual):
        def call(*args, **options):
            answer = usual(*args, **options)
            seen.append(rows_seen(lab.root))
            return answer

        return call

    monkeypatch.setattr(os, "link", looking(os.link))
    monkeypatch.setattr(Path, "unlink", looking(Path.unlink))
    assert lab.stream.compact().parts_obsolete
    assert max(seen) == seen[-1] == ROWS


def test_name_that_the_system_does_not_let_go_goes_with_the_next_turn(lab, monkeypatch):
    def refused(*_args, **_options):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "link", refused)
        with pytest.raises(UnavailableError, match="Input/output error"):
            lab.stream.compact()
    assert rows_seen(lab.root) < ROWS
    lab.stream.maintain()
    assert rows_seen(lab.root) == ROWS


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV])
def test_file_system_without_hard_links_is_told(sealed, root, monkeypatch, code):
    lab = sealed.copied_to(root)
    lab.append(np.random.default_rng(36), 60)
    lab.stream.close()

    def refused(*_args, **_options):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "link", refused)
        with Stream.open(root, NAME) as stream:
            rows = stream.read().num_rows
            for _ in range(2):
                with pytest.raises(UnavailableError, match="parts need hard links"):
                    stream.seal()
            assert stream.read().num_rows == rows
    with Stream.open(root, NAME) as stream:
        stream.seal()
        assert rows_seen(root) == ROWS + 60


def test_what_others_put_beside_the_parts_stays(lab):
    directory = listed(lab.root)[0].parent
    theirs = [directory / name for name in ("mine.parquet", "part-1.parquet", "_SUCCESS")]
    for file in theirs:
        file.write_bytes(b"mine")
    lab.reopen()
    lab.stream.compact()
    assert all(file.exists() for file in theirs)


def test_names_that_were_removed_by_hand_are_there_again_behind_an_opening(lab):
    for file in listed(lab.root):
        file.unlink()
    lab.reopen()
    assert rows_seen(lab.root) == ROWS
    assert lab.stream.verify().is_clean


def test_copy_that_made_two_files_of_one_has_one_again(lab):
    lab.stream.close()
    for file in listed(lab.root):
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data)
    lab.stream = Stream.open(lab.root, NAME)
    assert all(file.stat().st_nlink == 2 for file in listed(lab.root))


COPIERS = {
    "cp -a": "cp -a --reflink=never {root}/. copy",
    "cp -r": "cp -r {root}/. copy",
    "tar": "tar -C {root} -cf all.tar . && tar -C copy -xf all.tar",
    "rsync -aH": "rsync -aH {root}/ copy",
    "rsync -a": "rsync -a {root}/ copy",
}
KEEP_ONE_FILE = {"cp -a", "tar", "rsync -aH"}


@pytest.mark.parametrize("copier", COPIERS)
def test_copy_by_whichever_tool_is_the_root(lab, tmp_path, copier):
    """As docs/OPERATIONS.md says of copies."""
    if shutil.which(copier.split()[0]) is None:
        pytest.skip(f"there is no {copier.split()[0]}")
    lab.stream.compact()
    lab.stream.trim()
    rows = lab.rows()
    lab.stream.close()
    copy = tmp_path / "copy"
    copy.mkdir()
    command = COPIERS[copier].format(root=lab.root)
    run(command, shell=True, cwd=tmp_path, check=True)  # noqa: S602 - as people write it
    twice = [file for file in listed(copy) if file.stat().st_nlink == 1]
    assert bool(twice) == (copier not in KEEP_ONE_FILE)
    assert rows_in(copy, [*COLUMNS, "committed_at_ms", lab.id_column]) == rows
    with Stream.open(copy, NAME) as stream:
        assert stream.verify().is_clean
        assert all(file.stat().st_nlink > 1 for file in listed(copy))
        stream.append(1, 1, b"one more")
    assert rows_seen(copy) == ROWS
