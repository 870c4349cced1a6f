"""Buffers of blocks are used again and again, and not taken from the system for each."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions
from storage_core.platform.malloc import keep_large_buffers

BLOCKS = 40
BLOCK_ROWS = 5000
FAULTS_A_BLOCK_MAX = 5
PAGES_A_BLOCK = BLOCK_ROWS * 100 // 4096

# The process begins as glibc is at its worst; by itself it comes there by chance.
SCAN = """
import ctypes, resource, sys
from storage_core import StreamReader

for threshold in (-1, -3):
    assert ctypes.CDLL(None).mallopt(threshold, 131072) == 1
with StreamReader.open(sys.argv[1], "s") as reader:
    reader.refresh()
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for batch in reader.scan():
            pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

# As much as a worker frees at once: a round as it was fetched and as it was joined.
FREE_ROUNDS = """
import resource
import numpy as np
from storage_core.platform.malloc import keep_large_buffers

assert keep_large_buffers()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    round_ = [np.ones(3 * 2**20, np.uint8) for _ in range(8)]
    del round_
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
FAULTS_A_ROUND_MAX = 100


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("allocation")
    options = StreamOptions(shards=1, block_records=BLOCK_ROWS, block_bytes=2**20)
    rows = BLOCKS * BLOCK_ROWS
    chance = np.random.default_rng(7)
    batch = pa.record_batch(
        {
            "primary": np.arange(rows),
            "secondary": np.zeros(rows, dtype=np.int32),
            "payload": pa.array([chance.bytes(100)] * rows, pa.binary()),
        }
    )
    with Stream.create(root, "s", options) as stream:
        stream.append_batch(batch)
        stream.commit()
    return root


def faults_a_block(root, **environment):
    """Scan in another process, warm, and return how many pages a block cost it."""
    done = subprocess.run(
        [sys.executable, "-c", SCAN, str(root)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(done.stdout) / BLOCKS


def test_scan_uses_its_buffers_again(root):
    assert faults_a_block(root) < FAULTS_A_BLOCK_MAX


def test_scan_that_gives_its_buffers_back_pays_for_every_page(root):
    """What the setting saves, and that the test above can fail."""
    assert faults_a_block(root, MALLOC_TRIM_THRESHOLD_="16777216") > PAGES_A_BLOCK


def test_round_uses_the_buffers_of_the_last_again():
    done = subprocess.run([sys.executable, "-c", FREE_ROUNDS], stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) < FAULTS_A_ROUND_MAX


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_TRIM_THRESHOLD_", "1"), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1")],
)
def test_what_the_environment_says_goes_before(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert not keep_large_buffers.__wrapped__()
    monkeypatch.setenv(name, "")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    assert keep_large_buffers.__wrapped__()
