"""Goal: SQL is a good guest: of any path, on a full memory, and where somebody has had enough.

Method: real queries over real files, directories and signals.
"""

import subprocess
import sys

import numpy as np
import pytest

from storage_core.cold.sql import batches_of, connect
from tests.log.cold.cold_lab import NAME, ColdLab


@pytest.mark.parametrize("name", ["x[yz]w", "x?w", "x*", 'it\'s [a] "root"'])
def test_characters_of_patterns_in_a_path_stand_for_themselves(tmp_path, name):
    for number, root in enumerate((tmp_path / "xyw", tmp_path / name), 1):
        root.mkdir(exist_ok=True)
        lab = ColdLab(root)
        lab.append(np.random.default_rng(number), 10 * number)
        lab.stream.seal()
        lab.stream.close()
    _, batches = batches_of(tmp_path / name, f"SELECT count(*) AS n FROM {NAME}")
    assert [batch.to_pylist() for batch in batches] == [[{"n": 20}]]


def test_what_does_not_fit_memory_lies_in_no_directory_of_the_caller(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "there"))
    with connect(tmp_path, []) as streams:
        streams.connection.execute("SET memory_limit = '60MB'")
        streams.connection.execute("SET threads = 1")
        many = "SELECT range, md5(range::VARCHAR) AS text FROM range(2_000_000) ORDER BY text"
        streams.connection.execute(f"CREATE TEMP TABLE sorted AS {many}")
        assert [len(list(each.iterdir())) for each in (tmp_path / "here", tmp_path / "there")] == [
            0,
            1,
        ]
    assert list((tmp_path / "there").iterdir()) == []


INTERRUPTED = """
import os, signal, sys, threading
from storage_core.cold.sql import batches_of
threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    _, batches = batches_of(sys.argv[1], sys.argv[2])
    list(batches)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("asked", "rest"),
    [
        ("sum(hash(a.range, b.range))", ""),
        ("a.range, b.range", "WHERE hash(a.range, b.range) = 1"),
    ],
)
def test_interrupt_comes_out_of_a_query_as_one(tmp_path, asked, rest):
    ColdLab(tmp_path).stream.close()
    query = f"SELECT {asked} FROM range(10_000_000) a, range(100_000) b {rest}"
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), query]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (7, "")
